"""Samples as they were scraped: an instant query of a range selector, byte by byte and from a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.model import Failed, FailureKind
from quarantine.core.series import Grid, RangeAnswer, Tracks
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import STALE, Series, write
from tests.adapters.prometheus.standin import Peer, Request, Standin

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
UNIX = START.timestamp()
MINUTES = timedelta(minutes=5)
TEN = timedelta(seconds=10)


def until(end: datetime, length: timedelta = MINUTES) -> Grid:
    step = timedelta(milliseconds=1)
    return Grid(end - length, step, length // step + 1)


NOW = until(START + MINUTES)


def matrix(*values: tuple[float, str], kind: str = "matrix", **more: Any) -> dict[str, Any]:
    one = {"metric": {"__name__": "m", "gpu": "0"}, "values": [[UNIX + at, text] for at, text in values]}
    return {"status": "success", "data": {"resultType": kind, "result": [one]}, **more}


def ask(reply: object, **settings: Any) -> RangeAnswer:
    with (
        Standin(lambda peer, _: peer.reply(reply)) as server,
        PrometheusMetrics(PrometheusSettings(server.url, **settings)) as metrics,
    ):
        return metrics.query_samples("m[5m]", NOW, timeout=TEN)


def test_samples_have_the_times_at_which_they_were_scraped() -> None:
    answer = ask(matrix((0, "1"), (14.998, "2.5"), (30.003, "NaN"), (300, "+Inf")))
    assert isinstance(answer, Tracks)
    (track,) = answer.tracks
    assert track.labels == {"gpu": "0"}
    assert [answer.grid.at(step) - START for step in track.steps] == [
        timedelta(0),
        timedelta(seconds=14.998),
        timedelta(seconds=30.003),
        MINUTES,
    ]
    assert list(map(repr, track.values)) == ["1.0", "2.5", "nan", "inf"]
    assert (answer.grid, answer.query) == (NOW, "m[5m]")


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (matrix((0, "1"), warnings=["store down"]), FailureKind.PARTIAL, "store down"),
        (matrix((0, "1"), isPartial=True), FailureKind.PARTIAL, "isPartial"),
        (matrix((301, "1")), FailureKind.GARBLED, "other times"),
        (matrix((-1, "1")), FailureKind.GARBLED, "other times"),
        (matrix((30, "1"), (0, "1")), FailureKind.GARBLED, "other times"),
        (matrix((0, "1"), (0, "1")), FailureKind.GARBLED, "other times"),
        (matrix((0, "warm")), FailureKind.GARBLED, "no number"),
        (matrix((0, "1"), kind="vector"), FailureKind.GARBLED, "vector instead of a matrix"),
        (matrix((0, "1"), kind="streams"), FailureKind.GARBLED, "streams instead of a matrix"),
        ({"status": "success", "data": {"resultType": "matrix", "result": None}}, FailureKind.GARBLED, "its result"),
        (b"<html>log in</html>", FailureKind.GARBLED, "web page"),
    ],
)
def test_what_is_not_as_documented_is_no_answer(reply: object, kind: FailureKind, words: str) -> None:
    answer = ask(reply)
    assert isinstance(answer, Failed)
    assert answer.kind is kind
    assert words in answer.detail
    assert "/api/v1/query " in answer.detail


def test_an_answer_that_is_too_long_is_none() -> None:
    answer = ask(matrix(*((n / 10, "1") for n in range(3000))), max_body=1024)
    assert isinstance(answer, Failed)
    assert "MiB" in answer.detail


def test_it_is_asked_for_the_end_of_the_time_to_the_millisecond() -> None:
    seen: list[Request] = []

    def script(peer: Peer, request: Request) -> None:
        seen.append(request)
        peer.reply(matrix())

    with Standin(script) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        late = until(START + timedelta(milliseconds=7))
        assert isinstance(metrics.query_samples("m[5m]", late, timeout=TEN), Tracks)
    assert seen[0].path.endswith("/api/v1/query")
    assert (seen[0].parameters["query"], seen[0].parameters["time"]) == ("m[5m]", f"{UNIX + 0.007:.3f}")


def test_an_instant_query_beside_it_still_takes_no_matrix() -> None:
    with (
        Standin(lambda peer, _: peer.reply(matrix((0, "1")))) as server,
        PrometheusMetrics(PrometheusSettings(server.url)) as metrics,
    ):
        assert isinstance(metrics.query_samples("m[5m]", NOW, timeout=TEN), Tracks)
        assert isinstance(metrics.query("m[5m]", at=START, timeout=TEN), Failed)


def test_what_is_asked_at_once_is_asked_once() -> None:
    """Otherwise a time-out would be halved, and waited for again."""
    asked: list[Request] = []

    def script(peer: Peer, request: Request) -> None:
        asked.append(request)
        peer.hang()

    with Standin(script) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        begun = monotonic()
        grid = Grid(START, timedelta(seconds=30), 60)
        answer = metrics.query_range("m", grid, timeout=timedelta(milliseconds=200), at_once=True)
        assert isinstance(answer, Failed)
        assert answer.kind is FailureKind.TIMEOUT
        assert monotonic() - begun < 2
    assert len(asked) == 1


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        on_time = [(START + timedelta(seconds=15 * n, milliseconds=n % 3), 70.0 + n) for n in range(41)]
        write(
            server.url,
            [
                Series({"__name__": "temp", "gpu": "0"}, on_time),
                Series({"__name__": "temp", "gpu": "1"}, [*on_time[:30], (START + timedelta(seconds=450), STALE)]),
            ],
        )
        yield server


def test_a_real_prometheus_gives_what_was_written(prometheus: PrometheusServer) -> None:
    """The sample at the window's very beginning is in it before Prometheus 3, and not since."""
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as metrics:
        within = until(START + timedelta(minutes=10), timedelta(minutes=6))
        answer = metrics.query_samples("temp[6m]", within, timeout=TEN)
    assert isinstance(answer, Tracks), answer
    told = {
        track.labels["gpu"]: [(within.at(s), v) for s, v in zip(track.steps, track.values, strict=True)]
        for track in answer.tracks
    }
    every = [(START + timedelta(seconds=15 * n, milliseconds=n % 3), 70.0 + n) for n in range(16, 40)]
    assert told == {"0": every, "1": every[:14]}


def test_a_real_prometheus_that_is_asked_for_something_else(prometheus: PrometheusServer) -> None:
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as metrics:
        for query, words in (("temp", "vector instead of a matrix"), ("temp[6m", "rejects the query")):
            answer = metrics.query_samples(query, NOW, timeout=TEN)
            assert isinstance(answer, Failed)
            assert words in answer.detail
