"""What was held goes out a few machines at a time once its cause is gone: days-old findings must not act all at once.

What is new is not slowed: budgets and breakers are there for that.
"""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.case import Case, HeldBy
from quarantine.core.draft import Draft, judge_key
from quarantine.core.policy import LoadedPolicy
from quarantine.core.units import format_duration

EVERY = timedelta(minutes=5)
SHARE = 4  # of a pool's pace within the hour, so many parts: one of them at a time

# Causes that hold many at once, and let go of them at once. (What settles or escalates comes of age one by one.)
_OF_MANY = frozenset(
    {
        HeldBy.BREAKER,
        HeldBy.BUDGET,
        HeldBy.CHANGED,
        HeldBy.CORRELATED,
        HeldBy.CROWDED,
        HeldBy.NO_ANSWER,
        HeldBy.NO_COVERAGE,
        HeldBy.OBSERVE_MODE,
        HeldBy.PAUSED,
        HeldBy.RESTORED,
        HeldBy.SIGHT,
        HeldBy.TELLS_ONLY,
        HeldBy.TRICKLE,
    }
)


def was_held(draft: Draft, policy: LoadedPolicy, case: Case | None) -> bool:
    """Whether this machine waited for a cause that it shares with others: its case did, or its policy until now."""
    if case is not None and case.held_by in _OF_MANY and (case.opened_at < draft.now or case.held_by is HeldBy.TRICKLE):
        return True
    key = judge_key(policy)
    before = draft.snapshot.state.holds.get(key)
    return before is not None and before.held_by in _OF_MANY and key not in draft.state.holds


def too_many(draft: Draft, pool: str) -> str | None:
    """Why none of those may go out of this pool now; None where one may."""
    allowed = max(1, draft.budgets[pool].limit_recent // SHARE)
    recent = sum(1 for at, name in draft.state.quarantined_at if name == pool and at > draft.now - EVERY)
    if recent < allowed:
        return None
    return (
        f"what was held before goes out a few at a time: at most {allowed} in {format_duration(EVERY)} in pool {pool}"
    )
