"""What answers in Prometheus' place over real HTTP: the shipped policies' questions, about a simulated fleet.

A real Prometheus cannot be filled as fast as a soak goes through time: 1,000 machines of eight GPUs and two ports have
48,000 series that the policies look at. The end-to-end tests ask a real one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from tests.soak.catalogue import Catalogue
from tests.soak.fleet import Fleet
from tests.soak.questions import About, Pair, Question, answer

INTERVAL_S = 30.0  # between two samples of a series


class StandIn:
    """A server and context manager. `lock` is held by who changes the fleet or the catalogue."""

    def __init__(self, fleet: Fleet, catalogue: Catalogue) -> None:
        self.fleet, self.catalogue = fleet, catalogue
        self.lock = threading.Lock()
        self.unknown: list[str] = []  # questions that nobody foresaw
        self.asked = 0
        self.down = False  # it answers 503
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def say(self, path: str, asked: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """Status and body of an answer."""
        with self.lock:
            self.asked += 1
            if self.down:
                return 503, {"status": "error", "errorType": "unavailable", "error": "it is starting"}
            question = self.catalogue.recognise(asked["query"])
            if question is None:
                self.unknown.append(asked["query"])
                return 400, {"status": "error", "errorType": "bad_data", "error": "this question was not foreseen"}
            ranged = path.endswith("/query_range")
            end = float(asked["end" if ranged else "time"])
            pairs = answer(question, asked["query"], self.fleet, datetime.fromtimestamp(end, _ZONE))
        if ranged:
            return _success("matrix", _tracks(pairs, float(asked["start"]), end, float(asked["step"])))
        if question.about is About.PAST:
            return _success("matrix", _scraped(pairs, question, end))
        return _success("vector", [{"metric": labels, "value": [end, repr(value)]} for labels, value in pairs])


_ZONE = datetime.fromisoformat("2026-01-01T00:00:00+00:00").tzinfo


def _success(kind: str, result: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    return 200, {"status": "success", "data": {"resultType": kind, "result": result}}


def _tracks(pairs: list[Pair], start: float, end: float, step: float) -> list[dict[str, Any]]:
    moments = [start + n * step for n in range(1 + round((end - start) / step))]
    return [{"metric": labels, "values": [[at, "1"] for at in moments]} for labels, _ in pairs]


def _scraped(pairs: list[Pair], question: Question, end: float) -> list[dict[str, Any]]:
    """Every series was scraped at the whole half minutes."""
    first = int((end - question.length / timedelta(seconds=1)) // INTERVAL_S) + 1
    moments = [n * INTERVAL_S for n in range(first, int(end // INTERVAL_S) + 1)]
    return [{"metric": labels, "values": [[at, "1"] for at in moments]} for labels, _ in pairs]


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one: of two small writes, the second waits 40 ms for the other's ACK
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

        def do_GET(self) -> None:
            self._serve("")

        def _serve(self, body: str) -> None:
            parts = urlsplit(self.path)
            status, said = stand_in.say(parts.path, dict(parse_qsl(parts.query) + parse_qsl(body)))
            content = msgspec.json.encode(said)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Silent."""

    return Handler
