"""What stand-ins that speak JSON over HTTP have in common: a server on loopback, and faults that a test plans."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

_LONGEST_SILENCE = 20.0  # seconds


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, whole."""

    method: str
    target: str  # as it was sent: path and query
    headers: Mapping[str, str]  # names in lower case
    content: bytes

    @property
    def words(self) -> list[str]:
        """The path between its slashes, decoded."""
        return [unquote(word) for word in urlsplit(self.target).path.split("/") if word]

    @property
    def query(self) -> dict[str, str]:
        """What is after the question mark; the last value of each name."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Said:
    """The answer. A body of None is no body."""

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Desk:
    """A server and context manager; what it answers is `answer`'s. It never validates less than the real one says.

    `faults` are used up one a request, by "METHOD last-word-of-the-path": cut-before (nothing is done), cut-after
    (done, and the connection is cut), silent-after (done, and nothing is said), garbled-after, delayed (cut, and done
    by `deliver`), or a status (nothing is done; 429 and 503 say Retry-After: 30). Requests are performed one by one.
    """

    def __init__(self) -> None:
        self.faults: dict[str, list[str]] = {}
        self.asked: list[Asked] = []
        self.delayed: list[Asked] = []
        self._one = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False  # none outlives the desk
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(self, asked: Asked) -> Said:
        """Perform one request."""
        raise NotImplementedError

    def deliver(self) -> list[Said]:
        """What was delayed arrives: the answers, which nobody hears."""
        with self._one:
            arrived, self.delayed = self.delayed, []
            return [self.answer(asked) for asked in arrived]

    def serve(self, asked: Asked) -> tuple[Said, bytes] | None:
        """The answer and its bytes, after the fault that is planned; None: the connection is cut."""
        self.asked.append(asked)
        planned = self.faults.get(f"{asked.method} {asked.words[-1] if asked.words else ''}", [])
        fault = planned.pop(0) if planned else ""
        if fault == "delayed":
            self.delayed.append(asked)
        if fault in ("cut-before", "delayed"):
            return None
        if fault.isdigit():
            after = {"Retry-After": "30"} if fault in ("429", "503") else {}
            said = Said(int(fault), {"error": "planned"}, after)
        else:
            with self._one:
                said = self.answer(asked)
        if fault == "silent-after":
            self._closing.wait(_LONGEST_SILENCE)
        if fault in ("cut-after", "silent-after"):
            return None
        content = b"" if said.body is None else json.dumps(said.body).encode()
        return said, b"<html>" if fault == "garbled-after" else content


def _handler(desk: Desk) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Silent."""

        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            served = desk.serve(Asked(self.command, self.path, headers, content))
            if served is None:
                return
            said, body = served
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815  (http.server's names)

    return Handler
