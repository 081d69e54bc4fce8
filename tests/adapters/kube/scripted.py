"""A server on 127.0.0.1 that answers as a test says: faults on the wire that no honest API server has."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.adapters.kube.support import listed, served


@dataclass(frozen=True)
class Seen:
    """A request, as it came."""

    command: str
    path: str
    headers: dict[str, str]
    body: Any
    client_address: tuple[str, int]

    @property
    def watching(self) -> bool:
        return "watch=true" in self.path


class Exchange(BaseHTTPRequestHandler):
    """One request to a `Scripted` server, with the few ways to answer that tests need."""

    protocol_version = "HTTP/1.1"
    server: Scripted
    seen: Seen

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or b"null")
        self.seen = Seen(
            self.command,
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            body,
            self.client_address,
        )
        self.server.seen.append(self.seen)
        with suppress(BrokenPipeError, ConnectionResetError):
            self.server.script(self)

    do_GET = do_PATCH = do_POST = do_DELETE = handle_any  # noqa: N815 - http.server's names

    def answer(self, body: Any, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, kind: str, obj: Any) -> None:
        self.chunk(json.dumps({"type": kind, "object": obj}).encode() + b"\n")

    def end(self) -> None:
        self.chunk(b"")

    def hang(self) -> None:
        """Say nothing more until the test is over."""
        self.server.over.wait(60)
        self.close_connection = True

    def drop(self) -> None:
        """Break the connection off in the middle."""
        self.close_connection = True


class Scripted(ThreadingHTTPServer):
    """A server on 127.0.0.1 that answers as `script` says. `seen` are its requests, in order."""

    script: Callable[[Exchange], None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.daemon_threads = False  # so that closing joins them: no socket outlives a test
        self.seen: list[Seen] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def count(self, *, watching: bool) -> int:
        return sum(1 for e in self.seen if e.watching is watching)

    def handle_error(self, *args: Any) -> None:
        """A client that went away is nobody's error here."""


Watch = Callable[[Exchange], None]


def idle(exchange: Exchange) -> None:
    """A healthy watch in a quiet cluster."""
    exchange.begin()
    exchange.hang()


class Fleet:
    """A script: lists answer with `nodes`, the n-th watch does what `watches[n]` says, later ones idle."""

    def __init__(self, *watches: Watch, nodes: tuple[dict[str, Any], ...] = (served("a", "5"),)) -> None:
        self.watches = list(watches)
        self.nodes = nodes
        self.lists = 0

    def __call__(self, exchange: Exchange) -> None:
        if not exchange.seen.watching:
            self.lists += 1
            exchange.answer(listed(*self.nodes))
        else:
            (self.watches.pop(0) if self.watches else idle)(exchange)
