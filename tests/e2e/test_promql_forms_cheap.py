"""The cheap question finds every device that the exact one does, and where it finds none nothing more is asked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.backtest import asking
from quarantine.backtest.asking import Asker
from quarantine.core import promql
from quarantine.core.model import Answer, Samples
from quarantine.core.narrowing import Key, key_of
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, readings_of
from quarantine.core.series import Grid, RangeAnswer
from quarantine.core.signal import SignalSpec
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import STALE, Series, write
from tests.core.world import SIGNALS, node, policy, rules
from tests.e2e.forms import NOW, START, STEP, STEPS, Scene

NODES, DEVICES = 6, 5
QUIET = NOW + timedelta(hours=1)  # nothing is there any more
GATE = "last_over_time(collector_ok{cluster='a'}[1m]) == 1"
NAMES = {"node": {"first": ["node"]}, "device": {"first": ["id"]}, "gate": GATE}
BY_METRIC = {"gauge": {"metrics": ["degrees"]}, "counter": {"metrics": ["errors"]}}
BY_EXPR = {
    "gauge": {"expr": "last_over_time(degrees{cluster='a'}[1m]) or on (node, id) last_over_time(degrees_old[1m])"},
    "counter": {"expr": "sum by (node, id) (last_over_time(errors{cluster='a'}[1m]))"},
}
PLAUSIBLE = {"gauge": {"min": 1, "max": 129}, "counter": {"min": 2, "max": 255}}
FORMS = {
    "above": {"above": 78, "for": "2m"},
    "below": {"below": 62, "for": "2m"},
    "outside": {"outside": {"min": 62, "max": 85}, "for": "2m"},
    "siblings": {"aboveSiblings": 9, "for": "2m"},
    "events": {"events": 3, "within": "4m"},
}


def signal(kind: str, source: Mapping[str, object]) -> SignalSpec:
    fields = {"description": "d", "unit": "°C", "device": "gpu", "type": kind, "plausible": PLAUSIBLE[kind]}
    saturates = {"saturates": 40} if kind == "counter" else {}
    sources = [{"exporter": "e", **source, **NAMES}]
    return SignalSpec.model_validate({**fields, **saturates, "interval": "30s", "sources": sources})


def law() -> Rules:
    policies, signals = [], dict(SIGNALS)
    for how, sources in (("metric", BY_METRIC), ("expr", BY_EXPR)):
        for form, trigger in FORMS.items():
            kind = "counter" if form == "events" else "gauge"
            name = f"{form}-{how}"
            signals[name] = signal(kind, sources[kind])
            policies.append(policy(name, signal=name, trigger=trigger, recovery=None))
    return replace(rules(*policies, matchers={"cluster": "a"}), signals=signals)


def history() -> Iterator[Series]:
    """Stretches of whatever there may be, in any order; the same in each run."""
    dice = random.Random(7)  # noqa: S311
    for n in range(NODES):
        yield series("collector_ok", {"node": f"n{n}"}, stretches(dice, [1, 1, 1, 0, STALE]))
        for device in range(DEVICES):
            labels = {"node": f"n{n}", "id": f"{n}-{device}"}
            odd = device < 2  # the others are what these are compared with
            yield series("degrees", labels, stretches(dice, [60, 79, 80, 86, 200, None, STALE] if odd else [70, 71]))
            count = 2
            told: list[float | None] = []
            for step in stretches(dice, [0, 0, 0, 1, None, -1]):
                if step == 1 and dice.random() < 0.3:
                    count = min(40, count + 1)
                if step == -1 and dice.random() < 0.02:
                    count = 0
                told.append(None if step is None else float(count))
            yield series("errors", labels, told)


def stretches(dice: random.Random, of: list[float | None]) -> list[float | None]:
    told: list[float | None] = []
    while len(told) < STEPS:
        told += [dice.choice(of)] * dice.choice((1, 2, 9, 14, 20))
    return told[:STEPS]


def series(metric: str, labels: dict[str, str], told: list[float | None]) -> Series:
    samples = [(START + STEP * i, value) for i, value in enumerate(told) if value is not None]
    return Series({"__name__": metric, "cluster": "a", **labels}, samples)


@dataclass
class Counting:
    """A Prometheus that remembers what it was asked."""

    metrics: PrometheusMetrics
    asked: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)

    def query(self, promql: str, *, at: datetime, timeout: timedelta) -> Answer:
        self.asked.append(promql)
        return self.metrics.query(promql, at=at, timeout=timeout)

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta) -> RangeAnswer:
        self.asked.append(promql)
        self.grids.append(grid)
        return self.metrics.query_range(promql, grid, timeout=timeout)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with PrometheusServer() as server:
        write(server.url, history())
        with PrometheusMetrics(PrometheusSettings(url=server.url)) as metrics:
            yield Scene(metrics, server.url, law(), {f"n{n}": node(f"n{n}") for n in range(NODES)})


def only(scene: Scene, name: str) -> tuple[LoadedPolicy, Reading]:
    made = scene.policy(name)
    (reading,) = readings_of(made, scene.law)
    return made, reading


def values(answer: Answer, reading: Reading) -> dict[Key, float]:
    assert isinstance(answer, Samples), answer
    return {key_of(sample.labels, reading): sample.value for sample in answer.samples}


def exact(scene: Scene, name: str, at: datetime) -> dict[Key, float]:
    made, reading = only(scene, name)
    query = promql.bad(made, reading, None)
    return values(scene.metrics.query(query, at=at, timeout=timedelta(seconds=20)), reading)


EACH = [f"{form}-{how}" for form in FORMS for how in ("metric", "expr")]
GRID = Grid.within(START + timedelta(minutes=2), NOW, timedelta(seconds=60))


@pytest.mark.parametrize("name", EACH)
def test_what_the_controller_finds_is_what_the_exact_question_finds(scene: Scene, name: str) -> None:
    _, reading = only(scene, name)
    alone = replace(scene, law=replace(scene.law, policies=(scene.policy(name),)))
    found = 0
    for i in range(GRID.count):
        at = GRID.at(i)
        wanted = exact(scene, name, at)
        assert values(alone.snapshot(at).answers[name].trigger[reading.key], reading) == wanted, at
        found += len(wanted)
    assert found > 5, "a history in which nothing is bad proves nothing"


@pytest.mark.parametrize("name", EACH)
def test_so_does_the_backtest(scene: Scene, name: str) -> None:
    made, reading = only(scene, name)
    for grid in (GRID, GRID.part(3, 17)):
        counting = Counting(scene.metrics)
        lines = asking.trigger(Asker(counting, timedelta(seconds=20)), made, reading, grid).bad
        assert isinstance(lines, tuple), lines
        for step in range(grid.count):
            there = {key_of(line.track.labels, reading): line.value(step) for line in lines}
            told = {key: value for key, value in there.items() if value is not None}
            assert told == exact(scene, name, grid.at(step)), step
        if name.endswith("-expr"):
            assert len(counting.asked) == 2


@pytest.mark.parametrize("name", [name for name in EACH if name.endswith("-expr")])
def test_of_an_expression_the_exact_question_is_put_once_and_only_if_there_may_be_something(
    scene: Scene, name: str
) -> None:
    made, reading = only(scene, name)
    counting = Counting(scene.metrics)
    alone = replace(scene, metrics=counting, law=replace(scene.law, policies=(made,)))  # type: ignore[arg-type]
    expensive = promql.bad(made, reading, None)
    cheap = promql.candidates(made, reading)
    times = {}
    for at in [*(GRID.at(i) for i in range(GRID.count)), QUIET]:
        counting.asked.clear()
        alone.snapshot(at)
        assert counting.asked.count(cheap or "") == 1
        times[at] = counting.asked.count(expensive)
    assert set(times.values()) == {0, 1}
    assert times[QUIET] == 0


def test_the_backtest_asks_for_the_stretch_alone_in_which_something_may_be_bad(scene: Scene) -> None:
    made, reading = only(scene, "above-expr")
    counting = Counting(scene.metrics)
    whole = Grid.within(START - timedelta(hours=2), QUIET + timedelta(hours=2), timedelta(minutes=1))
    assert asking.trigger(Asker(counting, timedelta(seconds=20)), made, reading, whole).bad
    cheap, dear = counting.grids
    assert cheap == whole
    assert dear.start >= START
    assert dear.end <= NOW + timedelta(minutes=1)
    counting.grids.clear()
    assert asking.trigger(Asker(counting, timedelta(seconds=20)), made, reading, whole.part(0, 100)).bad == ()
    assert len(counting.grids) == 1
