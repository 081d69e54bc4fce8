"""A proxy for whatever speaks over TCP, that falls ill in as many ways as a network and a server do."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from quarantine.sandbox.dice import Dice
from tests.chaos.toxic_http import CHUNK, asked


class Kind(StrEnum):
    """How it can be ill."""

    DOWN = "down"  # connections are refused, and those that stand are reset
    SLOW = "slow"  # each answer is late
    FLAPPING = "flapping"  # down and up by turns
    SILENT = "half-open, silent"  # connections are accepted and nothing is ever said, for as long as they last
    LOSSY = "half-open, answers lost"  # what is asked is passed on and done, and the connection ends without a word
    WRONG = "wrong"  # each request is given another one of some answers, and reaches nobody


@dataclass(frozen=True, slots=True)
class Ill:
    """One illness."""

    kind: Kind
    delay_s: float = 0.4  # of each answer, when slow
    period_s: float = 0.7  # for which it is down, and then up, when flapping
    share: float = 0.5  # of the answers that are lost, beside the first
    answers: tuple[bytes, ...] = ()  # when wrong, by turns


class Toxic:
    """Listens on a port of 127.0.0.1 for the server at `port` there; a context manager. Sound until told otherwise.

    `met` counts what came upon the illness; connections that are refused are not heard of.
    """

    def __init__(self, name: str, port: int, seed: str) -> None:
        self.name = name
        self.server = port
        self.met = 0
        self._ill: Ill | None = None
        self._answers = 0
        self._since = 0.0  # by the monotonic clock
        self._dice = Dice(f"{seed}/{name}")
        self._place = _bound(0)  # never listened on: while nobody else does, the port stays ours, and refuses
        self.port: int = self._place.getsockname()[1]
        self._listener: socket.socket | None = None
        self._links: list[_Link] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()

    @property
    def closing(self) -> bool:
        """Whether it is at its end."""
        return self._closing.is_set()

    @property
    def url(self) -> str:
        """As a server of HTTP."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._deaf()
        self._place.close()
        self.cut()
        for thread in self._threads:
            thread.join(20)

    def fall(self, ill: Ill) -> None:
        """Be ill from now on; connections that stand are ill as well."""
        self.heal()
        self.met = 0
        self._since = time.monotonic()
        self._ill = ill
        if ill.kind is Kind.DOWN:
            self._deaf()
        if ill.kind in (Kind.DOWN, Kind.WRONG):
            self.cut()

    def heal(self) -> None:
        """Be sound. A connection on which nothing was said stays so: its end has to be found by who waits on it."""
        was, self._ill = self._ill, None
        if was is not None and was.kind is Kind.DOWN:
            self._listen()

    def cut(self) -> None:
        """Every connection breaks."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.end()

    def ill(self) -> Ill | None:
        """What it suffers from at this moment."""
        ill = self._ill
        if ill is None or ill.kind is not Kind.FLAPPING:
            return ill
        is_up = int((time.monotonic() - self._since) / ill.period_s) % 2
        return None if is_up else Ill(Kind.DOWN)

    def meets(self) -> int:
        """One more came upon it; how many it were before."""
        with self._lock:
            self.met += 1
            return self.met - 1

    def loses(self, share: float) -> bool:
        """Whether the answer that comes now is lost; the first one is."""
        with self._lock:
            self._answers += 1
            first, number = self.met == 0, self._answers
        lost = first or self._dice.uniform(f"answer {number}", 0, 1) < share
        if lost:
            self.meets()
        return lost

    def waits(self, seconds: float) -> None:
        """Be late, unless it is closed."""
        self._closing.wait(seconds)

    def _listen(self) -> None:
        self._listener = _bound(self.port)
        self._listener.listen(128)
        self._begin(self._accept, self._listener)

    def _deaf(self) -> None:
        """Connections are refused from now on."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name=f"toxic-{self.name}", daemon=True)
        with self._lock:
            self._threads = [one for one in self._threads if one.is_alive()]
            thread.start()
            self._threads.append(thread)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            ill = self.ill()
            if ill is not None and ill.kind is Kind.DOWN:
                self.meets()
                _reset(client)
            elif ill is not None and ill.kind is Kind.WRONG:
                self._begin(self._answer, client, ill)
            else:
                self._pass_on(client)

    def _pass_on(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.server), timeout=20)
        except OSError:
            _reset(client)
            return
        server.settimeout(None)
        for one in (client, server):  # else a second small write waits 40 ms for the ACK of the first
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = _Link(self, client, server)
        with self._lock:
            self._links = [one for one in self._links if not one.ended]
            self._links.append(link)
        self._begin(link.to_server)
        self._begin(link.to_client)

    def _answer(self, client: socket.socket, ill: Ill) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(5)
            if asked(client):
                client.sendall(ill.answers[self.meets() % len(ill.answers)])
                client.shutdown(socket.SHUT_WR)
                while client.recv(CHUNK):
                    pass


class _Link:
    """One connection, through to the server."""

    def __init__(self, toxic: Toxic, client: socket.socket, server: socket.socket) -> None:
        self._toxic, self._client, self._server = toxic, client, server
        self._silent = False
        self._asked = False  # and not answered yet
        self.ended = False
        self._open_ways = 2
        self._lock = threading.Lock()

    def end(self) -> None:
        """Break it."""
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def to_server(self) -> None:
        """What the client says."""
        with contextlib.suppress(OSError):
            while data := self._client.recv(CHUNK):
                if self._says_nothing():
                    continue
                if self._is_down():
                    break
                self._asked = True
                self._server.sendall(data)
        self._way_ended()

    def to_client(self) -> None:
        """What the server says."""
        with contextlib.suppress(OSError):
            while data := self._server.recv(CHUNK):
                if self._says_nothing():
                    continue
                if self._is_down() or (self._begins() and not self._arrives()):
                    break
                self._client.sendall(data)
        self._way_ended()

    def _begins(self) -> bool:
        asked, self._asked = self._asked, False
        return asked

    def _arrives(self) -> bool:
        """Whether an answer gets through, now or late."""
        ill = self._toxic.ill()
        if ill is not None and ill.kind is Kind.LOSSY:
            return not self._toxic.loses(ill.share)
        if ill is not None and ill.kind is Kind.SLOW:
            self._toxic.meets()
            self._toxic.waits(ill.delay_s)
        return True

    def _says_nothing(self) -> bool:
        ill = self._toxic.ill()
        if ill is not None and ill.kind is Kind.SILENT:
            self._silent = True
            self._toxic.meets()
        return self._silent

    def _is_down(self) -> bool:
        ill = self._toxic.ill()
        down = ill is not None and ill.kind is Kind.DOWN
        if down:
            self._toxic.meets()
        return down

    def _way_ended(self) -> None:
        if not self._silent or self._toxic.closing:  # who waits for a word never hears that the server has hung up
            self.end()
        with self._lock:
            self._open_ways -= 1
            last = self._open_ways == 0
        if last:
            self.ended = True
            self._client.close()
            self._server.close()


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    one.close()
