"""Range queries, byte by byte: what is complete and on the grid becomes tracks, anything else is no answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quarantine.adapters.prometheus import Flavour, PrometheusMetrics, PrometheusSettings, ranges
from quarantine.core.model import Failed, FailureKind
from quarantine.core.series import Grid, RangeAnswer, Tracks
from tests.adapters.prometheus.standin import Peer, Request, Standin

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
UNIX = int(START.timestamp())
GRID = Grid(START, timedelta(seconds=30), 10)
TEN = timedelta(seconds=10)


def matrix(*series: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(series)}, **more}


def series(*values: tuple[float, str], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": "m", **labels}, "values": [[UNIX + at, text] for at, text in values]}


def ask(reply: object, *, grid: Grid = GRID, status: str = "200 OK", **settings: Any) -> RangeAnswer:
    with (
        Standin(lambda peer, _: peer.reply(reply, status)) as server,
        PrometheusMetrics(PrometheusSettings(server.url, **settings)) as metrics,
    ):
        return metrics.query_range("m > 1", grid, timeout=TEN)


def test_values_are_at_their_steps() -> None:
    answer = ask(matrix(series((0, "1"), (30, "2.5"), (270, "NaN"), gpu="0"), series((60, "+Inf"), gpu="1")))
    assert isinstance(answer, Tracks)
    first, second = answer.tracks
    assert (first.labels, list(first.steps), list(first.values)[:2]) == ({"gpu": "0"}, [0, 1, 9], [1.0, 2.5])
    assert (second.labels, list(second.steps), list(second.values)) == ({"gpu": "1"}, [2], [float("inf")])
    assert (answer.grid, answer.query) == (GRID, "m > 1")


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (matrix(series((0, "1")), warnings=["store down"]), FailureKind.PARTIAL, "store down"),
        (matrix(series((0, "1")), isPartial=True), FailureKind.PARTIAL, "isPartial"),
        (matrix(series((5, "1"))), FailureKind.GARBLED, "other times"),
        (matrix(series((300, "1"))), FailureKind.GARBLED, "other times"),
        (matrix(series((-30, "1"))), FailureKind.GARBLED, "other times"),
        (matrix(series((30, "1"), (0, "1"))), FailureKind.GARBLED, "other times"),
        (matrix(series((0, "1"), (0, "1"))), FailureKind.GARBLED, "other times"),
        (matrix(series((0, "one"))), FailureKind.GARBLED, "no number"),
        (matrix(series((0, "1_0"))), FailureKind.GARBLED, "no number"),
        (matrix(series((0, " 1"))), FailureKind.GARBLED, "no number"),
        (matrix({"metric": {}, "values": [[UNIX]]}), FailureKind.GARBLED, "no number"),
        (matrix({"metric": {}, "values": ["ab"]}), FailureKind.GARBLED, "no number"),
        (matrix({"metric": {}, "values": 7}), FailureKind.GARBLED, "no labels or no values"),
        (matrix({"metric": {"gpu": 7}, "values": []}), FailureKind.GARBLED, "no text"),
        (matrix({"metric": {}, "histograms": []}), FailureKind.GARBLED, "native histogram"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}}, FailureKind.GARBLED, "of a matrix"),
    ],
)
def test_what_is_not_as_documented_is_no_answer(reply: object, kind: FailureKind, words: str) -> None:
    answer = ask(reply)
    assert isinstance(answer, Failed)
    assert answer.kind is kind
    assert words in answer.detail
    assert "/api/v1/query_range" in answer.detail


def test_an_instant_query_takes_no_matrix() -> None:
    with (
        Standin(lambda peer, _: peer.reply(matrix())) as server,
        PrometheusMetrics(PrometheusSettings(server.url)) as metrics,
    ):
        answer = metrics.query("m", at=START, timeout=TEN)
    assert isinstance(answer, Failed)
    assert "matrix instead of a vector" in answer.detail


class Limited:
    """A server that takes so many steps at once, and says what is asked otherwise; each step has its number."""

    def __init__(self, most: int, error: Callable[[Peer], None]) -> None:
        self.most = most
        self.error = error
        self.spans: list[tuple[int, int]] = []

    def __call__(self, peer: Peer, request: Request) -> None:
        said = request.parameters
        start, end, step = (float(said[name]) for name in ("start", "end", "step"))
        count = round((end - start) / step) + 1
        self.spans.append((round((start - UNIX) / step), count))
        if count > self.most:
            self.error(peer)
            return
        first = round((start - UNIX) / step)
        values = [[start + i * step, str(first + i)] for i in range(count)]
        late = [{"metric": {"gpu": "late"}, "values": values[-1:]}] if end == GRID.end.timestamp() else []
        peer.reply(matrix({"metric": {"gpu": "0"}, "values": values}, *late))


def too_many(peer: Peer) -> None:
    said = "query processing would load too many samples into memory in query execution"
    peer.reply({"status": "error", "errorType": "execution", "error": said}, "422 Unprocessable Entity")


def test_what_is_too_much_at_once_is_asked_in_shorter_stretches_on_one_grid() -> None:
    server_side = Limited(3, too_many)
    with Standin(server_side) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        answer = metrics.query_range("m", GRID, timeout=TEN)
        assert isinstance(answer, Tracks)
        assert {t.labels["gpu"]: list(t.values) for t in answer.tracks} == {"0": list(range(10)), "late": [9.0]}
        assert {t.labels["gpu"]: list(t.steps) for t in answer.tracks} == {"0": list(range(10)), "late": [9]}
        assert server_side.spans == [(0, 10), (0, 5), (0, 3), (3, 3), (6, 3), (9, 1)]
        # What it learned of this query it uses for the next stretch.
        metrics.query_range("m", GRID, timeout=TEN)
        assert server_side.spans[6:] == [(0, 3), (3, 3), (6, 3), (9, 1)]


def test_an_answer_that_is_too_large_is_asked_in_halves() -> None:
    answer = ask(matrix(series((0, "1"), note="x" * 2000)), grid=Grid(START, GRID.step, 1), max_body=1000)
    assert isinstance(answer, Failed)
    with (
        Standin(Limited(10, too_many)) as server,
        PrometheusMetrics(PrometheusSettings(server.url, max_body=200)) as metrics,
    ):
        halved = metrics.query_range("m", GRID, timeout=TEN)
    assert isinstance(halved, Tracks), halved
    assert halved.points == 11


def test_a_step_that_is_too_much_by_itself_has_no_answer() -> None:
    with Standin(Limited(0, too_many)) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        answer = metrics.query_range("m", GRID, timeout=TEN)
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.REJECTED
    assert "too many samples" in answer.detail


def test_a_wrong_query_is_not_asked_again_in_halves() -> None:
    def wrong(peer: Peer) -> None:
        peer.reply({"status": "error", "errorType": "bad_data", "error": "parse error"}, "400 Bad Request")

    server_side = Limited(0, wrong)
    with Standin(server_side) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        answer = metrics.query_range("m", GRID, timeout=TEN)
    assert isinstance(answer, Failed)
    assert server_side.spans == [(0, 10)]


def test_a_server_that_is_slow_is_not_asked_for_ever() -> None:
    def slow(peer: Peer) -> None:
        peer.reply({"status": "error", "errorType": "timeout", "error": "timed out"}, "503 Service Unavailable")

    server_side = Limited(0, slow)
    with Standin(server_side) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        answer = metrics.query_range("m", GRID, timeout=TEN)
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.TIMEOUT
    assert [count for _, count in server_side.spans] == [10, 5, 3]


def test_more_points_than_a_server_gives_are_asked_in_stretches() -> None:
    longest = ranges.LONGEST
    grid = Grid(START, timedelta(seconds=1), 2 * longest + 1)
    server_side = Limited(longest, too_many)
    with Standin(server_side) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        answer = metrics.query_range("m", grid, timeout=timedelta(seconds=20))
    assert isinstance(answer, Tracks), answer
    assert server_side.spans == [(0, longest), (longest, longest), (2 * longest, 1)]
    assert list(answer.tracks[0].steps) == list(range(grid.count))


def test_nothing_is_asked_for_no_step() -> None:
    with Standin(Limited(10, too_many)) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        assert metrics.query_range("m", Grid(START, GRID.step, 0), timeout=TEN) == Tracks(
            (), Grid(START, GRID.step, 0), "m"
        )
        assert server.requests == []


@pytest.mark.parametrize(
    ("flavour", "wanted"),
    [(Flavour.THANOS, {"partial_response": "false", "dedup": "true"}), (Flavour.VICTORIAMETRICS, {"nocache": "1"})],
)
def test_each_flavour_is_told_to_admit_what_it_lacks(flavour: Flavour, wanted: dict[str, str]) -> None:
    with (
        Standin(lambda peer, _: peer.reply(matrix())) as server,
        PrometheusMetrics(PrometheusSettings(server.url, flavour=flavour)) as metrics,
    ):
        metrics.query_range("m", GRID, timeout=TEN)
        (asked,) = server.requests
    assert wanted.items() <= asked.parameters.items()
    assert asked.path.startswith("/api/v1/query_range")


def test_milliseconds_are_kept_and_long_queries_are_posted() -> None:
    grid = Grid(START + timedelta(milliseconds=250), timedelta(milliseconds=500), 3)
    with (
        Standin(lambda peer, _: peer.reply(matrix())) as server,
        PrometheusMetrics(PrometheusSettings(server.url)) as metrics,
    ):
        metrics.query_range("m" * 5000, grid, timeout=TEN)
        (asked,) = server.requests
    assert (asked.method, asked.parameters["query"]) == ("POST", "m" * 5000)
    said = {name: asked.parameters[name] for name in ("start", "end", "step")}
    assert said == {"start": f"{UNIX}.250", "end": f"{UNIX + 1}.250", "step": "0.500"}
