"""What must hold of every plan, whatever was seen: the invariants of the design, each stated beside the code.

They are told from the snapshot and from what is true of the world, not by asking the planner's own rules, wherever
that can be said shortly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from quarantine.core import maintenance, pauses, signs
from quarantine.core.case import Case, Effect, EffectStatus, Finding, HeldBy, Phase, Purpose, Run, RunOutcome, Step
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State, WordKind
from quarantine.core.lifecycle import TRANSITIONS
from quarantine.core.marks import case_on
from quarantine.core.model import Failed, Mode, Node, Severity, Verdict
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import evolve
from quarantine.core.waivers import BY_ANNOTATION
from tests.core.invariants.laws import DOMAIN
from tests.core.invariants.prom import Place

if TYPE_CHECKING:
    from tests.core.invariants.world import World

HOUR = timedelta(hours=1)
SHOWS = {Effect.UNMARK, Effect.STOP, Effect.CONDITION, Effect.CLOSE, Effect.PHASE}  # what takes away, or only shows
ACTS = {Action.EVICT, Action.STEP, Action.TICKET, Action.NOTIFY}
REMEDIES = (Purpose.RESET, Purpose.REBOOT)


@dataclass(frozen=True)
class Cycle:
    """A plan, with what it was made from and what it makes of the state."""

    world: World
    look: Snapshot
    law: Rules
    made: Plan
    before: State
    after: State

    @cached_property
    def steps(self) -> list[tuple[State, Decision]]:
        """Each decision with the state in which it was taken."""
        state, found = self.before, []
        for decision in self.made.decisions:
            found.append((state, decision))
            state = evolve(state, decision)
        assert state == self.after
        return found

    @property
    def decided(self) -> Iterator[tuple[State, Decision]]:
        """Without what is held."""
        return ((state, d) for state, d in self.steps if d.kind is Kind.DECIDED)

    def case(self, decision: Decision) -> Case:
        """As the decision leaves it at the end of the plan."""
        assert decision.case is not None
        return self.after.cases[decision.case]

    def ours(self, decision: Decision) -> bool:
        """Whether nobody asked for it."""
        return decision.request is None and decision.actor == self.look.actor

    # --- What is true -------------------------------------------------------------------------------------------------

    def told(self, policy: LoadedPolicy, node: str | None = None) -> bool:
        """Whether a policy was answered in full, so that what it does not find bad (there) is not bad."""
        said = self.look.answers[policy.name]
        full = not any(isinstance(a, Failed) for a in (*said.trigger.values(), *said.coverage.values()))
        return full and (node in self.world.prom.seen() if node is not None else bool(self.world.prom.seen()))

    def finds(self, policy: LoadedPolicy, place: Place) -> bool:
        """Whether a policy's trigger names the device in this cycle."""
        prom = self.world.prom
        answered = any(not isinstance(a, Failed) for a in self.look.answers[policy.name].trigger.values())
        return answered and place[0] in prom.seen() and place in self._devices(policy) and prom.is_bad(policy, place)

    def shows_good(self, policy: LoadedPolicy, place: Place) -> bool:
        """Whether its recovery names it."""
        prom = self.world.prom
        answers = self.look.answers[policy.name].recovery.values()
        answered = bool(answers) and not any(isinstance(a, Failed) for a in answers)
        here = place[0] in prom.seen() & prom.loaded and place in self._devices(policy)
        return answered and here and not prom.is_bad(policy, place)

    def _devices(self, policy: LoadedPolicy) -> set[Place]:
        return set(self.world.prom.devices(policy))

    def bad_nodes(self, policy: LoadedPolicy) -> set[str]:
        """On which it finds anything."""
        return {place[0] for place in self._devices(policy) if self.finds(policy, place)}

    @cached_property
    def maintained(self) -> set[str]:
        """The nodes with planned work under way, as of the end of the plan."""
        nodes, now, prefix = self.look.nodes, self.look.now, self.law.prefix
        by_words = maintenance.under_words(nodes, self.after.words.values(), now)
        return {*by_words, *signs.worked_on(nodes, prefix, now), *(n for n in nodes if "ops/work" in nodes[n].labels)}

    def acting(self, case: Case) -> list[LoadedPolicy]:
        """The policies that found something on the case's machine and take machines out."""
        found = (self.law.policy(finding.policy) for finding in case.findings)
        return [p for p in found if p is not None and p.spec.mode is Mode.ENFORCE and p.spec.response.taint]


def check(cycle: Cycle) -> None:
    """All of them."""
    for invariant in (
        nothing_is_decided_on_unknown,
        released_on_proof_or_by_a_person,
        a_person_who_takes_the_taint_away_is_not_fought,
        nothing_goes_on_once_our_cordon_is_gone,
        budgets_hold,
        releases_are_never_blocked,
        a_policy_that_finds_too_much_takes_nobody_out,
        what_is_new_settles,
        machines_that_fail_together_are_not_taken_out,
        people_outrank_us,
        only_what_is_seen_leaves,
        every_case_goes_on_or_is_told,
        observing_does_nothing,
        a_case_that_ended_never_changes,
        a_case_has_one_machine_and_one_procedure,
        every_word_ends,
    ):
        invariant(cycle)


def _place(finding: Finding, node: str) -> Place:
    return (node, finding.device.name)


# --- 1 ----------------------------------------------------------------------------------------------------------------


def nothing_is_decided_on_unknown(c: Cycle) -> None:
    """Missing, partial and failed answers neither quarantine nor release (invariant 1)."""
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
            works = c.look.workloads
            assert failed_remedy or (not isinstance(works, Failed) and d.node in works.nodes), "pods are not known"
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
        assert not c.finds(policy, _place(finding, before.node)), f"case {before.id} ends, and is bad"
        assert before.node not in c.maintained


# --- 2 ----------------------------------------------------------------------------------------------------------------


def released_on_proof_or_by_a_person(c: Cycle) -> None:
    """Idle proves nothing: after a remedy, a swap, a person's repair, or on evidence under load (invariant 2)."""
    for state, d in c.decided:
        if d.phase is not Phase.RELEASED or not c.ours(d):
            continue
        case = state.cases[d.case or ""]
        assert d.action is Action.RELEASE
        assert case.phase is Phase.PROBATION
        assert not case.by_person, "a person's own case ends by measurements"
        proofs = list(_proofs(c, case))
        assert proofs, f"{case.node} is released without any proof"
        if case.told_provider or case.id in c.world.watch.told:
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
            assert not c.finds(policy, _place(finding, case.node))


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


# --- 5 ----------------------------------------------------------------------------------------------------------------


def budgets_hold(c: Cycle) -> None:
    """What we took out, all that is out, and the pace; from the cluster and the ledger alone (invariant 5)."""
    for state, d in c.decided:
        if d.action is not Action.QUARANTINE or not c.ours(d) or d.policy is None:
            continue
        node = c.look.nodes[d.node or ""]
        budget = d.budget
        assert budget is not None
        trail = [e for e in c.world.book.trail if e.action is Action.QUARANTINE and e.kind is Kind.DECIDED]
        trail += [e for e in c.made.decisions[: c.made.decisions.index(d)] if e in trail or _taken(e)]
        recent = sum(1 for e in trail if e.pool == d.pool and e.at > c.look.now - HOUR)
        assert recent < budget.limit_recent, "the pace is exceeded, whatever was restarted"
        if node.ready is False:
            continue
        pool = [n for n in c.look.nodes.values() if _pool(n) == d.pool]
        marked = {case.node for case in state.cases.values() if case.marked and not case.gate}
        ours = [n for n in pool if n.name in marked and n.ready is not False]
        assert len(ours) < budget.limit_ours, "too many are out by our doing"
        coming = {
            case.node for case in state.cases.values() if case.marked and case.gate
        }  # that a pool grows costs none
        out = {n.name for n in pool if n.name in marked or n.unschedulable or not n.ready} - coming
        out |= {n.name for n in pool if _stranded(c, n, pool, out)} - coming
        if node.name not in out:
            assert len(out) < budget.limit_out, "too many are out for any reason"
            spares = budget.spares
            assert spares is None or d.severity is Severity.FATAL or len(out) < spares, "no spare is left"


def _stranded(c: Cycle, node: Node, pool: list[Node], out: set[str]) -> bool:
    """Whether too few of its domain are left for any job."""
    rule = next(p.domain for p in c.law.fleet.pools if p.name == _pool(node))
    if rule is None:
        return False
    usable = [n for n in pool if n.labels[DOMAIN] == node.labels[DOMAIN] and n.name not in out]
    return len(usable) < rule.machines


def _taken(d: Decision) -> bool:
    return d.action is Action.QUARANTINE and d.kind is Kind.DECIDED


def _pool(node: Node) -> str:
    return {"yes": "gpu", "small": "small"}.get(node.labels.get("gpu", ""), "")


def releases_are_never_blocked(c: Cycle) -> None:
    """Neither a budget nor a breaker, a pause or the observing mode keeps a person from releasing a machine."""
    for request in c.look.requests:
        if request.kind is not RequestKind.RELEASE or request.id in c.before.answered:
            continue
        answers = [(state, d) for state, d in c.steps if d.request == request.id]
        assert len(answers) == 1, "every request gets one answer"
        state, d = answers[0]
        was = state.open_case_of(request.node)
        if was is not None and request.at < was.opened_at:
            assert d.case is None, "a word about an earlier case touches a later one (invariant 16)"
            continue
        assert was is None or not c.after.cases[was.id].open, f"{request.node} was to be released"
        assert was is None or d.phase in (Phase.RELEASED, Phase.DISMISSED)


# --- 6 and 7 ----------------------------------------------------------------------------------------------------------


def a_policy_that_finds_too_much_takes_nobody_out(c: Cycle) -> None:
    """The breaker of a policy (invariant 6)."""
    for _, d in c.decided:
        policy = c.law.policy(d.policy) if d.policy is not None else None
        if d.action is not Action.QUARANTINE or policy is None or not c.ours(d):
            continue
        found = [place for place in c.world.prom.devices(policy) if c.finds(policy, place)]
        seen = [place for place in c.world.prom.devices(policy) if place[0] in c.world.prom.seen()]
        if len({node for node, _ in found}) > 1:
            assert len(found) <= policy.spec.breaker.max_share * len(seen), f"{policy.name} empties the fleet"


def what_is_new_settles(c: Cycle) -> None:
    """A finding is not acted on before others had time to join it (invariant 7)."""
    for state, d in c.decided:
        policy = c.law.policy(d.policy) if d.policy is not None else None
        if d.action is not Action.QUARANTINE or policy is None or not c.ours(d):
            continue
        assert policy.spec.mode is Mode.ENFORCE
        assert policy.spec.response.taint
        rule, case = policy.spec.correlation, state.open_case_of(d.node or "")
        if rule is not None and rule.settle is not None:
            since = [f.since for f in case.findings if f.key == (d.policy, d.device)] if case is not None else []
            assert since, "it is acted on in the cycle in which it is found"
            assert c.look.now >= min(since) + rule.settle


def machines_that_fail_together_are_not_taken_out(c: Cycle) -> None:
    """A rack that fails at once, while nothing fails elsewhere, is the suspect and not its machines (invariant 7)."""
    watch = c.world.watch
    for policy in c.law.policies:
        rule = policy.spec.correlation
        begun = watch.begins.setdefault(policy.name, {})
        bad = {name for name in c.bad_nodes(policy) if _pool(c.look.nodes[name])}
        for name in bad - begun.keys():
            begun[name] = c.look.now
        if rule is None or c.maintained:
            continue
        for rack in range(3):
            members = {f"node-{n}" for n in range(3 * rack, 3 * rack + 3)} & c.look.nodes.keys()
            fresh = {name for name in bad & members if begun[name] == c.look.now}
            if len(fresh) < rule.machines or begun.keys() - members or any(c.before.dismissals):
                continue
            acts = [d for _, d in c.decided if d.node in fresh and d.policy == policy.name and _taken(d) and c.ours(d)]
            excused = {n for n in fresh if n == "node-6" or c.look.nodes[n].labels.get(f"{c.law.prefix}/ignore")}
            assert len(fresh - excused) < rule.machines or not acts, "a rack that fails at once is itself the suspect"


# --- 9 ----------------------------------------------------------------------------------------------------------------


def people_outrank_us(c: Cycle) -> None:
    """Planned work, pauses and the opt-out label suspend what we would do (invariant 9)."""
    for state, d in c.decided:
        if not c.ours(d) or d.node is None:
            continue
        case = c.after.cases.get(d.case or "")
        new = d.action in ACTS or (d.action is Action.RUN and Effect.RUN in d.effects) or d.phase is Phase.DRAINING
        if d.node in c.maintained:
            assert not new, f"{d.action} during planned work"
            assert d.action not in (Action.QUARANTINE, Action.JOIN) or (case is not None and case.by_person)
        if new or _taken(d):
            pool = case.pool if case is not None else d.pool
            assert pauses.pause(c.after.words, c.look.now, pool=pool) is None, f"{d.action} under a pause"
        if _taken(d) and d.policy is not None:
            node = c.look.nodes[d.node]
            assert node.labels.get(f"{c.law.prefix}/ignore") != "true"
            assert node.name not in c.law.fleet.never_touch
            assert _pool(node), "a machine of no pool is taken out"
            word = pauses.pause(c.after.words, c.look.now, policy=d.policy)
            assert word is None, "a policy acts that is paused"
            _not_waived(c, state, d)


def _not_waived(c: Cycle, state: State, d: Decision) -> None:
    """A waiver covers all that is not fatal, and what it was given for."""
    node = c.look.nodes[d.node or ""]
    case = state.open_case_of(node.name)
    for word in state.dismissals:
        if word.node != node.name or word.until <= c.look.now or word.by == BY_ANNOTATION:
            continue
        if word.machine.node_uid != node.machine.node_uid or (case is not None and case.by_person):
            continue
        assert d.evidence is not None
        assert (d.evidence.signal, d.device) not in word.findings, "a person's word on this finding is not heeded"
        assert not word.waiver or d.severity is Severity.FATAL, "a waived machine is taken out"


# --- 10 ---------------------------------------------------------------------------------------------------------------


def only_what_is_seen_leaves(c: Cycle) -> None:
    """Evictions name pods that are there now, of a machine whose policy lets it be drained (invariant 10)."""
    works = c.look.workloads
    for state, d in c.decided:
        assert not (d.leaving is not None and Effect.EVICT not in d.effects)
        if d.leaving is None:
            continue
        assert not isinstance(works, Failed)
        here = {pod.ref: pod for pod in works.nodes[d.node or ""]}
        assert len(set(d.leaving.pods)) == len(d.leaving.pods) > 0
        assert all(ref in here and not here[ref].terminating for ref in d.leaving.pods)
        case = c.after.cases[d.case or ""]
        assert case.phase is Phase.DRAINING
        assert any(p.spec.response.drain.when != "never" for p in c.acting(state.cases[case.id]))


# --- 11 ---------------------------------------------------------------------------------------------------------------


def every_case_goes_on_or_is_told(c: Cycle) -> None:
    """Each phase has an exit, a deadline and somebody who is told when it passes (invariant 11)."""
    if {"sight", "restored"} & c.after.holds.keys():
        return
    for case in c.after.cases.values():
        if not case.open:
            continue
        told = [key for key in c.after.holds if case.id in key.split("/")]
        limit = TRANSITIONS[case.phase].deadline
        assert limit is not None
        # What disturbs a probation begins its time anew, and is said.
        trail = [*c.world.book.trail, *c.made.decisions]
        proved = [d.at for d in trail if d.case == case.id and d.action is Action.PROVE]
        since = max([case.phase_since, *proved])
        if c.look.now >= since + max(limit, timedelta(days=2)) + timedelta(days=2):
            assert told, f"{case.node} is {case.phase} since {case.phase_since}, and nobody knows"


# --- 12 ---------------------------------------------------------------------------------------------------------------


def observing_does_nothing(c: Cycle) -> None:
    """Neither where the installation only observes, nor where its ledger is too old (invariant 12)."""
    if c.look.mode is Mode.OBSERVE:
        assert c.made.observe_only
        for _, d in c.steps:
            # What was marked before stays so: its mark follows it to another Node object once it may be written.
            if d.action not in (Action.ADOPT, Action.FOLLOW, Action.SWAP):
                assert set(d.effects) <= SHOWS, f"{d.action} asks for {d.effects} while the installation observes"
    if "restored" in c.after.holds:
        for _, d in c.steps:
            assert set(d.effects) <= SHOWS, f"{d.action} asks for {d.effects} while the ledger is too old"


# --- 16, and the ledger ----------------------------------------------------------------------------------------------


def a_case_that_ended_never_changes(c: Cycle) -> None:
    """No late message, and no later case, touches it (invariant 16)."""
    for key, case in c.before.cases.items():
        if not case.open:
            assert c.after.cases[key] == case
    for _, d in c.steps:
        assert d.kind in (Kind.DECIDED, Kind.HELD)
        assert not d.effects or d.case is not None
        about = c.after.cases.get(d.case or "")
        assert about is None or d.node == about.node
    assert c.before.ended <= c.after.ended


def a_case_has_one_machine_and_one_procedure(c: Cycle) -> None:
    """At most one open case of a node, one running procedure of a case; none is ever begun again."""
    nodes = [case.node for case in c.after.cases.values() if case.open]
    assert len(nodes) == len(set(nodes)), "two open cases of one node"
    for case in c.after.cases.values():
        assert sum(1 for run in case.runs if run.outcome is RunOutcome.RUNNING) <= 1
        assert len({run.name for run in case.runs}) == len(case.runs)
    for state, d in c.decided:
        if d.run is not None and Effect.RUN in d.effects:
            assert d.run.name not in {run.name for run in state.cases[d.case or ""].runs}, "a run is begun again"
            assert state.cases[d.case or ""].run is None


def every_word_ends(c: Cycle) -> None:
    """Pauses and planned work are over at their ends, and the trail says so."""
    assert all(word.until is None or word.until > c.look.now for word in c.after.words.values())
    for _, d in c.decided:
        if d.held_by is HeldBy.PAUSED:
            raise AssertionError("a decision that is carried out is said to be held")


def nothing_waits_for_ever(world: World) -> None:
    """Two hours after all trouble is over, every effect that was asked for since long before has its outcome."""
    if "restored" in world.state.holds:
        return  # until a person says that the marks are to be taken over
    paused = [word for word in world.state.words.values() if word.kind is WordKind.PAUSE]
    for tried in world.book.load().pending:
        case = world.state.cases[tried.case]
        if tried.decided_at > world.now - timedelta(hours=1) or (paused and tried.effect not in SHOWS):
            continue
        raise AssertionError(f"{tried.effect} of {case.node} ({case.phase}) waits since {tried.decided_at}: {tried}")
