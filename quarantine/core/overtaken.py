"""What was asked for and is void once its case has moved on: an effect never outlives what it was decided for.

left behind                                     void
DRAINING, or the machine                        EVICT
SWAP_REQUESTED, or the machine                  REPLACE: overtaken, since its ticket may be there without our knowing
the machine, or what was found, by a person's   TICKET: likewise
word that it is repaired
the phases of a procedure that is not begun,    RUN, and the run is over; it may have begun without our knowing, so STOP
or the machine
the machine, under a procedure that runs        STOP
the case                                        whatever is pending; STOP of a procedure that runs

A procedure that has begun is not ended by a change of phase: what becomes of it is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core.case import Case, Effect, EffectState, EffectStatus, Phase, Purpose, RunOutcome
from quarantine.core.copying import replace
from quarantine.core.decision import Action, Decision, Kind

_ABANDONED = EffectState(EffectStatus.ABANDONED)
_OVERTAKEN = EffectState(EffectStatus.OVERTAKEN)
_PENDING = EffectState(EffectStatus.PENDING)
_PHASES: Mapping[Purpose, frozenset[Phase]] = {
    Purpose.EVIDENCE: frozenset({Phase.QUARANTINED, Phase.DRAINING, Phase.DRAINED}),
    Purpose.RESET: frozenset({Phase.REMEDY}),
    Purpose.REBOOT: frozenset({Phase.REMEDY}),
    Purpose.BURN_IN: frozenset({Phase.PROBATION}),
}


def in_place(effect: Effect, case: Case) -> bool:
    """Whether the case, as it stands, is one in which this effect is done to its machine."""
    match effect:
        case Effect.EVICT:
            return case.phase is Phase.DRAINING
        case Effect.REPLACE:
            return case.phase is Phase.SWAP_REQUESTED
        case Effect.RUN:
            return case.run is None or case.phase in _PHASES[case.run.purpose]
        case _:
            return True


def without(before: Case | None, case: Case, decision: Decision) -> Case:
    """`case`, which `decision` made of `before`, without what it has left behind."""
    if before is None:
        return case
    if not case.open:
        # What was still to be done for a case is void once it has ended; only what ends it remains.
        # What a ticket was still to be told is told with its end.
        void = {effect: _ABANDONED for effect in case.effects if case.is_pending(effect)}
        stop = {Effect.STOP: _PENDING} if before.open and case.run is not None else {}
        return replace(case, effects={**case.effects, **void, **stop})
    exchanged = decision.action is Action.SWAP and decision.kind is Kind.DECIDED
    repaired = case.renewed_at != before.renewed_at
    left = (
        (Effect.EVICT, _ABANDONED, exchanged),
        (Effect.REPLACE, _OVERTAKEN, exchanged),
        (Effect.TICKET, _OVERTAKEN, exchanged or repaired),
    )
    void = {
        effect: state
        for effect, state, gone in left
        if case.is_pending(effect) and (gone or not in_place(effect, case))
    }
    case = _without_run(replace(case, effects={**case.effects, **void}) if void else case, decision)
    if exchanged and before.run is not None:
        case = replace(case, effects={**case.effects, Effect.STOP: _PENDING})
    return case


def _without_run(case: Case, decision: Decision) -> Case:
    run = case.run
    if not case.is_pending(Effect.RUN):
        return case
    if run is None:  # it is over before it could be begun
        return replace(case, effects={**case.effects, Effect.RUN: _ABANDONED})
    if in_place(Effect.RUN, case):
        return case
    lost = replace(run, outcome=RunOutcome.LOST, ended_at=decision.at)
    effects = {**case.effects, Effect.RUN: _ABANDONED, Effect.STOP: _PENDING}
    return replace(case, runs=(*case.runs[:-1], lost), effects=effects)
