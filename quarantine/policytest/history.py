"""What Prometheus shows in a test: the background, as the test changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from quarantine.adapters.policyfiles.strictyaml import Path_
from quarantine.policytest.format import Case, Machines, PolicyTestSpec, Silence, Stretch
from quarantine.policytest.selectors import Labels, Matchers, expand, parse_matchers, parse_series, written
from quarantine.policytest.values import Item, parse_values, render
from quarantine.sandbox.remotewrite import STALE, Series

MOST = 20_000  # series in one test
MOST_SAMPLES = 2_000_000  # and so many samples of them all
S = TypeVar("S", bound=Stretch)
Report = Callable[[Path_, str], None]  # told of each fault: where in the document, and a sentence


@dataclass(frozen=True, slots=True)
class History:
    """The series of one test, ready to be written from whatever time on."""

    series: Mapping[frozenset[tuple[str, str]], tuple[Labels, tuple[Item, ...]]]
    silent: tuple[tuple[Silence, Matchers], ...]
    frozen: tuple[tuple[Stretch, Matchers], ...]
    interval: timedelta
    samples: int  # of each series

    def at(self, start: datetime) -> Iterator[Series]:
        """The series of a test that begins at `start`, a whole second."""
        times = [int((start + n * self.interval).timestamp() * 1000) for n in range(self.samples)]
        for labels, items in self.series.values():
            values = render(items, self.samples, start)
            for stretch, matchers in self.frozen:
                if matchers.match(labels):
                    _freeze(values, *_bounds(stretch, self.interval, len(values)))
            for silence, matchers in self.silent:
                if matchers.match(labels):
                    first, last = _bounds(silence, self.interval, len(values))
                    _silence(values, first, last, stale=silence.stale)
            samples = [(time, value) for time, value in zip(times, values, strict=True) if value is not None]
            if samples:
                yield Series(labels, samples)


def _bounds(stretch: Stretch, interval: timedelta, count: int) -> tuple[int, int]:
    """The samples of a stretch: the first that is not before it, and the first that is not before its end."""
    first = 0 if stretch.since is None else -(-stretch.since // interval)
    last = count if stretch.until is None else -(-stretch.until // interval)
    return min(first, count), min(last, count)


def _freeze(values: list[float | None], first: int, last: int) -> None:
    kept = values[max(first - 1, 0)] if values else None
    values[first:last] = [None if kept is STALE else kept] * (last - first)


def _silence(values: list[float | None], first: int, last: int, *, stale: bool) -> None:
    was_there = first > 0 and values[first - 1] is not None and values[first - 1] is not STALE
    values[first:last] = [None] * (last - first)
    if stale and was_there and first < last:
        values[first] = STALE


# --- From the document ------------------------------------------------------------------------------------------------


def history(spec: PolicyTestSpec, number: int, matchers: Mapping[str, str], report: Report) -> History:
    """The history of the test of that number. `matchers` are the fleet's. What is wrong is reported, and left out."""
    case = spec.tests[number]
    path: Path_ = ("spec", "tests", number)
    machines = case.machines or spec.machines
    builder = _Builder(machines, matchers, spec.interval, report)
    builder.add(("spec", "series"), spec.series)
    builder.change(path, case)
    builder.add((*path, "more"), case.more)
    samples = case.length // spec.interval + 1
    if samples * len(builder.series) > MOST_SAMPLES:
        report(path, f"this makes more than {MOST_SAMPLES} samples: have fewer machines, or a shorter test")
    return History(
        series=builder.series,
        silent=tuple(builder.stretches((*path, "silent"), case.silent)),
        frozen=tuple(builder.stretches((*path, "frozen"), case.frozen)),
        interval=spec.interval,
        samples=samples,
    )


class _Builder:
    """Gathers the series of one test."""

    def __init__(self, machines: Machines, matchers: Mapping[str, str], interval: timedelta, report: Report) -> None:
        self.machines = machines
        self.matchers = matchers
        self.interval = interval
        self.report = report
        self.series: dict[frozenset[tuple[str, str]], tuple[Labels, tuple[Item, ...]]] = {}

    def add(self, path: Path_, given: Mapping[str, str]) -> None:
        """New series."""
        for text, values in given.items():
            items = self._items((*path, text), values)
            try:
                labels = parse_series(text)
            except ValueError as error:
                self.report((*path, text), str(error))
                continue
            if items is not None:
                self._add((*path, text), labels, items)

    def _add(self, path: Path_, labels: Labels, items: tuple[Item, ...]) -> None:
        for found in expand({**self.matchers, **labels}, self.machines):
            key = frozenset(found.items())
            if key in self.series:
                self.report(path, f"the series {written(found)} is there already")
                return
            if len(self.series) >= MOST:
                self.report(path, f"this makes more than {MOST} series: have fewer machines")
                return
            self.series[key] = (found, items)

    def change(self, path: Path_, case: Case) -> None:
        """What the test takes out of the background, and has other values for."""
        for number, text in enumerate(case.without):
            for key in self._selected((*path, "without", number), text):
                del self.series[key]
        for text, values in case.series.items():
            items = self._items((*path, "series", text), values)
            selected = self._selected((*path, "series", text), text)
            for key in selected if items is not None else ():
                assert items is not None  # noqa: S101
                self.series[key] = (self.series[key][0], items)

    def stretches(self, path: Path_, given: Sequence[S]) -> Iterator[tuple[S, Matchers]]:
        """Each with what it is about."""
        for number, stretch in enumerate(given):
            where = (*path, number, "series")
            if self._selected(where, stretch.series):
                yield stretch, parse_matchers(stretch.series)

    def _selected(self, path: Path_, text: str) -> list[frozenset[tuple[str, str]]]:
        try:
            matchers = parse_matchers(text)
        except ValueError as error:
            self.report(path, str(error))
            return []
        found = [key for key, (labels, _) in self.series.items() if matchers.match(labels)]
        if not found:
            self.report(path, f"{text} matches no series of this test: see the background, or write it into more")
        return found

    def _items(self, path: Path_, values: str) -> tuple[Item, ...] | None:
        try:
            return parse_values(values, self.interval)
        except ValueError as error:
            self.report(path, str(error))
            return None
