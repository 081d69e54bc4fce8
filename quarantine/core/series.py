"""Answers over a stretch of time: which devices an expression named, at which steps, with which values."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from quarantine.core.model import Failed, Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Grid:
    """The moments `start`, `start + step`, … of which there are `count`; step i is `start + i * step`."""

    start: datetime
    step: timedelta
    count: int

    @classmethod
    def within(cls, start: datetime, end: datetime, step: timedelta) -> Grid:
        """The multiples of `step` since 1970 that are not before `start` and not after `end`.

        On one grid for whatever range, two backtests look at the same moments. Raises ValueError for a step that is
        not positive.
        """
        if step <= timedelta(0):
            raise ValueError("the step between two looks must be more than nothing")
        first = -(-(start - _EPOCH) // step)
        last = (end - _EPOCH) // step
        return cls(_EPOCH + first * step, step, max(0, last - first + 1))

    @property
    def end(self) -> datetime:
        """The last of its moments; of an empty grid, a step before its start."""
        return self.at(self.count - 1)

    def at(self, index: int) -> datetime:
        """The moment of a step."""
        return self.start + index * self.step

    def part(self, first: int, count: int) -> Grid:
        """`count` of its steps from `first` on, numbered from 0 again."""
        return Grid(self.at(first), self.step, count)

    def last_until(self, at: datetime) -> int:
        """The last step that is not after `at`; negative where all are, and perhaps past the grid's end."""
        return (at - self.start) // self.step

    def first_from(self, at: datetime) -> int:
        """The first step that is not before `at`; perhaps past the grid's end."""
        return -(-(at - self.start) // self.step)


@dataclass(frozen=True, slots=True)
class Track:
    """One series: its labels (without `__name__`), and its values at the steps of a grid at which it has one.

    `steps` ascend, and `values` go with them. Arrays, not objects: there may be millions.
    """

    labels: Mapping[str, str]
    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def value(self, step: int) -> float | None:
        """Its value at a step; None where it has none there."""
        found = bisect_left(self.steps, step)
        return self.values[found] if found < len(self.steps) and self.steps[found] == step else None

    def latest(self, step: int) -> float | None:
        """Its value at a step, or at the last one before that; None where it has had none yet."""
        found = bisect_right(self.steps, step)
        return self.values[found - 1] if found else None

    def turns(self) -> Iterator[int]:
        """The steps at which it appears, and those at which it is there no more."""
        before = -2
        for step in self.steps:
            if step != before + 1:
                if before >= 0:
                    yield before + 1
                yield step
            before = step
        if before >= 0:
            yield before + 1

    def changes(self) -> Iterator[int]:
        """As `turns`, and the steps at which its value is another one."""
        yield from self.turns()
        for i in range(1, len(self.steps)):
            if self.values[i] != self.values[i - 1]:
                yield self.steps[i]


@dataclass(frozen=True, slots=True)
class Tracks:
    """A complete answer to a range query. Warned, partial and truncated answers are `Failed`, as with `Samples`."""

    tracks: tuple[Track, ...]
    grid: Grid
    query: str

    @property
    def points(self) -> int:
        """How many values it holds."""
        return sum(len(track.steps) for track in self.tracks)

    def samples(self, step: int) -> tuple[Sample, ...]:
        """The instant vector at a step."""
        at = self.grid.at(step)
        found = ((track, track.value(step)) for track in self.tracks)
        return tuple(Sample(track.labels, value, at, self.query) for track, value in found if value is not None)


RangeAnswer = Tracks | Failed
