"""Range queries: cut to what a server takes at once, read into arrays, put together again."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from quarantine.adapters.prometheus.answer import histogram, labels_of, unexpected
from quarantine.adapters.prometheus.problems import Problem, TooMuch
from quarantine.core.model import FailureKind
from quarantine.core.series import Grid, Track

LONGEST = 11_000  # steps: Prometheus refuses more points of one series
_HASTE = 2  # how often a stretch that took too long is halved: it may be the server that is slow, and not the query
# What servers call it when the answer or the way to it is too large; a shorter stretch of time may do.
_TOO_MUCH = re.compile(
    "too many samples|maximum resolution|maxSamplesPer|maxPointsPer|maxMemoryPerQuery|err-mimir-max-"
    "|exceeded (?:series|samples|bytes) limit"
)


def gather(grid: Grid, ask: Callable[[Grid], tuple[Track, ...]], longest: int) -> tuple[tuple[Track, ...], int]:
    """The answer over the whole grid, asked in stretches of at most `longest` steps, and what was the most in the end.

    Where a stretch is too much for the server, it goes on with half of it. Raises the Problem of the first stretch that
    has no answer for another reason, or is too much at a single step.
    """
    parts: list[tuple[int, tuple[Track, ...]]] = []
    first = late = 0
    while first < grid.count:
        count = min(longest, grid.count - first)
        try:
            found = ask(grid.part(first, count))
        except Problem as problem:
            if count == 1 or not (_too_much(problem) or (problem.kind is FailureKind.TIMEOUT and late < _HASTE)):
                raise
            late += problem.kind is FailureKind.TIMEOUT
            longest = (count + 1) // 2
            continue
        parts.append((first, found))
        first += count
    return _joined(parts), longest


def _too_much(problem: Problem) -> bool:
    refused = problem.kind in (FailureKind.REJECTED, FailureKind.UNAVAILABLE)
    return isinstance(problem, TooMuch) or (refused and _TOO_MUCH.search(problem.what) is not None)


def _joined(parts: list[tuple[int, tuple[Track, ...]]]) -> tuple[Track, ...]:
    if len(parts) == 1:
        return parts[0][1]
    whole: dict[tuple[tuple[str, str], ...], Track] = {}
    for first, found in parts:
        for track in found:
            into = whole.setdefault(tuple(sorted(track.labels.items())), Track(track.labels))
            into.steps.extend(step + first for step in track.steps)
            into.values.extend(track.values)
    return tuple(whole.values())


def tracks(result: Any, grid: Grid) -> tuple[Track, ...]:
    """The series of a matrix that was asked for on `grid`. Raises Problem."""
    start, step = grid.start.timestamp(), grid.step.total_seconds()
    return tuple(_track(item, start, step, grid.count) for item in result)


def _track(item: Any, start: float, step: float, count: int) -> Track:
    match item:
        case {"histograms": _}:
            raise histogram()
        case {"metric": dict(metric), "values": list(pairs)}:
            pass
        case _:
            raise unexpected("a matrix whose elements have no labels or no values")
    try:
        steps = array("q", [round((stamp - start) / step) for stamp, _ in pairs])
        texts = [text for _, text in pairs]
        values = array("d", map(float, texts))
        plain = "".join(texts)
    except (TypeError, ValueError, OverflowError):
        raise unexpected("a value that is no number") from None
    if "_" in plain or any(c.isspace() for c in plain):  # Python's float() takes more than Prometheus writes
        raise unexpected("a value that is no number")
    # A cache that rounds times would serve another moment's heat.
    near = all(abs(start + i * step - pair[0]) < 0.001 for i, pair in zip(steps, pairs, strict=True))
    outside = bool(steps) and not (steps[0] >= 0 and steps[-1] < count)
    if not near or outside or any(a >= b for a, b in pairwise(steps)):
        raise Problem(
            FailureKind.GARBLED, "answered for other times than were asked for", "take out the cache that is in between"
        )
    return Track(labels_of(metric), steps, values)
