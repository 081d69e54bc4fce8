"""A report's window, and how times within it are summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from quarantine.core.record.report.material import MS, Column

HOUR = 3_600_000  # ms
DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Window:
    """From `since` on, until before `until`; in ms since the epoch. What came later is not told."""

    since: int
    until: int

    def count(self, column: Column) -> int:
        """How many of these times lie in it."""
        since, until = self.since, self.until
        return len([True for at in column if at is not None and since <= at < until])

    def overlaps(self, begun: Column, over: Column) -> list[int]:
        """How much (ms) of each stretch lies in it. One without a beginning is none; one without an end lasts."""
        since, until = self.since, self.until
        # Comparisons, since calls of max and min are most of what this would cost.
        return [
            (until if end is None or end > until else end) - (start if start > since else since)  # noqa: FURB136
            if start is not None and start < until and (end is None or (end > since and end > start))
            else 0
            for start, end in zip(begun, over, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Spread:
    """How long something took, in the `count` times that it did. `p90`: nine of ten took no longer."""

    count: int
    least: timedelta
    median: timedelta
    p90: timedelta
    most: timedelta


def spread(lengths: Sequence[int]) -> Spread | None:
    """Of lengths in ms; None of none."""
    if not lengths:
        return None
    found = sorted(lengths)
    return Spread(len(found), found[0] * MS, quantile(found, 0.5) * MS, quantile(found, 0.9) * MS, found[-1] * MS)


def quantile(ordered: Sequence[int], share: float) -> float:
    """With what lies between two of them in proportion, as Prometheus' `quantile` has it. Needs at least one."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
