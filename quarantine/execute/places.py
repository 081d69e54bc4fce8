"""Where a case's tickets may be: its provider's target, and every other one that can be searched."""

from __future__ import annotations

from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import PendingEffect
from quarantine.core.errors import TicketsUnavailable
from quarantine.core.policy import Rules
from quarantine.core.providers import provider_of
from quarantine.core.tickets import Answerable
from quarantine.execute.run import FILES
from quarantine.ports import Desks, Tickets

Place = tuple[str, Tickets]  # the name of a target, and the target


def own(desks: Desks | None, case: Case, rules: Rules) -> Place | None:
    """Where this case's provider takes tickets now; None: nowhere."""
    return desks.of(provider_of(case, rules)) if desks is not None else None


def searchable(desks: Desks | None) -> tuple[Place, ...]:
    """Every target in which a ticket can be looked up by its key.

    The fleet file or the settings may have named another target when a ticket was filed whose answer was lost.
    """
    found = [(name, desks.named(name)) for name in desks.names()] if desks is not None else []
    return tuple((name, tickets) for name, tickets in found if tickets.answerable is not Answerable.BLIND)


def settles(desks: Desks | None) -> timedelta:
    """For how long a ticket that was filed somewhere may not be found yet."""
    return max((tickets.settles for _, tickets in searchable(desks)), default=timedelta(0))


def too_early(
    pending: PendingEffect, case: Case, desks: Desks | None, now: datetime, *, in_doubt: bool
) -> TicketsUnavailable | None:
    """Why it is too early to look for what an earlier attempt may have filed: it may not be found yet."""
    begun = None
    if pending.effect in FILES and in_doubt:
        begun = pending.last_attempt_at
    elif pending.effect is Effect.CLOSE and any(_maybe_filed(case, effect) for effect in FILES):
        begun = pending.decided_at  # nothing was filed for the case after that
    if begun is None:
        return None
    late = [name for name, tickets in searchable(desks) if now < begun + tickets.settles]
    if not late:
        return None
    return TicketsUnavailable(f"whether an earlier attempt filed it is looked up at {', '.join(late)} in a while")


def _maybe_filed(case: Case, effect: Effect) -> bool:
    """Whether a ticket was asked for, and nobody knows what it is called."""
    state = case.effects.get(effect)
    return state is not None and state.status is not EffectStatus.DONE
