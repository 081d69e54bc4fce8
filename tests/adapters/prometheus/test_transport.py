"""Networks and servers that fail, hang, drip and lie: no query raises, and none outlasts its time."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from threading import enumerate as threads
from typing import Any

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.model import Failed, FailureKind, Samples
from tests.adapters.prometheus.standin import Peer, Request, Standin, vector

AT = datetime.fromtimestamp(1_700_000_000, UTC)
TEN = timedelta(seconds=10)
SHORT = timedelta(milliseconds=300)
SLACK = 1.5  # seconds that a busy machine may add
GOOD = vector(({"node": "a"}, "1"))


@contextmanager
def asking(script: Callable[[Peer, Request], None], **settings: Any) -> Iterator[tuple[Standin, PrometheusMetrics]]:
    with Standin(script) as server, PrometheusMetrics(PrometheusSettings(server.url, **settings)) as metrics:
        yield server, metrics


def failed(metrics: PrometheusMetrics, timeout: timedelta = TEN) -> Failed:
    answer = metrics.query("up", at=AT, timeout=timeout)
    assert isinstance(answer, Failed), answer
    assert answer.detail.endswith(".")
    assert "\n" not in answer.detail
    assert "0x" not in answer.detail  # no object's address, which changes each time
    return answer


def within(metrics: PrometheusMetrics, timeout: timedelta = SHORT) -> Failed:
    begin = time.monotonic()
    answer = failed(metrics, timeout)
    assert time.monotonic() - begin < timeout.total_seconds() + SLACK
    assert answer.kind is FailureKind.TIMEOUT
    return answer


def ends_soon(name: str = "prometheus-query") -> bool:
    """Whether the threads of all queries end: one that is left behind must not stay."""
    for thread in threads():
        if thread.name == name:
            thread.join(timeout=10)
    return not any(thread.name == name for thread in threads())


# --- No connection ----------------------------------------------------------------------------------------------------


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with PrometheusMetrics(PrometheusSettings(f"http://127.0.0.1:{port}")) as metrics:
        answer = failed(metrics)
    assert answer.kind is FailureKind.UNREACHABLE
    assert answer.detail == (
        f"http://127.0.0.1:{port}/api/v1/query refuses the connection; "
        "check that Prometheus runs and that prometheus.url is its address."
    )


def test_a_name_that_does_not_resolve() -> None:
    with PrometheusMetrics(PrometheusSettings("http://prometheus.invalid:9090")) as metrics:
        answer = failed(metrics)
    assert answer.kind is FailureKind.UNREACHABLE
    assert "does not resolve" in answer.detail


def test_a_name_look_up_that_hangs_does_not_hold_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_comes = Event()

    def look_up(*_: object, **__: object) -> object:
        answer_comes.wait(timeout=60)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with PrometheusMetrics(PrometheusSettings("http://prometheus.example:9090")) as metrics:
        assert "could not be connected to within 0.3 s" in within(metrics).detail
        answer_comes.set()
        assert ends_soon()


def test_a_server_that_takes_the_connection_and_says_nothing_in_tls() -> None:
    with Standin(lambda _, __: None, only=b"") as server:
        url = server.url.replace("http://", "https://")
        with PrometheusMetrics(PrometheusSettings(url)) as metrics:
            within(metrics)
            assert server.asked.is_set()
    assert ends_soon()


# --- Slow -------------------------------------------------------------------------------------------------------------


def hangs(peer: Peer, _: Request) -> None:
    peer.hang()


def drips_headers(peer: Peer, _: Request) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    peer.drip(b"a")


def drips_body(peer: Peer, _: Request) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    peer.drip(b" ")


def drips_chunks(peer: Peer, _: Request) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    peer.drip(b"1\r\n \r\n")


def drips_to_the_end_of_the_connection(peer: Peer, _: Request) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    peer.drip(b" ")


@pytest.mark.parametrize("script", [hangs, drips_headers, drips_body, drips_chunks, drips_to_the_end_of_the_connection])
def test_a_slow_server_does_not_hold_the_query(script: Callable[[Peer, Request], None]) -> None:
    with asking(script) as (_, metrics):
        assert "did not finish its answer within 0.3 s" in within(metrics).detail
        assert ends_soon()


def test_no_time_is_a_time_out() -> None:
    with asking(lambda peer, _: peer.reply(GOOD)) as (server, metrics):
        within(metrics, timedelta(0))
        within(metrics, timedelta(seconds=-1))
        assert server.connections == 0


def test_the_settings_own_limit_holds_against_a_patient_caller() -> None:
    with asking(hangs, timeout=SHORT) as (_, metrics):
        begin = time.monotonic()
        assert failed(metrics, timedelta(minutes=5)).kind is FailureKind.TIMEOUT
        assert time.monotonic() - begin < SHORT.total_seconds() + SLACK


# --- Broken -----------------------------------------------------------------------------------------------------------


def closes(_: Peer, __: Request) -> None:
    return


def resets(peer: Peer, _: Request) -> None:
    peer.reset()


def resets_in_the_body(peer: Peer, _: Request) -> None:
    peer.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"status":')
    peer.reset()


def truncates(peer: Peer, _: Request) -> None:
    peer.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"status":')


def truncates_chunks(peer: Peer, _: Request) -> None:
    peer.send(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{"status":\r\n')


def truncates_gzip(peer: Peer, _: Request) -> None:
    peer.reply(gzip.compress(b'{"status":"success"}')[:-12], Content_Encoding="gzip")


def is_no_gzip(peer: Peer, _: Request) -> None:
    peer.reply(GOOD, Content_Encoding="gzip")


def speaks_ssh(peer: Peer, _: Request) -> None:
    peer.send(b"SSH-2.0-OpenSSH_9.2\r\n")


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (closes, FailureKind.UNREACHABLE),
        (resets, FailureKind.UNREACHABLE),
        (resets_in_the_body, FailureKind.UNREACHABLE),
        (truncates, FailureKind.GARBLED),
        (truncates_chunks, FailureKind.GARBLED),
        (truncates_gzip, FailureKind.GARBLED),
        (is_no_gzip, FailureKind.GARBLED),
        (speaks_ssh, FailureKind.GARBLED),
    ],
)
def test_a_broken_answer_is_no_answer_and_is_asked_for_once(
    script: Callable[[Peer, Request], None], kind: FailureKind
) -> None:
    with asking(script) as (server, metrics):
        assert failed(metrics).kind is kind
        assert len(server.requests) == 1


def test_a_503_is_not_slept_through() -> None:
    with asking(lambda peer, _: peer.reply(b"", "503 Service Unavailable", Retry_After="30")) as (server, metrics):
        begin = time.monotonic()
        assert failed(metrics).kind is FailureKind.UNAVAILABLE
        assert time.monotonic() - begin < SLACK
        assert len(server.requests) == 1


# --- Huge -------------------------------------------------------------------------------------------------------------


def announces_much(peer: Peer, _: Request) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{")
    peer.hang()


def sends_much(peer: Peer, _: Request) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not peer.stopped.is_set():
        peer.send(b" " * 65536)


def unpacks_to_much(peer: Peer, _: Request) -> None:
    peer.reply(gzip.compress(b" " * 20_000_000), Content_Encoding="gzip")


@pytest.mark.parametrize("script", [announces_much, sends_much, unpacks_to_much])
def test_a_huge_answer_is_not_swallowed(script: Callable[[Peer, Request], None]) -> None:
    with asking(script, max_body=1024 * 1024) as (_, metrics):
        answer = failed(metrics)
    assert answer.kind is FailureKind.GARBLED
    assert "more than 1 MiB" in answer.detail


# --- Connections and threads ------------------------------------------------------------------------------------------


def test_a_connection_is_used_again() -> None:
    with asking(lambda peer, _: peer.reply(GOOD)) as (server, metrics):
        for _ in range(5):
            assert isinstance(metrics.query("up", at=AT, timeout=TEN), Samples)
        assert server.connections == 1


def test_a_kept_connection_that_closes_under_the_question_is_replaced_once() -> None:
    def script(peer: Peer, _: Request) -> None:
        if peer.nth == 1:
            peer.reply(GOOD)

    with asking(script) as (server, metrics):
        for _ in range(3):
            assert isinstance(metrics.query("up", at=AT, timeout=TEN), Samples)
        assert server.connections == 3
        assert len(server.requests) == 5


def test_answers_do_not_mix_when_many_threads_ask() -> None:
    def script(peer: Peer, request: Request) -> None:
        peer.reply(vector(({"asked": request.parameters["query"]}, "1")))

    def ask(number: int) -> str:
        answer = metrics.query(f"q{number}", at=AT, timeout=TEN)
        assert isinstance(answer, Samples), answer
        return answer.samples[0].labels["asked"]

    with asking(script, max_parallel=4) as (server, metrics), ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(200))) == [f"q{n}" for n in range(200)]
        assert server.connections <= 4


def test_a_full_house_waits_within_its_time() -> None:
    with asking(hangs, max_parallel=1) as (server, metrics):
        first = Thread(target=lambda: metrics.query("up", at=AT, timeout=TEN))
        first.start()
        assert server.asked.wait(10)
        assert "earlier queries are still waiting" in within(metrics).detail
        assert len(server.requests) == 1
        metrics.close()
        first.join(10)
        assert not first.is_alive()


def test_close_breaks_off_what_is_being_asked() -> None:
    answers: list[object] = []
    with asking(hangs) as (server, metrics):
        waiting = Thread(target=lambda: answers.append(metrics.query("up", at=AT, timeout=TEN)))
        waiting.start()
        assert server.asked.wait(10)
        begin = time.monotonic()
        metrics.close()
        waiting.join(10)
        assert time.monotonic() - begin < SLACK
        assert "the controller is stopping" in failed(metrics).detail
    (answer,) = answers
    assert isinstance(answer, Failed)
    assert answer.kind is FailureKind.UNREACHABLE
