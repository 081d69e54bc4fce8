"""What could not be done for a case and is not tried again: people are told, since nothing else will be done about it.

A replacement that could not be asked for, a procedure and an eviction are told of where they are decided.
"""

from __future__ import annotations

from collections.abc import Iterator

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Step
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft

_KEY = "given-up/"  # of hold keys: a case, and the effect


def given_up(draft: Draft) -> None:
    """Tell of each for as long as it stands."""
    told = set()
    for case in draft.open_cases():
        for effect, action, reason in _of(case):
            key = f"{_KEY}{case.id}/{effect}"
            told.add(key)
            held = {"held_by": HeldBy.GIVEN_UP, "hold_key": key}
            draft.hold(draft.about_case(Kind.HELD, action, case, reason, **held))
    for key in [key for key in draft.state.holds if key.startswith(_KEY) and key not in told]:
        draft.lift(key, "it is done, or is not asked for any more")


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
