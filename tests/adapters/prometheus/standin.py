"""A server on the loopback that says, byte by byte, what a script wants: right, wrong, slow or never."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    """What arrived. `parameters` are those of the URL and of a form body together."""

    method: str
    path: str
    url_length: int
    headers: dict[str, str]  # names in lower case
    parameters: dict[str, str]


class Peer:
    """One connection, as a script sees it."""

    def __init__(self, sock: socket.socket, stopped: Event) -> None:
        self._sock = sock
        self.stopped = stopped
        self.keep = False
        self.nth = 0  # which request on this connection

    def send(self, data: bytes) -> None:
        """As it is."""
        self._sock.sendall(data)

    def reply(self, body: bytes | object, status: str = "200 OK", **headers: str) -> None:
        """A well-formed answer, after which the connection stays open. Underscores in names become hyphens."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + raw)
        self.keep = True

    def drip(self, byte: bytes) -> None:
        """One byte every 20 ms until the test ends or the other side has gone."""
        while not self.stopped.wait(0.02):
            self.send(byte)

    def hang(self) -> None:
        """Say nothing more."""
        self.stopped.wait()

    def reset(self) -> None:
        """End the connection with a RST."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


Script = Callable[[Peer, Request], None]


def vector(*items: tuple[dict[str, str], str], at: float = 1_700_000_000) -> dict[str, object]:
    """An answer as Prometheus gives it."""
    result = [{"metric": labels, "value": [at, value]} for labels, value in items]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


class Standin:
    """Runs a script for each request, on a thread for each connection; with `only` it says that and never listens."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None, *, only: bytes | None = None) -> None:
        self._script = script
        self._tls = tls
        self._only = only
        self.requests: list[Request] = []
        self.connections = 0
        self.asked = Event()
        self._stopped = Event()
        self._lock = Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self.port = port

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._sockets:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=10)
            assert not thread.is_alive()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.append(sock)
                self.connections += 1
            self._start(self._serve, sock)

    def _serve(self, plain: socket.socket) -> None:
        if self._only is not None:
            with plain, suppress(OSError):
                plain.sendall(self._only)
                self.asked.set()
                self._stopped.wait()
            return
        try:
            sock = self._tls.wrap_socket(plain, server_side=True) if self._tls else plain
        except OSError:  # the client does not trust us
            plain.close()
            return
        with self._lock:
            self._sockets.append(sock)
        peer = Peer(sock, self._stopped)
        with sock, sock.makefile("rb") as stream, suppress(OSError):
            while (request := _read(stream)) is not None:
                with self._lock:
                    self.requests.append(request)
                self.asked.set()
                peer.keep = False
                peer.nth += 1
                self._script(peer, request)
                if not peer.keep:
                    return


def _read(stream: object) -> Request | None:
    readline = stream.readline  # type: ignore[attr-defined]
    start = readline().decode("latin-1").split()
    if len(start) != 3:
        return None
    headers: dict[str, str] = {}
    while line := readline().strip().decode("latin-1"):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", "0"))).decode()  # type: ignore[attr-defined]
    target = urlsplit(start[1])
    parameters = {k: v[-1] for k, v in parse_qs(target.query, keep_blank_values=True).items()}
    parameters |= {k: v[-1] for k, v in parse_qs(body, keep_blank_values=True).items()}
    return Request(start[0], target.path, len(start[1]), headers, parameters)
