"""Nothing is decided on unknown, nobody is released without proof, and nobody is fought (invariants 1, 2 and 4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, EffectStatus, Phase, Purpose, Run, RunOutcome, Step
from quarantine.core.decision import Action, Decision, State
from quarantine.core.marks import case_on
from quarantine.core.model import Failed, Mode, Node, Verdict
from quarantine.core.workload import Class
from tests.core.invariants.cycle import HOUR, REMEDIES, Cycle, place_of

# --- 1 ----------------------------------------------------------------------------------------------------------------


def nothing_is_decided_on_unknown(c: Cycle) -> None:
    """Missing, partial and failed answers neither quarantine nor release (invariant 1)."""
    works = c.look.workloads
    for state, d in c.decided:
        policy = c.law.policy(d.policy) if d.policy is not None else None
        if d.action in (Action.QUARANTINE, Action.JOIN) and policy is not None:
            assert d.node is not None
            assert d.device is not None
            assert c.finds(policy, (d.node, d.device.name)), f"{d.action} of {d.node} without evidence of now"
            assert any(not isinstance(a, Failed) for a in c.look.answers[policy.name].coverage.values())
        if d.action is Action.RECOVER:
            assert policy is not None
            assert d.node is not None
            assert d.device is not None
            assert c.shows_good(policy, (d.node, d.device.name)), "a recovery without evidence"
            assert not any(isinstance(a, Failed) for a in c.look.answers[policy.name].trigger.values())
        if d.action is Action.DISMISS and c.ours(d):
            _dismissed_knowingly(c, state, d)
        if d.action is Action.EVICT or d.phase in (Phase.DRAINED, Phase.REMEDY, Phase.SWAP_REQUESTED):
            failed_remedy = d.phase is Phase.DRAINED and d.run is not None
            assert failed_remedy or (not isinstance(works, Failed) and d.node in works.nodes), "pods are not known"
        if d.phase in (Phase.REMEDY, Phase.SWAP_REQUESTED):
            assert not isinstance(works, Failed)
            left = [pod for pod in works.nodes[d.node or ""] if d.phase is Phase.REMEDY or pod.kind is Class.TRAINING]
            assert not left, "a remedy is begun under what runs there"
        if d.run is not None and d.run.outcome in (RunOutcome.SUCCEEDED, RunOutcome.FAILED, RunOutcome.LOST):
            abandoned = state.cases[d.case or ""].effects.get(Effect.RUN)
            given_up = abandoned is not None and abandoned.status is EffectStatus.ABANDONED
            silent = d.run.outcome is RunOutcome.LOST and c.look.now >= d.run.until  # long enough for a person to look
            assert not isinstance(c.look.runs, Failed) or given_up or silent or d.action is Action.SWAP, (
                "no runner answered"
            )


def _dismissed_knowingly(c: Cycle, state: State, d: Decision) -> None:
    """By a person's taint, or since what stood is known to stand no more, or since no policy would act on it."""
    assert d.case is not None
    before = state.cases[d.case]
    if d.until is not None or (before.waits_for_mark and not c.acting(before)):
        return
    for finding in before.findings:
        policy = c.law.policy(finding.policy)
        if policy is None or finding.verdict is Verdict.GOOD:
            continue
        assert c.told(policy), f"case {before.id} ends, and {policy.name} is not answered"
        assert not c.finds(policy, place_of(finding, before.node)), f"case {before.id} ends, and is bad"
        assert before.node not in c.maintained


# --- 2 ----------------------------------------------------------------------------------------------------------------


def released_on_proof_or_by_a_person(c: Cycle) -> None:
    """Idle proves nothing: after a remedy, a swap, a person's repair, or on evidence under load (invariant 2)."""
    for state, d in c.decided:
        known = state.cases.get(d.case or "")
        if d.phase is Phase.PROBATION and d.action is Action.PROVE and c.ours(d) and known is not None:
            assert known.phase is Phase.SWAPPED or not known.told_provider, "metrics begin what ends a told case"
        if d.phase is not Phase.RELEASED or not c.ours(d):
            continue
        case = state.cases[d.case or ""]
        assert d.action is Action.RELEASE
        assert case.phase is Phase.PROBATION
        assert not case.by_person, "a person's own case ends by measurements"
        proofs = list(_proofs(c, case))
        assert proofs, f"{case.node} is released without any proof"
        # A ledger that was restored may have lost that it told anybody.
        if case.told_provider or (case.id in c.world.watch.told and not c.world.restores):
            asked = max((r.at for r in case.rungs if r.step in (Step.REPORT, Step.REPLACE)), default=case.opened_at)
            assert any(kind in ("swap", "person") and at >= asked for kind, at in proofs), "metrics close a told case"
        _not_bad(c, case)
        gated = case.gate and any(pool.gate for pool in c.law.fleet.pools if pool.name == case.pool)
        if gated or any(p.spec.response.release.burn_in for p in c.acting(case)):
            run = case.last_run(Purpose.BURN_IN)
            assert run is not None
            assert _succeeded(c, run), "a burn-in was asked for, and has not succeeded"
            assert run.asked_at >= case.phase_since
        assert all(p.spec.response.release.when == "on-proof" for p in c.acting(case))
        waits = [p.spec.response.release.probation for p in c.acting(case)]
        assert c.look.now >= case.phase_since + max(waits, default=timedelta(0))


def _proofs(c: Cycle, case: Case) -> Iterator[tuple[str, datetime]]:
    """What speaks for the machine, with when."""
    for run in case.runs:
        if run.purpose in REMEDIES and _succeeded(c, run):
            yield "remedy", run.asked_at
        if case.gate and run.purpose is Purpose.BURN_IN and _succeeded(c, run):
            yield "gate", run.asked_at
    pool = next((pool for pool in c.law.fleet.pools if pool.name == case.pool), None)
    if case.gate and not case.findings and (pool is None or pool.gate is None):
        yield "gate", case.opened_at  # it is no more, and stops nobody
    if (at := c.world.swapped.get(case.node)) is not None and at >= case.opened_at and case.swapped_at is not None:
        yield "swap", case.swapped_at
    for decision in c.world.book.trail:
        if decision.case == case.id and decision.action is Action.PROVE and decision.request is not None:
            yield "person", decision.at
    standing = [f for f in case.findings if c.law.policy(f.policy) is not None]
    if standing and all(f.verdict is Verdict.GOOD for f in standing):
        yield "evidence", max(f.ended[-1] for f in standing)


def _succeeded(c: Cycle, run: Run) -> bool:
    said = c.world.runner.ended.get(run.name)
    return said is not None and said.outcome is RunOutcome.SUCCEEDED


def _not_bad(c: Cycle, case: Case) -> None:
    """Everything that was found is known not to be found now, of a machine that is seen."""
    for finding in case.findings:
        policy = c.law.policy(finding.policy)
        if policy is not None:
            assert c.told(policy, case.node), f"{case.node} is released, and {policy.name} does not see it"
            assert not c.finds(policy, place_of(finding, case.node))


# --- 4 ----------------------------------------------------------------------------------------------------------------


def a_person_who_takes_the_taint_away_is_not_fought(c: Cycle) -> None:
    """Only our taint, removed by a person, puts a machine back; a program that rewrites the list does not."""
    blind = {"sight", "restored"} & c.after.holds.keys()
    for name, managers in c.world.removers.items():
        node, case = c.look.nodes.get(name), c.before.open_case_of(name)
        if node is None or case is None or not _was_marked(case, node) or case_on(node, c.law.prefix) is not None:
            continue
        ended = c.after.cases[case.id]
        by_person = all(m.startswith("kubectl") for m in managers) and not node.tainted_by.startswith("rewriter")
        if by_person and not blind and name not in c.maintained and node.tainted_by in ("", *managers):
            assert not ended.open, f"a person put {name} back"
        if not by_person and node.tainted_by in managers:
            told = [d for _, d in c.decided if d.case == case.id and d.phase is Phase.DISMISSED and c.ours(d)]
            assert not any("by hand" in d.reason for d in told), "a program's work is taken for a person's word"
    for state, d in c.decided:
        if d.action is Action.REMARK:
            _put_back_patiently(c, state.cases[d.case or ""])


def _was_marked(case: Case, node: Node) -> bool:
    mark = case.effects.get(Effect.MARK)
    done = mark is not None and mark.status is EffectStatus.DONE
    return case.marked and done and node.machine.node_uid == case.machine.node_uid


def _put_back_patiently(c: Cycle, case: Case) -> None:
    now, node = c.look.now, c.look.nodes[case.node]
    assert c.look.mode is Mode.ENFORCE
    assert case_on(node, c.law.prefix) != case.id
    assert node.tainted_by, "nobody owns the list: a person took the last taint away"
    assert not node.tainted_by.startswith("kubectl")
    if node.tainted_by in c.law.fleet.automata:
        assert all(now >= at + timedelta(minutes=5) for at in case.put_back)
    else:
        assert sum(1 for at in case.put_back if at > now - HOUR) < 3, "a taint is fought over"


def nothing_goes_on_once_our_cordon_is_gone(c: Cycle) -> None:
    """A vanished cordon stops the drain and asks; so does a taint that is not there."""
    for state, d in c.decided:
        if d.action is Action.EVICT or d.phase is Phase.DRAINING:
            case, node = state.cases[d.case or ""], c.look.nodes[d.node or ""]
            assert case_on(node, c.law.prefix) == case.id
            assert not case.cordoned_by_us or node.unschedulable
