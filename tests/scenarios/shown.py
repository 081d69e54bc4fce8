"""What Prometheus shows in a scenario: the background of policy tests, changed over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.adapters.policyfiles.strictyaml import Path_
from quarantine.core.document import API_VERSION
from quarantine.policytest.format import PolicyTest
from quarantine.policytest.history import History, history
from quarantine.policytest.selectors import parse_matchers
from quarantine.policytest.values import Item, parse_values
from quarantine.sandbox.remotewrite import STALE, Series
from tests.scenarios.format import Scenario, background

INTERVAL = timedelta(seconds=30)


def shown(scenario: Scenario, start: datetime) -> Iterator[Series]:
    """The series of a scenario that begins at `start`. Raises ValueError where it is about none that there are."""
    yield from _changed(_background(scenario), scenario).at(start)


def _background(scenario: Scenario) -> History:
    """Of the scenario as if nothing happened in it, silences and frozen exporters apart."""
    case = {
        "name": "scenario",
        "lasts": scenario.lasts,
        "machines": scenario.machines.model_dump(by_alias=True),
        "more": scenario.more,
        "without": scenario.without,
        "silent": [_stretch(c, s, stale=c.stale) for c in scenario.changes for s in c.silent],
        "frozen": [_stretch(c, s) for c in scenario.changes for s in c.frozen],
        "never": [],
        "decisions": [],
    }
    spec = {"policy": "all", "interval": INTERVAL, "series": background(), "tests": [case]}
    document = {"apiVersion": API_VERSION, "kind": "PolicyTest", "metadata": {"name": "scenario"}, "spec": spec}
    model = PolicyTest.model_validate(document)

    def report(path: Path_, sentence: str) -> None:
        raise ValueError(f"{scenario.title}: {sentence}")

    return history(model.spec, 0, {}, report)


def _stretch(change: object, series: str, **more: object) -> dict[str, object]:
    since, until = getattr(change, "at", None), getattr(change, "until", None)
    return {"series": series, "since": since, "until": until, **more}


def _changed(made: History, scenario: Scenario) -> History:
    series = dict(made.series)
    for change in scenario.changes:
        first = change.begins // INTERVAL
        last = made.samples if change.until is None else change.until // INTERVAL
        for text, values in change.series.items():
            matchers = parse_matchers(text)
            selected = [key for key, (labels, _) in series.items() if matchers.match(labels)]
            if not selected:
                raise ValueError(f"{scenario.title}: {text} matches no series")
            for key in selected:
                labels, items = series[key]
                series[key] = (labels, overlaid(items, parse_values(values, INTERVAL), first, last))
    return replace(made, series=series)


def overlaid(items: tuple[Item, ...], others: tuple[Item, ...], first: int, last: int) -> tuple[Item, ...]:
    """`items`, in which the samples from `first` to before `last` are `others`."""
    return (*cut(items, 0, first), *cut(others, 0, last - first), *cut(items, last, None))


def cut(items: tuple[Item, ...], first: int, last: int | None) -> tuple[Item, ...]:
    """The samples from `first` to before `last` (None: all that follow) of a series; missing ones after its end."""
    found: list[Item] = []
    at = 0  # of the next item
    for item in items:
        end = None if item.count is None else at + item.count
        begin = max(at, first)
        until = end if last is None else last if end is None else min(end, last)
        if until is None or begin < until:
            skipped = begin - at
            value = (
                item.first + item.step * skipped if item.first is not None and item.first is not STALE else item.first
            )
            found.append(replace(item, first=value, count=None if until is None else until - begin))
        at = at if end is None else end
        if end is None or (last is not None and end >= last):
            return tuple(found)
    missing = None if last is None else last - max(at, first)
    return (*found, Item(None, 0, missing)) if missing is None or missing > 0 else tuple(found)
