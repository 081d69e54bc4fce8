"""How a case ends on the Node and at the provider: the effects that every way out of a marked phase asks for."""

from __future__ import annotations

from quarantine.core.case import Case, Effect, EffectStatus

_TELLING = (Effect.TICKET, Effect.REPLACE)


def ending_effects(case: Case) -> tuple[Effect, ...]:
    """What is to be taken away when this case, as it stands before its end, is over; nothing where nothing is there.

    Tickets are closed, also one whose filing has no outcome yet: it may be there without its answer having reached us.
    """
    if not case.marked:
        return ()
    states = [case.effects.get(effect) for effect in _TELLING]
    told = any(state is not None and state.status is not EffectStatus.ABANDONED for state in states)
    return (Effect.UNMARK, Effect.CONDITION, *((Effect.CLOSE,) if told else ()))


def shown(case: Case) -> tuple[Effect, ...]:
    """What a change of phase asks for: the label on the Node follows, once there is a mark to follow."""
    mark = case.effects.get(Effect.MARK)
    return (Effect.PHASE,) if mark is not None and mark.status is EffectStatus.DONE else ()
