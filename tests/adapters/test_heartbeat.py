"""The sign of life: sent beside the cycle, no more often than wanted, and its URL told to nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from structlog.testing import capture_logs

from quarantine.adapters.heartbeat import Heartbeat
from quarantine.core.errors import UsageError


@dataclass
class Watcher:
    """Who waits for the sign of life, over real HTTP."""

    status: int = 200
    paths: list[str] = field(default_factory=list)
    hold: threading.Event | None = None
    url: str = ""


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.paths.append(self.path)
            if made.hold is not None:
                made.hold.wait(10)
            self.send_response(made.status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"OK")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}/ping/s3cret-uuid"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    if made.hold is not None:
        made.hold.set()
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Hands:
    at: datetime = datetime(2026, 11, 29, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at


def beat(heart: Heartbeat) -> None:
    """And wait until it was sent."""
    heart.beat()
    if heart._sending is not None:
        heart._sending.result(10)


def test_it_is_sent_no_more_often_than_wanted(watcher: Watcher) -> None:
    clock = Hands()
    with Heartbeat(watcher.url, clock.now) as heart:
        for _ in range(3):
            beat(heart)
        assert watcher.paths == ["/ping/s3cret-uuid"]
        clock.at += timedelta(minutes=1)
        beat(heart)
        assert len(watcher.paths) == 2
        clock.at -= timedelta(days=1)
        beat(heart)
        assert len(watcher.paths) == 3, "a clock that was set back silences nobody for a day"


def test_trouble_is_told_once_and_without_the_url(watcher: Watcher) -> None:
    clock = Hands()
    watcher.status = 404
    with capture_logs() as logs, Heartbeat(watcher.url, clock.now, every=timedelta(0)) as heart:
        beat(heart)
        beat(heart)
        watcher.status = 200
        beat(heart)
    assert [line["log_level"] for line in logs] == ["warning", "info"]
    assert "404" in logs[0]["event"]
    assert "s3cret" not in str(logs)


def test_nobody_there_is_told_without_the_url() -> None:
    with capture_logs() as logs, Heartbeat("http://127.0.0.1:9/s3cret", Hands().now) as heart:
        beat(heart)
    assert len(logs) == 1
    assert "s3cret" not in str(logs)


def test_who_hangs_keeps_no_cycle_waiting(watcher: Watcher) -> None:
    watcher.hold = threading.Event()
    clock = Hands()
    with Heartbeat(watcher.url, clock.now, every=timedelta(0)) as heart:
        for _ in range(100):
            heart.beat()
        watcher.hold.set()
        assert heart._sending is not None
        heart._sending.result(10)
    assert len(watcher.paths) == 1


def test_a_redirect_is_not_followed(watcher: Watcher) -> None:
    watcher.status = 302
    with capture_logs() as logs, Heartbeat(watcher.url, Hands().now) as heart:
        beat(heart)
    assert "302" in logs[0]["event"]


@pytest.mark.parametrize("url", ["", "ftp://a/b", "ping", "https://"])
def test_what_is_no_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError, match=r"heartbeat.url is no URL"):
        Heartbeat(url, Hands().now)
