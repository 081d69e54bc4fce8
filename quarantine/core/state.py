"""What the trail adds up to: `evolve` folds one decision into the state.

The ledger keeps its tables by it, the backtest steps with it, and the property "planning twice yields nothing new" is
stated with it. The outbox follows the cases: a case's effect that is `PENDING` after folding stands in the outbox, one
that is not does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from quarantine.core import filings, overtaken, standing
from quarantine.core.case import Case, Effect, EffectState, EffectStatus, Finding, HeldBy, Phase
from quarantine.core.copying import replace
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.lifecycle import check_transition
from quarantine.core.model import Device, Severity, Verdict
from quarantine.core.overlay import having, including
from quarantine.core.tickets import Remark

PACE_MEMORY = timedelta(hours=24)  # longer than any pace that a budget can state
FINDING_MEMORY = timedelta(days=28)  # longer than any time within which an escalation counts findings
MOST_PUT_BACK = 100  # of one case's mark: what is counted of it is of a day
MOST_EARLIER = 100  # of one finding: as many as an escalation can count
PENDING = EffectState(EffectStatus.PENDING)


def fold(state: State, decisions: Iterable[Decision]) -> State:
    """`evolve`, one after the other."""
    for decision in decisions:
        state = evolve(state, decision)
    return state


def evolve(state: State, decision: Decision) -> State:
    """The state after this decision. Raises ValueError for one that could not have been taken in `state`."""
    state = standing.stood(state, decision)
    case = _case_after(state, decision)
    if case is not None:
        ended = state.ended if case.open else including(state.ended, case.id)
        state = replace(state, cases=having(state.cases, case.id, case), ended=ended)
    if decision.kind is not Kind.DECIDED:
        return state
    if decision.action is Action.QUARANTINE:
        since, kept = decision.at - PACE_MEMORY, state.quarantined_at
        if kept and kept[0][0] <= since:  # looked through only then: a whole pool may go out in one cycle
            kept = tuple(entry for entry in kept if entry[0] > since)
        return replace(state, quarantined_at=(*kept, (decision.at, decision.pool)))
    if decision.action is Action.WAIVE:
        return standing.waived(state, case, decision)
    if decision.action in (Action.DISMISS, Action.RELEASE) and decision.until is not None and case is not None:
        return standing.dismissed(state, case, decision)
    return state


def _case_after(state: State, decision: Decision) -> Case | None:
    if decision.case is None:
        return None
    before = state.cases.get(decision.case)
    if decision.kind in (Kind.DONE, Kind.FAILED):
        return filings.followed(_with_provider(_with_outcome(_known(before, decision), decision), decision), decision)
    case = before if before is not None else _opened(decision)
    case = _with_finding(_with_provider(case, decision), decision)
    if decision.phase is not None and decision.phase is not case.phase:
        check_transition(case.phase, decision.phase)
        case = replace(case, phase=decision.phase, phase_since=decision.at, held_by=None)
    if case.marked and case.out_since is None and (before is None or not before.marked):
        case = replace(case, out_since=decision.at)
    if decision.action is Action.QUARANTINE:
        # What people read is why it was taken out, not why it was held before.
        pool = decision.pool or case.pool  # a machine that is not out yet may be moved to another one
        case = replace(case, held_by=decision.held_by, reason=decision.reason, pool=pool)
        if decision.request is not None:
            # A person's word outlives whatever was suspected before it: no metric ends the case any more.
            case = replace(case, by_person=True, opened_by=decision.actor)
    case = overtaken.without(before, _with_progress(_with_machine(case, decision), decision), decision)
    return _with_effects(filings.followed(case, decision), decision)


def _with_provider(case: Case, decision: Decision) -> Case:
    """Who replaces the machine, by the latest word: the fleet file may be corrected while the case is open."""
    said = decision.provider
    return replace(case, provider=said) if said and said != case.provider else case


def _with_machine(case: Case, decision: Decision) -> Case:
    """The case follows its machine, or remembers the one that another took the place of."""
    followed = decision.action in (Action.FOLLOW, Action.IDENTIFY, Action.SWAP)
    if decision.action is Action.ADOPT and decision.kind is Kind.DECIDED:  # its mark is there, as it was found
        return replace(case, effects={**case.effects, **_MARKED}, cordoned_by_us=decision.cordoned_by_us)
    if decision.machine is None or not followed or decision.kind is not Kind.DECIDED:
        return case
    if decision.action is Action.SWAP:
        away, at = case.sent_away or case.machine, decision.at
        case = replace(case, sent_away=away, cordoned_by_us=None, renewed_at=at, swapped_at=at)
        return replace(case, machine=decision.machine)
    # A Node object tells neither GPUs nor place: what is known of them goes with the machine.
    known, now = case.machine, decision.machine
    machine = replace(now, gpus=now.gpus or known.gpus, place=now.place or known.place)
    if not known.boot_id or known.boot_id == now.boot_id:
        return replace(case, machine=machine)
    return replace(case, machine=machine, boots=(*case.boots, known.boot_id), booted_at=decision.at)


def _with_progress(case: Case, decision: Decision) -> Case:
    """What was done about the machine: procedures, pods asked to leave, steps of the ladder, marks put back."""
    if decision.run is not None:
        others = tuple(run for run in case.runs if run.name != decision.run.name)
        case = replace(case, runs=(*others, decision.run))
    if decision.leaving is not None:
        case = replace(case, leaving=(*case.leaving, decision.leaving))
    if decision.rung is not None:
        case = replace(case, rungs=(*case.rungs, decision.rung))
    if decision.action is Action.REMARK and decision.kind is Kind.DECIDED:
        case = replace(case, put_back=(*case.put_back, decision.at)[-MOST_PUT_BACK:])
    proves = decision.action is Action.PROVE and decision.kind is Kind.DECIDED and case.phase is Phase.PROBATION
    if proves and decision.verdict is not None:  # what sends the machine back says a verdict too, and ends the proof
        # A clock that was set back dates it before the stay that it is about: it would not be known again.
        case = replace(case, proof=case.proving.then(decision.verdict, max(decision.at, case.stay_since)))
    if decision.action is Action.PROVE and decision.request is not None and decision.phase is Phase.PROBATION:
        case = replace(case, renewed_at=decision.at)
    return case


def _known(case: Case | None, decision: Decision) -> Case:
    if case is None:
        raise ValueError(f"the outcome of {decision.effect} names case {decision.case}, which was never opened")
    return case


def _opened(decision: Decision) -> Case:
    """A case begins with the decision that first names it, in the phase that this decision gives."""
    if decision.case is None or decision.node is None or decision.machine is None or decision.phase is None:
        raise ValueError(f"a decision to {decision.action} opens a case without its node, machine or phase")
    return Case(
        id=decision.case,
        node=decision.node,
        machine=decision.machine,
        phase=decision.phase,
        opened_at=decision.at,
        phase_since=decision.at,
        findings=(),
        opened_by=decision.actor,
        reason=decision.reason,
        pool=decision.pool,
        by_person=decision.request is not None,
        gate=bool(decision.gate),
    )


_MARKED: Mapping[Effect, EffectState] = {Effect.MARK: EffectState(EffectStatus.DONE, "adopted")}


def _with_finding(case: Case, decision: Decision) -> Case:
    if decision.policy is None or decision.device is None or decision.evidence is None:
        return case
    if decision.action is Action.RECOVER:
        found = tuple(_recovered(f, decision.at) if f.key == _key(decision) else f for f in case.findings)
        return replace(case, findings=found)
    if decision.action not in (Action.QUARANTINE, Action.JOIN):
        return case
    same = next((f for f in case.findings if f.key == _key(decision)), None)
    if same is None or same.verdict is not Verdict.BAD:
        others = tuple(f for f in case.findings if f.key != _key(decision))
        case = replace(case, findings=(*others, _finding(decision, same)))
    return _with_cause(case, decision)


def _recovered(finding: Finding, at: datetime) -> Finding:
    if finding.verdict is Verdict.GOOD:
        return finding
    return replace(finding, verdict=Verdict.GOOD, ended=(*finding.ended, at))


# What keeps a finding from being acted on, and is asked before whether others fail with it: it says nothing of that.
_ASKED_BEFORE = frozenset(
    {
        HeldBy.BREAKER,
        HeldBy.IGNORED,
        HeldBy.MAINTENANCE,
        HeldBy.NOT_IN_POOL,
        HeldBy.OBSERVE_MODE,
        HeldBy.PAUSED,
        HeldBy.TELLS_ONLY,
    }
)


def _with_cause(case: Case, decision: Decision) -> Case:
    """Whether what stands of this policy is held against the machine, or against what it shares with others."""
    standing = [f for f in case.findings if f.policy == decision.policy and f.verdict is Verdict.BAD]
    about = next((f for f in standing if f.key == _key(decision)), None)
    if about is None or decision.held_by in _ASKED_BEFORE:
        return case
    if decision.action is Action.JOIN:
        shared, meant = any(f.since in f.shared for f in standing), [about]
    else:
        shared = decision.held_by is HeldBy.CORRELATED
        meant = [f for f in standing if not shared or f.since >= about.since]
    found = tuple(_attributed(f, shared=shared) if f in meant else f for f in case.findings)
    return replace(case, findings=found)


def _attributed(finding: Finding, *, shared: bool) -> Finding:
    others = tuple(at for at in finding.shared if at != finding.since)
    return replace(finding, shared=(*others, finding.since) if shared else others)


def _key(decision: Decision) -> tuple[str | None, Device | None]:
    return (decision.policy, decision.device)


def _finding(decision: Decision, before: Finding | None) -> Finding:
    """`before`: the same finding, which recovered: it is back, and remembers as far as an escalation can look back."""
    assert decision.policy is not None  # noqa: S101
    assert decision.device is not None  # noqa: S101
    assert decision.evidence is not None  # noqa: S101
    new = Finding(
        policy=decision.policy,
        device=decision.device,
        severity=decision.severity or Severity.WARNING,
        since=decision.at,
        verdict=decision.verdict or Verdict.UNKNOWN,
        evidence=replace(decision.evidence, trace=None) if decision.evidence.trace else decision.evidence,
    )
    if before is None or before.verdict is not Verdict.GOOD:
        return new
    known = [s for s in before.spells if s[0] > decision.at - FINDING_MEMORY][-MOST_EARLIER:]
    earlier = tuple(began for began, _ in known)
    return replace(
        new,
        earlier=earlier,
        ended=tuple(ended for _, ended in known if ended is not None),
        shared=tuple(at for at in before.shared if at in earlier),
    )


def _left_to_say(case: Case, told: Remark) -> bool:
    return any(not one.said and one.key != told.key for one in case.remarks)


def _with_effects(case: Case, decision: Decision) -> Case:
    if not decision.effects:
        return case
    return replace(case, effects={**case.effects, **dict.fromkeys(decision.effects, PENDING)})


def _with_outcome(case: Case, decision: Decision) -> Case:
    if decision.effect is None:
        raise ValueError(f"an outcome in case {case.id} does not say what it is the outcome of")
    status = EffectStatus.DONE if decision.kind is Kind.DONE else EffectStatus.ABANDONED
    by_us = case.cordoned_by_us if decision.cordoned_by_us is None else decision.cordoned_by_us
    effects = {**case.effects, decision.effect: EffectState(status, decision.ref)}
    told = decision.remark
    if decision.effect is Effect.COMMENT and told is not None and _left_to_say(case, told):
        effects[Effect.COMMENT] = PENDING  # each remark is settled by itself
    if decision.effect is Effect.RUN and decision.kind is Kind.DONE and case.run is not None:
        case = replace(case, runs=(*case.runs[:-1], case.run.started(decision.at)))
    return replace(case, effects=effects, cordoned_by_us=by_us)
