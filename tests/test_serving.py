"""Metrics and probes over real HTTP: what a kubelet and a Prometheus are told."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, Gauge

from quarantine.controller import CycleReport
from quarantine.core.errors import LedgerUnavailable, UsageError
from quarantine.core.model import Failed, FailureKind, PolicyAnswers, Samples
from quarantine.health import LONGEST_CYCLE, Health
from quarantine.serving import served
from tests.core.world import NOW, snapshot

SILENT = Failed(FailureKind.UNREACHABLE, "connection refused", "up")
WELL = CycleReport("all is well", at=NOW)


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def health(seconds: Seconds) -> Health:
    return Health(timedelta(seconds=15), timedelta(minutes=1), seconds)


@contextmanager
def door(health: Health) -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("one", "1.", registry=registry).set(1)
    with served(registry, health, "127.0.0.1", 0) as port:
        yield port


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_what_is_served_where(health: Health) -> None:
    with door(health) as port:
        assert ask(port, "/metrics")[0] == 200
        assert "one 1.0" in ask(port, "/metrics")[1]
        assert ask(port, "/livez") == (200, "cycles go on\n")
        assert ask(port, "/readyz") == (503, "no cycle has ended yet\n")
        assert ask(port, "/") == (404, "there is /metrics, /livez and /readyz\n")
        assert ask(port, "/livez", "POST")[0] == 405
        assert ask(port, "/livez", "HEAD") == (200, "")


def test_a_client_that_says_nothing_keeps_no_other_waiting(health: Health) -> None:
    with door(health) as port, socket.create_connection(("127.0.0.1", port), timeout=5):
        assert ask(port, "/livez")[0] == 200


def test_ready_once_a_cycle_had_all_that_it_needs(health: Health) -> None:
    health.after(WELL)
    assert health.ready().good
    health.after(CycleReport("nothing was done", error=LedgerUnavailable("the database is down")))
    assert health.ready() == (False, "the database is down")
    assert health.live().good, "starting anew mends no database"
    health.after(WELL)
    assert health.ready().good


def test_waiting_for_the_ledger_is_alive_and_not_ready(health: Health, seconds: Seconds) -> None:
    for _ in range(100):
        seconds.now += 60
        health.waiting("the database is down")
        assert health.live().good
        assert health.ready() == (False, "the database is down")


def test_ready_while_any_policy_is_answered(health: Health) -> None:
    heard, unheard = PolicyAnswers({"a": Samples((), "up")}, {}, {}), PolicyAnswers({"a": SILENT}, {}, {})
    blind = ("policies gpu-hot, nvlink-down got no answer: connection refused",)
    some = replace(snapshot(), answers={"gpu-hot": heard, "nvlink-down": unheard})
    health.after(replace(WELL, snapshot=some, blind=blind))
    assert health.ready().good, "one policy without an answer is that policy's matter"
    none = replace(snapshot(), answers={"gpu-hot": unheard, "nvlink-down": unheard})
    health.after(replace(WELL, snapshot=none, blind=blind))
    assert health.ready() == (False, blind[0])
    assert health.live().good
    health.after(replace(WELL, snapshot=replace(snapshot(), answers={})))
    assert health.ready().good, "without a policy nothing is asked"


def test_a_cycle_that_does_not_end_is_told_by_liveness(health: Health, seconds: Seconds) -> None:
    health.after(WELL)
    seconds.now += LONGEST_CYCLE.total_seconds()
    assert health.live().good
    seconds.now += 1
    with door(health) as port:
        assert ask(port, "/livez") == (
            503,
            "no cycle has ended for 601 s, and 10m is the most: something hangs\n",
        )
        health.after(WELL)
        assert ask(port, "/livez")[0] == 200


def test_a_slow_pace_is_given_more_time(seconds: Seconds) -> None:
    slow = Health(timedelta(hours=1), timedelta(minutes=1), seconds)
    seconds.now += 5 * 3660
    assert slow.live().good
    seconds.now += 1
    assert not slow.live().good


def test_an_address_that_is_taken_is_said(health: Health) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port} \(address already in use\).*metrics\.listen"),
            served(CollectorRegistry(), health, "127.0.0.1", port),
        ):
            pass


def test_a_host_that_does_not_exist_is_said(health: Health) -> None:
    with (
        pytest.raises(UsageError, match=r"metrics\.listen"),
        served(CollectorRegistry(), health, "no-such-host.invalid", 9469),
    ):
        pass
