"""`quarantine report`: what the trail says about a stretch of time, as sums. Pure; rendered elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quarantine.core.decision import Census
from quarantine.core.record.milestones import Milestones
from quarantine.core.record.spans import HoldSpan


@dataclass(frozen=True, slots=True)
class Counted:
    """A pool's size from `census.at` on, until the next one of that pool."""

    pool: str
    census: Census


@dataclass(frozen=True, slots=True)
class Material:
    """What a report of `since` to `until` is made from: whatever overlaps that time, and each pool's sizes.

    Of each pool's censuses those within the time, and the last one before it.
    """

    since: datetime
    until: datetime
    cases: Iterable[Milestones]
    holds: Iterable[HoldSpan]
    sizes: Iterable[Counted]
