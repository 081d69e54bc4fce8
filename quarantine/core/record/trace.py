"""A short stretch of a signal around the moment of a finding, kept so that a chart can be drawn without Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from quarantine.core.series import Grid, Track

Points = tuple[tuple[datetime, float], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """Points of one device's signal in the evidence's unit, oldest first, all of one query.

    `query` is PromQL as sent; `raw` says whether the points are samples as they were scraped, or values of the signal's
    expression at even steps (a rate has no samples of its own). `bound` is the number that the trigger compares with,
    where it is one number; `since` is where the trigger's window begins. Without points, `note` says why.
    """

    query: str
    points: Points = ()
    raw: bool = False
    bound: float | None = None
    above: bool = True  # bad is above the bound; else below
    since: datetime | None = None
    note: str = ""


def merged(tracks: Sequence[Track], grid: Grid, *, reach: timedelta, above: bool) -> Points:
    """One device's points from its series, of which there may be several: a job's labels, MIG, a second exporter.

    At each time at which any of them has a value, the one that the trigger would mind (`above`: the highest), of those
    that are younger than `reach`: so does the trigger's own question see them.
    """
    if len(tracks) == 1:
        (track,) = tracks
        return tuple((grid.at(step), value) for step, value in zip(track.steps, track.values, strict=True))
    worst, latest = max if above else min, dict[int, tuple[int, float]]()
    points = []
    for step, together in groupby(sorted(_told(tracks)), key=lambda told: told[0]):
        latest |= {series: (step, value) for _, series, value in together}
        points.append((grid.at(step), worst(v for at, v in latest.values() if (step - at) * grid.step < reach)))
    return tuple(points)


def thinned(points: Points, most: int, *, above: bool) -> tuple[Points, int]:
    """At most `most` of the points, and of how many each stands for: kept is the one that the trigger would mind."""
    size = -(-len(points) // most)
    if size <= 1:
        return points, 1
    worst = max if above else min
    parts = (points[start : start + size] for start in range(0, len(points), size))
    return tuple(worst(part, key=lambda point: point[1]) for part in parts), size


def _told(tracks: Sequence[Track]) -> Iterator[tuple[int, int, float]]:
    for series, track in enumerate(tracks):
        for step, value in zip(track.steps, track.values, strict=True):
            yield step, series, value
