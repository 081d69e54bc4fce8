"""What could not be done for a case and is not tried again: people are told, since nothing else will be done about it.

So is a ticket that could not be closed: its case has ended, and it asks for a machine that is in service. A replacement
that could not be asked for, a procedure and an eviction are told of where they are decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Step
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft

CLOSE_LATE = timedelta(hours=1)  # after its case has ended: a ticket system that was away for a moment is back
TOLD_FOR = timedelta(days=1)  # after its case has ended: of a ticket that nobody tries to close any more

_KEY = "given-up/"  # of hold keys: a case, and the effect
_ENDED = f"{_KEY}close-"  # and a case that has ended, whose own holds do not outlive it


def given_up(draft: Draft) -> None:
    """Tell of each for as long as it stands."""
    told = set()
    for case in draft.open_cases():
        for effect, action, reason in _of(case):
            key = f"{_KEY}{case.id}/{effect}"
            told.add(key)
            held = {"held_by": HeldBy.GIVEN_UP, "hold_key": key}
            draft.hold(draft.about_case(Kind.HELD, action, case, reason, **held))
    for case in [case for case in draft.state.cases.values() if not case.open]:
        if (left := _left_open(case, draft.now)) is not None:
            key = f"{_ENDED}{case.id}"
            told.add(key)
            # The case is only named: nothing is decided about one that has ended.
            about = {"node": case.node, "machine": case.machine, "pool": case.pool}
            why, reason = left
            draft.hold(draft.decision(Kind.HELD, Action.WITHDRAW, reason, held_by=why, hold_key=key, **about))
    for key in [key for key in draft.state.holds if key.startswith(_KEY) and key not in told]:
        ended = draft.state.cases.get(key.removeprefix(_ENDED))
        draft.lift(key, "it is done, or is not asked for any more", node=ended.node if ended is not None else "")


def waits(case: Case) -> tuple[datetime, ...]:
    """When time alone changes what is told of a case."""
    if case.open or case.effects.get(Effect.CLOSE) is None:
        return ()
    return (case.phase_since + CLOSE_LATE, case.phase_since + TOLD_FOR)


def _left_open(case: Case, now: datetime) -> tuple[HeldBy, str] | None:
    """What is to be said of the tickets of a case that has ended, and what holds them."""
    what = f"a ticket of case {case.id} may be open although the case has ended"
    if _abandoned(case, Effect.CLOSE) and now < case.phase_since + TOLD_FOR:
        return HeldBy.GIVEN_UP, f"{what}: tell the provider of {case.node} that nothing is asked for any more"
    if case.is_pending(Effect.CLOSE) and now >= case.phase_since + CLOSE_LATE:
        tried = "and closing it has not succeeded yet: the log says why, and it is tried again"
        return HeldBy.PROVIDER, f"{what}, {tried}; close it by hand, or mend the access to the ticket system"
    return None


def _of(case: Case) -> Iterator[tuple[Effect, Action, str]]:
    if case.marked and _abandoned(case, Effect.MARK):
        reason = f"{case.node} could not be marked, so it is in service although case {case.id} is {case.phase}: "
        yield Effect.MARK, Action.REMARK, f"{reason}taint it by hand with the case's id, or release it"
    if _abandoned(case, Effect.TICKET) and not _answered(case):
        reason = f"{case.node} could not be reported to its provider: report it by hand, and say quarantine repaired "
        yield Effect.TICKET, Action.TICKET, f"{reason}{case.node} once it is; its history tells why"


def _abandoned(case: Case, effect: Effect) -> bool:
    state = case.effects.get(effect)
    return state is not None and state.status is EffectStatus.ABANDONED


def _answered(case: Case) -> bool:
    """Whether the provider was asked for another machine since, or something was done about this one."""
    if case.effects.get(Effect.REPLACE) is not None:
        return True
    reported = max((rung.at for rung in case.rungs if rung.step is Step.REPORT), default=case.taken_out_at)
    return case.renewed_at is not None and case.renewed_at >= reported
