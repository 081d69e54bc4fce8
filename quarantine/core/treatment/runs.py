"""Procedures on a case's machine: begun one at a time, each with a limit, and what became of them recorded once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core import restored
from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase, Purpose, Run, RunOutcome
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.draft import Draft
from quarantine.core.explain import PROCEDURES
from quarantine.core.marks import machine_matches
from quarantine.core.model import Failed, Node
from quarantine.core.procedure import LONGEST_OUTPUT, ProcedureSpec
from quarantine.core.treatment.endings import shown
from quarantine.core.workload import RunStatus

LOST_AFTER = timedelta(minutes=5)  # since it was begun: what its runner does not know then will not be found again
UNTOLD_FOR = timedelta(hours=1)  # beyond its time, a runner that cannot be asked is waited for; then a person looks
_REMEDIES = (Purpose.RESET, Purpose.REBOOT)
LOST = "procedure/"  # of hold keys: a case whose remedy or burn-in is lost


def outcomes(draft: Draft) -> None:
    """What became of the procedures that run, whoever asked for them and whether or not anything is owed any more.

    No answer of the runners says nothing, and what was never begun was not tried. A remedy that succeeded brings its
    machine on probation; one that failed leaves it drained, for the next rung; a burn-in that failed sends it back. A
    ledger that is older than the cluster does not know which procedures run.
    """
    if restored.stands(draft):
        return
    for case in draft.open_cases():
        if case.run is None:
            continue
        found = _became(draft, case, case.run)
        if found is not None:
            draft.emit(_told(draft, case, case.run, found))


def lost(draft: Draft) -> None:
    """A remedy or a burn-in of which nobody knows what became: a person looks, and says when it is done."""
    told = {}
    for case in draft.open_cases():
        run = case.runs[-1] if case.runs else None
        if run is None or run.outcome is not RunOutcome.LOST or run.asked_at < case.stay_since:
            continue
        if case.phase in (Phase.REMEDY, Phase.PROBATION) and run.purpose is not Purpose.EVIDENCE:
            told[f"{LOST}{case.id}"] = (case, run)
    for key, (case, run) in told.items():
        then = f"say quarantine repaired {case.node}, or release it" if case.phase is Phase.REMEDY else "release it"
        what = f"what became of {PROCEDURES[run.purpose]} of {case.node} ({run.name}) is not known"
        reason = f"{what}: look at the machine; if it is sound, {then}"
        draft.hold(draft.about_case(Kind.HELD, Action.RUN, case, reason, held_by=HeldBy.PROCEDURE, hold_key=key))
    for key in [key for key in draft.state.holds if key.startswith(LOST) and key not in told]:
        draft.lift(key, "what it was about is over")


def begun(draft: Draft, case: Case, purpose: Purpose, procedure: str, spec: ProcedureSpec) -> Run:
    """A run as it is asked for now; its name is unique to the case, its purpose and its number."""
    number = 1 + sum(1 for run in case.runs if run.purpose is purpose)
    name = f"{case.id}-{purpose}-{number}"
    return Run(
        name=name,
        purpose=purpose,
        procedure=procedure,
        asked_at=draft.now,
        until=draft.now + spec.timeout,
        output=_filled(spec.output, case, name),
    )


def able(draft: Draft, case: Case) -> Node | None:
    """The case's node if a procedure may be begun there: none runs, and it is the machine, with our mark on it."""
    node = draft.nodes.get(case.node)
    mark = case.effects.get(Effect.MARK)
    marked = mark is not None and mark.status is EffectStatus.DONE
    if node is None or case.run is not None or not marked or not machine_matches(node, case.machine):
        return None
    return node


def _filled(template: str, case: Case, run: str) -> str:
    """Text with what its placeholders stand for; what is no placeholder stays as it is, braces and all."""
    machine = case.machine
    known = {
        "node": case.node,
        "case": case.id,
        "run": run,
        "provider_id": machine.provider_id,
        "system_uuid": machine.system_uuid,
    }
    for name, value in known.items():
        template = template.replace(f"{{{name}}}", value)
    return template


def _became(draft: Draft, case: Case, run: Run) -> RunStatus | None:
    """None: it runs on, as far as is known."""
    effect = case.effects.get(Effect.RUN)
    known = draft.snapshot.runs
    said = None if isinstance(known, Failed) else known.get(run.name)
    if said is not None and said.outcome is not RunOutcome.RUNNING:
        return said
    late = draft.now >= run.until
    if effect is None or effect.status is EffectStatus.PENDING:
        # A pause may last for days: a remedy waits for its end, but nothing waits for evidence.
        passed = late and run.purpose is Purpose.EVIDENCE
        return RunStatus(RunOutcome.LATE, run.until, "it was never begun") if passed else None
    if effect.status is EffectStatus.ABANDONED:
        return RunStatus(RunOutcome.FAILED, draft.now, "it could not be started")
    if isinstance(known, Failed):
        grace = timedelta(0) if run.purpose is Purpose.EVIDENCE else UNTOLD_FOR
        untold = f"what runs it could not be asked: {known.detail}"
        return RunStatus(RunOutcome.LOST, None, untold) if draft.now >= run.until + grace else None
    if said is None:
        return RunStatus(RunOutcome.LOST) if late or draft.now >= run.since + LOST_AFTER else None
    return RunStatus(RunOutcome.LATE, run.until) if late else None


def _told(draft: Draft, case: Case, run: Run, became: RunStatus) -> Decision:
    ended = replace(
        run,
        outcome=became.outcome,
        ended_at=became.ended_at or draft.now,
        output=run.output or became.message[:LONGEST_OUTPUT],
    )
    phase = _phase_after(case, ended)
    return draft.about_case(
        Kind.DECIDED,
        Action.RUN,
        case,
        _sentence(case, ended, became.message, phase),
        run=ended,
        phase=phase,
        effects=() if phase is None else shown(case),
    )


def _phase_after(case: Case, run: Run) -> Phase | None:
    failed = run.outcome in (RunOutcome.FAILED, RunOutcome.LATE)
    if run.purpose in _REMEDIES and case.phase is Phase.REMEDY:
        return Phase.PROBATION if run.outcome is RunOutcome.SUCCEEDED else Phase.DRAINED if failed else None
    if run.purpose is Purpose.BURN_IN and case.phase is Phase.PROBATION and failed:
        return Phase.QUARANTINED
    return None


def _sentence(case: Case, run: Run, message: str, phase: Phase | None) -> str:
    what = f"{PROCEDURES[run.purpose]} of {case.node} by {run.procedure} ({run.name})"
    match run.outcome:
        case RunOutcome.SUCCEEDED:
            became = "succeeded"
        case RunOutcome.LATE:
            became = f"had not ended when its time was up, at {run.until:%Y-%m-%d %H:%M} UTC"
        case RunOutcome.LOST:
            became = f"{'is lost' if message else 'is not known to what runs it'}: what became of it is not known, and "
            became += "it is not begun again"
        case _:
            became = "failed"
    told = f": {' '.join(message.split())}" if message else ""
    then = {Phase.PROBATION: "; probation begins", Phase.QUARANTINED: "; the machine stays out"}
    return f"{what} {became}{told}{then.get(phase, '') if phase is not None else ''}"
