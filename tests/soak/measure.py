"""What a process holds, and whether that is the same at the end of a soak as it was after its beginning. Pure but for
the readings of this process.
"""

from __future__ import annotations

import gc
import json
import math
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")
FEW = 50  # objects of one type come and go with what stands at the moment
MOST_KIB = 1024.0  # of memory that may be added in 1,000 cycles
MOST_OBJECTS = 0.02  # of all objects, that may be added in 1,000 cycles
_MOST_ALIKE = 0.95  # of neighbours; beyond it nothing would ever be sure
_Z = 1.96  # of a normal distribution: 95 % lie within so many deviations


@dataclass(frozen=True, slots=True)
class Reading:
    """What the process held after a cycle."""

    cycle: int
    rss: float  # KiB
    threads: int
    descriptors: int
    sockets: int
    objects: int  # that the garbage collector knows
    types: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    series: int = 0  # of the controller's own metrics
    open_cases: int = 0
    remembered: int = 0  # cases, ended ones too
    told: Mapping[str, int] = field(default_factory=dict)  # what the world has seen of the controller
    seconds: tuple[float, ...] = ()  # that the cycles since the reading before took

    def as_json(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> Reading:
        """As it was written."""
        return cls(**{**said, "seconds": tuple(said["seconds"])})


class Readings:
    """Readings, in a file: a hundred of them in memory would be what grows most in the process that is measured."""

    def __init__(self, file: Path) -> None:
        """What the file held is gone."""
        self._file = file
        file.write_text("", encoding="utf-8")

    def add(self, reading: Reading) -> None:
        """Write one down."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(reading.as_json()) + "\n")

    def all(self) -> list[Reading]:
        """In their order."""
        return [Reading.of_json(json.loads(line)) for line in self._file.read_text(encoding="utf-8").splitlines()]


def held(cycle: int, **more: Any) -> Reading:
    """What this process holds now, without what nobody can reach any more."""
    gc.collect()
    types: Counter[str] = Counter()
    for thing in gc.get_objects():
        types[f"{type(thing).__module__}.{type(thing).__qualname__}"] += 1
    descriptors, sockets = _descriptors()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return Reading(
        cycle=cycle,
        rss=resident * PAGE / 1024,
        threads=threading.active_count(),
        descriptors=descriptors,
        sockets=sockets,
        objects=sum(types.values()),
        types=dict(types),
        **more,
    )


def _descriptors() -> tuple[int, int]:
    """All, and those that are sockets; without the one by which they are listed."""
    found = sockets = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # the listing's own, closed by now
        found += 1
        sockets += target.startswith("socket:")
    return found, sockets


@dataclass(frozen=True, slots=True)
class Slope:
    """A line through measurements: what it adds in 1,000 cycles, and half the width of its 95 % interval."""

    per_1000: float
    margin: float

    @property
    def least(self) -> float:
        """The lower end of the interval."""
        return self.per_1000 - self.margin

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> Slope:
        """By least squares. What follows on one another is alike, so the interval is widened by their correlation.

        Of fewer than three points, or of points at one place, nothing is known: the margin is infinite.
        """
        n = len(points)
        mean_x, mean_y = (fmean(axis) for axis in zip(*points, strict=True)) if n else (0.0, 0.0)
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        if n < 3 or not spread:
            return cls(0.0, math.inf)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
        left = [y - mean_y - slope * (x - mean_x) for x, y in points]
        square = sum(r * r for r in left)
        alike = sum(a * b for a, b in pairwise(left)) / square if square else 0.0
        wider = math.sqrt((1 + max(0.0, alike)) / (1 - min(_MOST_ALIKE, max(0.0, alike))))
        return cls(1000 * slope, 1000 * _Z * wider * math.sqrt(square / (n - 2) / spread))


def slope(readings: Sequence[Reading], what: str) -> Slope:
    """Of one of the numbers of a reading."""
    return Slope.of([(float(one.cycle), float(getattr(one, what))) for one in readings])


def growing(readings: Sequence[Reading]) -> dict[str, Slope]:
    """The types of which there are ever more, beyond what comes and goes; the fastest first."""
    found = {}
    for name in {name for one in readings for name in one.types}:
        line = Slope.of([(float(one.cycle), float(one.types.get(name, 0))) for one in readings])
        if line.least > FEW:
            found[name] = line
    return dict(sorted(found.items(), key=lambda item: -item[1].per_1000))
