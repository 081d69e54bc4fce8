"""One step further with each machine that is out: evidence, people told, the ladder of remedies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, Purpose, Rung, RunOutcome, Step
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft
from quarantine.core.model import Failed
from quarantine.core.response import LadderStep, Moment
from quarantine.core.treatment import approval, probation, runs
from quarantine.core.treatment.endings import shown
from quarantine.core.treatment.ladder import answered, next_rung, out_since, taken
from quarantine.core.treatment.owed import Owed
from quarantine.core.workload import Class, Pod

REMEDY = "remedy/"  # of hold keys: what keeps a case's next remedy from being begun
BURN_IN = "burn-in/"  # a case whose machine failed its burn-in
_PURPOSE = {Step.RESET: Purpose.RESET, Step.REBOOT: Purpose.REBOOT}
_IN_WORDS = {Step.RESET: "reset", Step.REBOOT: "rebooted"}


@dataclass(frozen=True, slots=True)
class _Bar:
    """What keeps a step from being taken; `held_by` None where there is nothing to tell of it yet."""

    held_by: HeldBy | None
    reason: str = ""


_WAITS = _Bar(None)


def examine(draft: Draft, due: Mapping[str, Owed]) -> None:
    """Have evidence taken, where it is asked for, before anything else is done about the machine."""
    for case in draft.open_cases():
        if (owed := due.get(case.id)) is not None:
            _examine(draft, case, owed)


def proceed(draft: Draft, due: Mapping[str, Owed]) -> None:
    """The next step with every machine to which something is owed, oldest case first; then what people must be told.

    After the drains: what is empty by now is worked on in the same plan.
    """
    for case in draft.open_cases():
        if (owed := due.get(case.id)) is not None:
            _climb(draft, case, owed)
            _notify(draft, draft.state.cases[case.id], owed)
    for case in draft.open_cases():
        if case.phase is Phase.SWAP_REQUESTED:
            _unasked(draft, case)
        _unproven(draft, case)
    for key in [key for key in draft.state.holds if key.startswith(REMEDY)]:
        about = draft.state.cases.get(key.removeprefix(REMEDY))
        if about is None or not about.open or about.phase in (Phase.REMEDY, Phase.SWAPPED, Phase.PROBATION):
            draft.lift(key, "what it was about is over")
    approval.over(draft, due)
    runs.lost(draft)
    probation.over(draft)


# --- Evidence ---------------------------------------------------------------------------------------------------------


def _examine(draft: Draft, case: Case, owed: Owed) -> None:
    spec = draft.rules.procedures.get(owed.evidence)
    if spec is None or not _examinable(draft, case, owed) or runs.able(draft, case) is None:
        return
    run = runs.begun(draft, case, Purpose.EVIDENCE, owed.evidence, spec)
    reason = f"evidence of {case.node} is taken by {owed.evidence} before anything is done to the machine"
    fields = {"run": run, "effects": (Effect.RUN,), **owed.word("evidence")}
    draft.emit(draft.about_case(Kind.DECIDED, Action.RUN, case, reason, **fields))


def _examinable(draft: Draft, case: Case, owed: Owed) -> bool:
    """Whether evidence is still to be taken, and can be: no pod starts on a machine that is down."""
    spec = draft.rules.procedures.get(owed.evidence)
    if spec is None or case.last_run(Purpose.EVIDENCE) is not None:
        return False
    node = draft.nodes.get(case.node)
    return spec.job is None or (node is not None and node.ready is not False)


def _examined(draft: Draft, case: Case, owed: Owed) -> bool:
    """Whether what follows the evidence need not wait for it any more."""
    run = case.last_run(Purpose.EVIDENCE)
    return not _examinable(draft, case, owed) and (run is None or run.outcome is not RunOutcome.RUNNING)


# --- The ladder -------------------------------------------------------------------------------------------------------


def _climb(draft: Draft, case: Case, owed: Owed) -> None:
    """Take the next rung, and the one after a report: it repairs nothing that could be waited for."""
    bar: _Bar | None = None
    while bar is None:
        number = next_rung(draft.state, case, owed.steps, last_only=owed.repeat)
        if number >= len(owed.steps):
            bar = _spent(case, owed)
            break
        step = owed.steps[number]
        bar = _bar(draft, case, owed, step)
        if bar is None:
            _take(draft, case, owed, step, number)
            case = draft.state.cases[case.id]
            bar = None if step.do is Step.REPORT else _WAITS
    key = f"{REMEDY}{case.id}"
    if bar.held_by is None:
        draft.lift(key, f"nothing keeps the next step for {case.node} any more")
    else:
        held = {"held_by": bar.held_by, "hold_key": key}
        draft.hold(draft.about_case(Kind.HELD, Action.STEP, case, bar.reason, **held))


def _spent(case: Case, owed: Owed) -> _Bar:
    """A report leaves the rest to the provider; any other last rung has not helped, since the machine is still out.

    Nor has a report that was answered: the machine was repaired, or a part of it exchanged, and it is bad again.
    """
    tried = taken(case)
    if not owed.steps or not tried or (tried[-1].step is Step.REPORT and not answered(case, tried[-1])):
        return _WAITS
    words = ", ".join(f"{rung.step} ({rung.at:%Y-%m-%d %H:%M})" for rung in tried)
    return _Bar(HeldBy.SPENT, f"{case.node} is still out, and every remedy of its policy was tried: {words}")


def _bar(draft: Draft, case: Case, owed: Owed, step: LadderStep) -> _Bar | None:
    """What keeps this step from being taken now; None where nothing does."""
    if not _examined(draft, case, owed):
        return _WAITS
    if step.after is not None and draft.now < out_since(case) + step.after:
        return _WAITS
    if step.do is Step.REPORT:
        return None
    if step.by is not None and step.by not in draft.rules.procedures:
        reason = f"{case.node} cannot be {_IN_WORDS[step.do]}: there is no Procedure {step.by} in the policy files"
        return _Bar(HeldBy.PROCEDURE, reason)
    if case.phase is not Phase.DRAINED and (case.phase is Phase.DRAINING or owed.drain.when is not Moment.NEVER):
        return _WAITS  # for the drain
    return _occupied(draft, case, step) or (None if _agreed(draft, case, step) else _WAITS)


def _agreed(draft: Draft, case: Case, step: LadderStep) -> bool:
    """Whether nothing is left to wait for but what a hold of its own tells: a procedure, a person's yes."""
    return runs.able(draft, case) is not None and (step.do is not Step.REPLACE or approval.given(draft, case))


def _occupied(draft: Draft, case: Case, step: LadderStep) -> _Bar | None:
    """No remedy under a running pod: a replacement destroys what training left there, a reset kills whatever runs."""
    known = draft.snapshot.workloads
    if isinstance(known, Failed):
        reason = f"the next step for {case.node} ({step.do}) waits: what runs there cannot be asked: {known.detail}"
        return _Bar(HeldBy.UNKNOWN_PODS, reason)
    pods = known.nodes.get(case.node)
    if pods is None:
        return _WAITS  # not asked about yet
    left = [pod for pod in pods if step.do is not Step.REPLACE or pod.kind is Class.TRAINING]
    if not left:
        return None
    if case.phase is not Phase.DRAINED:
        return _WAITS  # its policy leaves what runs alone: the machine empties by itself
    reason = f"{case.node} was drained, and {_named(left)} again: the next step ({step.do}) waits for that to end"
    return _Bar(HeldBy.DRAIN, reason)


def _named(pods: list[Pod]) -> str:
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"{pods[0].ref}{more} {'run' if more else 'runs'} there"


def _take(draft: Draft, case: Case, owed: Owed, step: LadderStep, number: int) -> None:
    rung = Rung(step.do, number, draft.now, step.by or "")
    fields: dict[str, object] = {"rung": rung, **owed.word("steps")}
    match step.do:
        case Step.REPORT:
            action, reason = Action.TICKET, f"{case.node} is to be reported to its provider"
            fields["effects"] = (Effect.TICKET,)
        case Step.REPLACE:
            action, reason = Action.STEP, f"the provider is asked to replace {case.node}: no training runs there"
            notify = (Effect.NOTIFY,) if owed.notify and Effect.NOTIFY not in case.effects else ()
            fields |= {"phase": Phase.SWAP_REQUESTED, "effects": (*shown(case), Effect.REPLACE, *notify)}
        case Step.RESET | Step.REBOOT:
            assert step.by is not None  # noqa: S101  (the validator saw to it)
            spec = draft.rules.procedures[step.by]
            run = runs.begun(draft, case, _PURPOSE[step.do], step.by, spec)
            action, reason = Action.STEP, f"{case.node} is empty and is {_IN_WORDS[step.do]} by {step.by}"
            fields |= {"phase": Phase.REMEDY, "run": run, "effects": (*shown(case), Effect.RUN)}
    draft.emit(draft.about_case(Kind.DECIDED, action, case, reason, **fields))


def _unasked(draft: Draft, case: Case) -> None:
    """A replacement that nobody could be asked for: people do it, and say when it is done."""
    state = case.effects.get(Effect.REPLACE)
    key = f"{REMEDY}{case.id}"
    if state is None or state.status is not EffectStatus.ABANDONED:
        draft.lift(key, "the provider is asked")
        return
    reason = (
        f"the provider could not be asked to replace {case.node}: ask by hand, and say quarantine repaired {case.node} "
        "once the machine is another one"
    )
    held = {"held_by": HeldBy.PROCEDURE, "hold_key": key}
    draft.hold(draft.about_case(Kind.HELD, Action.STEP, case, reason, **held))


def _unproven(draft: Draft, case: Case) -> None:
    """A burn-in that failed, and nothing was tried since: a new machine has no policy that would say what to do."""
    key, run = f"{BURN_IN}{case.id}", case.runs[-1] if case.runs else None
    failed = run is not None and run.purpose is Purpose.BURN_IN and run.outcome in (RunOutcome.FAILED, RunOutcome.LATE)
    if run is None or not failed or case.phase not in (Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED):
        draft.lift(key, f"{case.node} is not out for a burn-in that failed any more")
        return
    reason = (
        f"{case.node} stays out, since its burn-in by {run.procedure} ({run.name}) has not succeeded: have it repaired "
        f"and say quarantine repaired {case.node}, or release it"
    )
    held = {"held_by": HeldBy.PROCEDURE, "hold_key": key}
    draft.hold(draft.about_case(Kind.HELD, Action.PROVE, case, reason, **held))


# --- People -----------------------------------------------------------------------------------------------------------


def _notify(draft: Draft, case: Case, owed: Owed) -> None:
    """Once in a case, whatever is tried first: people know from the beginning that the machine is out."""
    if not owed.notify or Effect.NOTIFY in case.effects:
        return
    asks = not owed.steps or owed.steps[0].do in (Step.REPORT, Step.REPLACE)
    swap = f"people are to be asked for the swap of {case.node}"
    reason = swap if asks else f"people are to be told that {case.node} is out, and what is tried"
    fields = {"effects": (Effect.NOTIFY,), **owed.word("notify")}
    draft.emit(draft.about_case(Kind.DECIDED, Action.NOTIFY, case, reason, **fields))
