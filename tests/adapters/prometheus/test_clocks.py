"""A server whose clock is not ours is asked about another time than now: what was so then is no evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.model import Answer, Failed, FailureKind, Samples
from quarantine.sandbox.prometheus import PrometheusServer
from tests.adapters.prometheus.standin import Standin, vector

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GOOD = vector(({"node": "a"}, "1"), at=NOW.timestamp())


def asked(date: str, *, tolerance: timedelta = MINUTE, compares: bool = True) -> Answer:
    headers = {"Date": date} if date else {}
    with Standin(lambda peer, _: peer.reply(GOOD, **headers)) as server:
        now = (lambda: NOW) if compares else None
        settings = PrometheusSettings(server.url, now=now, clock_tolerance=tolerance)
        with PrometheusMetrics(settings) as metrics:
            return metrics.query("up", at=NOW, timeout=timedelta(seconds=10))


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (timedelta(minutes=14), "has a clock that is 14m ahead of ours"),
        (-timedelta(minutes=14), "has a clock that is 14m behind ours"),
        (timedelta(minutes=1, seconds=10), "1m ahead of ours"),
        (timedelta(days=400, hours=3), "400d ahead of ours"),
        (-timedelta(hours=2, minutes=9), "2h behind ours"),
    ],
)
def test_a_clock_that_differs_is_no_answer(apart: timedelta, said: str) -> None:
    answer = asked(format_datetime(NOW + apart, usegmt=True))
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.MISCONFIGURED
    assert said in answer.detail
    assert "NTP" in answer.detail


@pytest.mark.parametrize("apart", [-58, -1, 0, 1, 58])
def test_clocks_that_nearly_agree_do(apart: int) -> None:
    assert isinstance(asked(format_datetime(NOW + timedelta(seconds=apart), usegmt=True)), Samples)


@pytest.mark.parametrize("date", ["", "yesterday", "Sun, 99 Foo 2026 00:00:00 GMT", "0"])
def test_a_server_that_does_not_say_what_time_it_is_is_believed(date: str) -> None:
    assert isinstance(asked(date), Samples)


def test_nothing_is_compared_where_that_is_not_asked_for() -> None:
    long_ago = format_datetime(NOW - timedelta(days=9), usegmt=True)
    assert isinstance(asked(long_ago, tolerance=timedelta(0)), Samples)
    assert isinstance(asked(long_ago, compares=False), Samples)


def test_a_real_prometheus_says_what_time_it_is() -> None:
    now = datetime.now(UTC)  # noqa: TID251 - that of the server
    with PrometheusServer() as server:
        for ours, agree in ((now, True), (now - timedelta(minutes=14), False)):
            settings = PrometheusSettings(server.url, now=lambda ours=ours: ours)  # type: ignore[misc]
            with PrometheusMetrics(settings) as metrics:
                answer = metrics.query("vector(1)", at=ours, timeout=timedelta(seconds=10))
            assert isinstance(answer, Samples) is agree
