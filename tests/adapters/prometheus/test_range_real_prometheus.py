"""A range query equals the instant query at each of its steps, also at the edges of what it is cut into."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.model import Failed, FailureKind, Samples
from quarantine.core.series import Grid, Tracks
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import STALE, Series, write

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TEN = timedelta(seconds=10)
SCRAPE = timedelta(seconds=30)
GRID = Grid(START, timedelta(minutes=1), 61)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer(flags=["--query.max-samples=2000"]) as server:
        write(server.url, _history())
        yield server


def _history() -> Iterator[Series]:
    for n in range(4):
        values = [70.0 + (i * (n + 3)) % 17 for i in range(120)]
        samples = [(START + i * SCRAPE, value) for i, value in enumerate(values) if n != 2 or not 30 < i < 55]
        if n == 1:
            samples = [*samples[:70], (START + 70 * SCRAPE, STALE)]
        yield Series({"__name__": "temp", "node": f"n{n}"}, samples)
        counted = [(START + i * SCRAPE, float(i // (n + 5) if i < 80 else (i - 80) // 3)) for i in range(120)]
        yield Series({"__name__": "errors", "node": f"n{n}"}, counted)


@pytest.fixture
def metrics(prometheus: PrometheusServer) -> Iterator[PrometheusMetrics]:
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as made:
        yield made


L = "max by (node) (last_over_time(temp[1m]) > 0 < 130)"
FORMS = [
    f"({L}) > 78",
    f"count_over_time((({L}) > 78)[5m:30s]) >= 0.5 * count_over_time(({L})[5m:30s]) and ({L}) > 70",
    "errors - min_over_time(errors[10m]) >= 3 unless resets(errors[20m]) > 0",
    "count by (node) (temp)",
    "changes(temp[2m]) > 1",
]


@pytest.mark.parametrize("promql", FORMS)
def test_a_range_query_equals_the_instant_query_at_each_step(metrics: PrometheusMetrics, promql: str) -> None:
    answer = metrics.query_range(promql, GRID, timeout=TEN)
    assert isinstance(answer, Tracks), answer
    assert answer.points > 0
    for step in range(GRID.count):
        instant = metrics.query(promql, at=GRID.at(step), timeout=TEN)
        assert isinstance(instant, Samples), instant
        said = {(s.labels["node"], s.value) for s in instant.samples}
        assert {(s.labels["node"], s.value) for s in answer.samples(step)} == said


def test_cut_by_the_limit_of_samples_it_is_the_same(prometheus: PrometheusServer) -> None:
    """The fixture's limit makes the subquery too much for the whole hour; another server answers it at once."""
    heavy = f"sum by (node) (count_over_time(({L})[30m:10s]))"
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as metrics:
        cut = metrics.query_range(heavy, GRID, timeout=TEN)
        assert metrics._longest[heavy] < GRID.count
    with PrometheusServer() as roomy:
        write(roomy.url, _history())
        with PrometheusMetrics(PrometheusSettings(roomy.url)) as metrics:
            whole = metrics.query_range(heavy, GRID, timeout=TEN)
    assert isinstance(cut, Tracks), cut
    assert isinstance(whole, Tracks), whole
    by_node = {track.labels["node"]: (track.steps, track.values) for track in whole.tracks}
    assert {track.labels["node"]: (track.steps, track.values) for track in cut.tracks} == by_node


def test_more_points_than_prometheus_gives_at_once(metrics: PrometheusMetrics) -> None:
    grid = Grid(START, timedelta(milliseconds=250), 12_000)
    answer = metrics.query_range('temp{node="n0"} > 80', grid, timeout=TEN)
    assert isinstance(answer, Tracks), answer
    (track,) = answer.tracks
    edge = 11_000  # where it was cut
    for step in (0, 1, edge - 1, edge, edge + 1, 11_999):
        instant = metrics.query('temp{node="n0"} > 80', at=grid.at(step), timeout=TEN)
        assert isinstance(instant, Samples)
        assert [sample.value for sample in instant.samples] == [v for v in [track.value(step)] if v is not None]


def test_what_prometheus_rejects_is_no_answer(metrics: PrometheusMetrics) -> None:
    answer = metrics.query_range("sum(temp", GRID, timeout=TEN)
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.REJECTED


def test_a_prometheus_that_hangs(prometheus: PrometheusServer, metrics: PrometheusMetrics) -> None:
    prometheus.pause()
    try:
        answer = metrics.query_range("temp", GRID, timeout=timedelta(milliseconds=200))
    finally:
        prometheus.resume()
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.TIMEOUT
