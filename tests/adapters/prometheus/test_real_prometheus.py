"""A real Prometheus, with history written to it: what it says is what arrives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.model import Failed, FailureKind, Samples
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import STALE, Series, write

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TEN = timedelta(seconds=10)
STEP = timedelta(seconds=30)
NODES = 300


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer(flags=["--query.max-samples=20000"]) as server:
        write(server.url, _history())
        yield server


def _history() -> Iterator[Series]:
    """From 60 °C, a degree more every 30 s for 10 minutes; node n0's exporter dies after 5."""
    for n in range(NODES):
        samples = [(START + i * STEP, 60.0 + i) for i in range(20)]
        if n == 0:
            samples = [*samples[:10], (START + 10 * STEP, STALE)]
        yield Series({"__name__": "gpu_temp", "node": f"n{n}"}, samples)
    yield Series({"__name__": "odd", "kind": "nan"}, [(START, math.nan)])
    yield Series({"__name__": "odd", "kind": "inf"}, [(START, math.inf)])


@pytest.fixture
def metrics(prometheus: PrometheusServer) -> Iterator[PrometheusMetrics]:
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as made:
        yield made


def values(metrics: PrometheusMetrics, promql: str, at: datetime) -> dict[str, float]:
    answer = metrics.query(promql, at=at, timeout=TEN)
    assert isinstance(answer, Samples), answer
    assert all("__name__" not in s.labels and s.at == at for s in answer.samples)
    return {s.labels.get("node", ""): s.value for s in answer.samples}


def test_an_answer_is_of_the_time_that_was_asked_for(metrics: PrometheusMetrics) -> None:
    assert values(metrics, 'gpu_temp{node="n1"}', START) == {"n1": 60.0}
    assert values(metrics, 'gpu_temp{node="n1"}', START + 7 * STEP) == {"n1": 67.0}
    assert values(metrics, "gpu_temp", START - timedelta(milliseconds=1)) == {}


def test_milliseconds_are_kept(metrics: PrometheusMetrics) -> None:
    at = START + 5 * STEP
    before = at - timedelta(milliseconds=1)
    assert values(metrics, 'gpu_temp{node="n1"}', before) == {"n1": 64.0}
    assert values(metrics, 'gpu_temp{node="n1"}', at) == {"n1": 65.0}
    assert values(metrics, "time()*vector(1)", before) == {"": before.timestamp()}


def test_offenders_only_and_the_dead_exporter_is_not_among_them(metrics: PrometheusMetrics) -> None:
    hot = values(metrics, "gpu_temp > 78", START + 19 * STEP)
    assert set(hot) == {f"n{n}" for n in range(1, NODES)}
    assert set(hot.values()) == {79.0}


def test_values_that_are_no_numbers(metrics: PrometheusMetrics) -> None:
    answer = metrics.query("odd", at=START, timeout=TEN)
    assert isinstance(answer, Samples)
    odd = {s.labels["kind"]: s.value for s in answer.samples}
    assert math.isnan(odd["nan"])
    assert odd["inf"] == math.inf


def test_a_query_longer_than_a_url_may_be(metrics: PrometheusMetrics) -> None:
    names = "|".join(f"n{n}" for n in range(1, NODES))
    promql = " or ".join(f'gpu_temp{{node=~"{names}"}} > {limit}' for limit in range(100, 60, -1))
    assert len(promql) > 40_000
    assert len(values(metrics, promql, START + 5 * STEP)) == NODES - 1


def failed(metrics: PrometheusMetrics, promql: str) -> Failed:
    answer = metrics.query(promql, at=START, timeout=TEN)
    assert isinstance(answer, Failed), answer
    return answer


def test_a_wrong_query_is_rejected_with_its_words(metrics: PrometheusMetrics) -> None:
    answer = failed(metrics, "sum(gpu_temp")
    assert answer.kind is FailureKind.REJECTED
    assert "parse error" in answer.detail


def test_a_query_that_would_load_too_much_is_rejected(metrics: PrometheusMetrics) -> None:
    answer = metrics.query("max_over_time(gpu_temp[1h:1s])", at=START + timedelta(hours=1), timeout=TEN)
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.REJECTED
    assert "too many samples" in answer.detail


@pytest.mark.parametrize("promql", ["1", '"text"', "gpu_temp[5m]"])
def test_what_is_no_vector_is_no_answer(metrics: PrometheusMetrics, promql: str) -> None:
    assert failed(metrics, promql).kind is FailureKind.GARBLED


def test_the_real_time_out_of_a_heavy_query(prometheus: PrometheusServer) -> None:
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as metrics:
        heavy = "count(" + "+".join(["sum(max_over_time(gpu_temp[5m:1s]))"] * 10) + ")"
        answer = metrics.query(heavy, at=START + 10 * STEP, timeout=timedelta(milliseconds=2))
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.TIMEOUT


def test_a_prometheus_that_hangs_and_goes_on(prometheus: PrometheusServer, metrics: PrometheusMetrics) -> None:
    assert values(metrics, 'gpu_temp{node="n1"}', START) == {"n1": 60.0}
    prometheus.pause()
    try:
        answer = metrics.query("gpu_temp", at=START, timeout=timedelta(milliseconds=300))
    finally:
        prometheus.resume()
    assert isinstance(answer, Failed), answer
    assert answer.kind is FailureKind.TIMEOUT, answer
    assert values(metrics, 'gpu_temp{node="n1"}', START) == {"n1": 60.0}


def test_a_prometheus_that_is_killed_and_back(prometheus: PrometheusServer, metrics: PrometheusMetrics) -> None:
    assert values(metrics, 'gpu_temp{node="n1"}', START) == {"n1": 60.0}
    prometheus.kill()
    answer = failed(metrics, "gpu_temp")
    assert answer.kind is FailureKind.UNREACHABLE, answer
    prometheus.start()
    # Not the same client: while it was gone somebody may have taken its port, and then it comes back on another.
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as again:
        assert values(again, 'gpu_temp{node="n1"}', START) == {"n1": 60.0}
