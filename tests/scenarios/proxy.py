"""Between the controller and Prometheus, where a scenario wants answers that are partial, or none."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

import requests


class Proxy:
    """Passes everything on; `mood` says what becomes of the answers. Where it is not needed, it is not there."""

    def __init__(self, prometheus: str, *, needed: bool) -> None:
        self._prometheus = prometheus
        self._server: ThreadingHTTPServer | None = None
        self._needed = needed
        self.mood: str = "sound"

    @property
    def url(self) -> str:
        """Where to ask."""
        return self._prometheus if self._server is None else f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        if self._needed:
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
            Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one: of two small writes, the second waits 40 ms for the other's ACK
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def do_GET(self) -> None:
                self._pass_on(None)

            def _pass_on(self, body: bytes | None) -> None:
                if proxy.mood == "failing":
                    self._answer(502, "text/html", b"<html><h1>502 Bad Gateway</h1></html>")
                    return
                kind = {"Content-Type": self.headers.get("Content-Type", "")}
                url = f"{proxy._prometheus}{self.path}"
                got = requests.request(self.command, url, data=body, headers=kind, timeout=60)
                content = got.content
                if proxy.mood == "partial" and got.status_code == 200:
                    # As Thanos answers while a store is down: half of the result, and a warning.
                    said = json.loads(content)
                    found = said.get("data", {}).get("result", [])
                    said["data"]["result"] = found[: len(found) // 2]
                    content = json.dumps({**said, "warnings": ["no store matched: 1 of 2 stores is down"]}).encode()
                self._answer(got.status_code, got.headers.get("Content-Type", ""), content)

            def _answer(self, status: int, kind: str, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
