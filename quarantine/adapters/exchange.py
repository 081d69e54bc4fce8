"""One request and its answer, that can be broken off from outside at any moment.

A socket's timeout bounds one wait, not their sum: a server that drips a byte a second, in headers or body, holds a
reader for hours. So each exchange remembers its socket, and whoever loses patience shuts that socket down.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from contextvars import ContextVar
from threading import Event, Lock
from time import monotonic
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Retry
from urllib3.connection import HTTPConnection, HTTPSConnection

CURRENT: ContextVar[Exchange | None] = ContextVar("current exchange", default=None)


class Exchange:
    """What one request does on the wire, within `seconds` from now. `matrix`: of a query, whose answer is one."""

    def __init__(self, seconds: float, *, matrix: bool = False) -> None:
        self.matrix = matrix
        self._end = monotonic() + seconds
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self.broken_off = False
        self.connected = False  # a connection was there to ask on
        self.fresh = False  # and it was made for this exchange
        self.finished = Event()

    def remaining(self) -> float:
        """Seconds that are left; negative when it is over."""
        return self._end - monotonic()

    def watch(self, connection: HTTPConnection, *, fresh: bool) -> None:
        """This is the connection that it runs on."""
        sock = connection.sock
        with self._lock:
            self.connected = True
            self.fresh = self.fresh or fresh
            self._socket = sock if isinstance(sock, socket.socket) else None
            if self.broken_off:
                self._shut_down()

    def break_off(self) -> None:
        """Whoever waits on its socket wakes up, with an error. Does nothing to an exchange that has ended."""
        with self._lock:
            if not self.finished.is_set():
                self.broken_off = True
                self._shut_down()

    def finish(self) -> None:
        """It has ended: its connection may serve another one now."""
        with self._lock:
            self._socket = None
            self.finished.set()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # gone already
                # Not SSLSocket's own, which drops its TLS state under the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def _watch(connection: HTTPConnection, *, fresh: bool) -> None:
    if (exchange := CURRENT.get()) is not None:
        exchange.watch(connection, fresh=fresh)


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _watch(self, fresh=True)

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:
            _watch(self, fresh=False)
        super().request(*args, **kwargs)


class _TLSConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class BreakableAdapter(HTTPAdapter):
    """requests' transport with connections that report to the current exchange, and without urllib3's own retries.

    Those outlast a timeout (Retry-After is slept through) and put RetryError in place of the server's words.
    """

    def __init__(self, connections: int) -> None:
        super().__init__(pool_maxsize=connections, max_retries=Retry(0, redirect=0, respect_retry_after_header=False))

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """As requests makes it, with our pools."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """As requests makes it, with our pools."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
        return manager
