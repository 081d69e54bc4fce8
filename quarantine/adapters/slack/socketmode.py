"""Socket Mode: what people do on Slack comes over WebSockets that we open, so nothing from outside has to reach us.

Two connections stand, since Slack ends each every few hours and an envelope goes to any of them. An envelope is
acknowledged once what it says is on record (see `backlog`); where that takes too long, it is left to Slack, which sends
it again or tells the person. The thread that reads waits for it: one connection is used by one thread alone.

The SDK's own clients are not used: they sleep where they should stop, log what they fail on, and have no bound. What
is used is a WebSocket library that the Kubernetes client brings along. The app needs an app-level token (`xapp-…`)
with the scope `connections:write`, and Socket Mode switched on.
"""

from __future__ import annotations

import json
import random
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import urlsplit

import structlog
import websocket
from websocket import ABNF, WebSocket, WebSocketException, WebSocketTimeoutException

from quarantine.adapters.slack.api import asked, garbled
from quarantine.adapters.slack.interactions import LONGEST_PAYLOAD
from quarantine.adapters.slack.notifier import SLACK, client_of
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, QuarantineError

LONGEST_WAIT = 60.0  # seconds before the next attempt to connect
_SETTLED = 10.0  # seconds: a connection that lasted as long was a good one
_METHOD = "apps.connections.open"
_OFF = "link_disabled"


@dataclass(frozen=True, slots=True)
class Link:
    """How it stands, for health and metrics. Counts are since the start."""

    connected: int = 0
    received: int = 0  # envelopes that were acknowledged
    turned_away: int = 0  # envelopes that were not, since too much waited, or they were not on record in time
    garbled: int = 0  # messages that are none of Slack's
    trouble: str = ""  # why the last attempt to connect failed; empty once one stands


class _Ended(Exception):
    """Slack ends a connection, and says why."""


class Listener:
    """Keeps the connections, and puts what comes into the backlog."""

    def __init__(
        self,
        token: str,
        offer: Callable[[str, object], bool],
        *,
        base_url: str = SLACK,
        connections: int = 2,
        timeout: timedelta = timedelta(seconds=10),
        quiet: timedelta = timedelta(seconds=30),
        wait: Callable[[int], float] | None = None,
    ) -> None:
        """`offer` as `Backlog.offer`. A connection is pinged after `quiet` without a word, and after as long given up.

        `wait`: seconds after so many failures in a row. Raises NotifierRefused on what cannot be an app-level token,
        UsageError where `base_url` is no URL.
        """
        if not token.strip().startswith("xapp-"):
            raise NotifierRefused("Socket Mode needs an app-level token (xapp-…) with the scope connections:write")
        self._token = token.strip()
        self._client = client_of(token, base_url, timeout)
        self._offer = offer
        self._timeout = timeout.total_seconds()
        self._quiet = quiet.total_seconds()
        self._wait = wait or _backoff
        self._plain = urlsplit(base_url).scheme == "http"  # the stand-in's
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._open: set[WebSocket] = set()
        self._greeted: set[WebSocket] = set()  # by Slack: only these get envelopes
        self._link = Link()
        self._threads = [
            threading.Thread(target=self._keep, name=f"slack-socket-{n}", daemon=True) for n in range(connections)
        ]

    @property
    def link(self) -> Link:
        """As it stands now."""
        with self._lock:
            return self._link

    def check(self) -> None:
        """Whether Slack gives us a connection: for start-up. Raises NotifierRefused, NotifierUnavailable."""
        self._url()

    def start(self) -> None:
        """Begin to connect; returns at once."""
        for thread in self._threads:
            thread.start()

    def stop(self, within: float = 5.0) -> bool:
        """End all connections: whether that was done within so many seconds."""
        self._stopping.set()
        with self._lock:
            for socket in self._open:
                socket.abort()  # type: ignore[no-untyped-call]
        until = time.monotonic() + within
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _keep(self) -> None:
        """One connection after another, until the end."""
        failures = 0
        while not self._stopping.is_set():
            began, least = time.monotonic(), 0.0
            try:
                self._session()
            except _Ended as ended:
                least = self._told(ended)
            except QuarantineError as error:
                least = _asked_to_wait(error)
                self._failed(str(error))
            except (WebSocketException, OSError, ValueError) as error:
                # Its text may quote the URL, which is a secret: whoever has it gets what people click.
                self._failed(f"the connection to Slack ended ({type(error).__name__}); look at the network")
            except Exception as error:  # noqa: BLE001  (a connection that is not kept any more would be missed by nobody)
                self._failed(f"a defect ended a connection to Slack ({type(error).__name__}); please report it")
            failures = 0 if time.monotonic() - began >= _SETTLED and not least else failures + 1
            if failures:
                self._stopping.wait(max(least, self._wait(failures)))

    def _session(self) -> None:
        """One connection, from its URL to its end."""
        trust = {"context": ssl.create_default_context()}  # the same authorities as for the Web API
        socket = websocket.create_connection(self._url(), timeout=self._timeout, redirect_limit=0, sslopt=trust)
        try:
            with self._lock:
                self._open.add(socket)
            if not self._stopping.is_set():
                self._read(socket)
        finally:
            with self._lock:
                self._open.discard(socket)
                self._greeted.discard(socket)
                self._link = replace(self._link, connected=len(self._greeted))
            with suppress(WebSocketException, OSError):
                socket.send_close()
            socket.shutdown()  # type: ignore[no-untyped-call]

    def _url(self) -> str:
        answer = asked(self._client, _METHOD, lambda: self._client.apps_connections_open(app_token=self._token))
        url = answer.get("url")
        scheme = urlsplit(url).scheme if isinstance(url, str) else ""
        if not isinstance(url, str) or scheme not in (("ws", "wss") if self._plain else ("wss",)):
            raise garbled(self._client, _METHOD, "the URL of a connection")
        return url

    def _read(self, socket: WebSocket) -> None:
        """Until it ends. Slack pings often; without a word for long the connection is a dead one."""
        socket.settimeout(self._quiet)
        waiting = False
        while not self._stopping.is_set():
            try:
                opcode, data = socket.recv_data(control_frame=True)
            except WebSocketTimeoutException:
                if waiting:
                    raise
                socket.ping()
                waiting = True
                continue
            waiting = False
            if opcode == ABNF.OPCODE_CLOSE:
                raise _Ended("closed")
            if opcode == ABNF.OPCODE_TEXT:
                self._heard(socket, data)

    def _heard(self, socket: WebSocket, data: bytes) -> None:
        try:
            message = json.loads(data) if len(data) <= LONGEST_PAYLOAD else None
        except (ValueError, RecursionError):
            message = None
        match message:
            case {"type": "hello"}:
                self._stands(socket)
            case {"type": "disconnect", "reason": "warning"}:
                pass  # it ends within seconds, and says so again
            case {"type": "disconnect", **more}:
                raise _Ended(str(more.get("reason", "")))
            case {"type": str(kind), "envelope_id": str(envelope), "payload": payload}:
                if self._offer(kind, payload):
                    self._count(received=1)
                    socket.send(json.dumps({"envelope_id": envelope}))
                else:
                    self._count(turned_away=1)
            case _:
                self._count(garbled=1)

    def _told(self, ended: _Ended) -> float:
        """Log what Slack said of the end; seconds to wait at least."""
        reason = str(ended)
        if reason == _OFF:
            self._failed("Socket Mode is switched off for the app: switch it on in the app's settings at Slack")
            return LONGEST_WAIT
        structlog.get_logger().debug("Slack ends a connection, and another is opened", reason=reason[:80])
        return LONGEST_WAIT if reason == "too_many_websockets" else 0.0

    def _failed(self, why: str) -> None:
        if self._stopping.is_set():
            return
        with self._lock:
            again = self._link.trouble == why
            self._link = replace(self._link, trouble=why)
        if not again:
            structlog.get_logger().warning("no word of people comes from Slack over a connection", error=why)

    def _stands(self, socket: WebSocket) -> None:
        with self._lock:
            self._greeted.add(socket)
            self._link = replace(self._link, connected=len(self._greeted), trouble="")

    def _count(self, **more: int) -> None:
        with self._lock:
            self._link = replace(self._link, **{name: getattr(self._link, name) + by for name, by in more.items()})


def _backoff(failures: int) -> float:
    """Doubling from a second on, with jitter: many controllers do not come back at once."""
    return min(LONGEST_WAIT, 2.0 ** min(failures - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311  (no secret)


def _asked_to_wait(error: QuarantineError) -> float:
    """Seconds: as Slack asks; and long, where it said no, which it will again until somebody changes something."""
    if isinstance(error, NotifierUnavailable):
        return error.retry_after.total_seconds() if error.retry_after is not None else 0.0
    return LONGEST_WAIT
