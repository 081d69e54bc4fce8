"""Socket Mode in the stand-in: real WebSockets, envelopes that want an acknowledgement within three seconds.

What nobody acknowledges comes again, over any connection, three times at most. Time is the workspace's clock, so a
test moves it and waits for nothing. As with Slack, each envelope goes to one of the connections, a connection is
told before it is closed, and the URL of a connection is good once, for half a minute.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from quarantine.sandbox.slack.arguments import Reply
from quarantine.sandbox.slack.workspace import OUR_APP, Method, Workspace

ACK_WITHIN = timedelta(seconds=3)
TICKET_LASTS = timedelta(seconds=30)
MOST_CONNECTIONS = 10
MOST_RETRIES = 3
_LOOK = 0.02  # seconds between looks at the clock, which a test may have moved

# Slack takes an answer within the acknowledgement of these alone.
_ANSWERABLE = frozenset({"slash_commands", "interactive"})


@dataclass(eq=False)
class Delivery:
    """One envelope: what became of it. `settled` is set once it is acknowledged, or given up."""

    envelope_id: str
    kind: str
    payload: Reply
    attempts: int = 0
    sent_at: datetime | None = None
    acknowledged: bool = False
    answer: Any = None  # the payload of the acknowledgement
    settled: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float = 10.0) -> Delivery:
        """Until it is settled. Raises TimeoutError."""
        if not self.settled.wait(seconds):
            raise TimeoutError(f"envelope {self.envelope_id} is neither acknowledged nor given up")
        return self

    def as_envelope(self) -> Reply:
        """As it goes over the wire."""
        envelope = {
            "envelope_id": self.envelope_id,
            "type": self.kind,
            "accepts_response_payload": self.kind in _ANSWERABLE,
            "payload": self.payload,
        }
        if self.attempts > 1:
            envelope |= {"retry_attempt": self.attempts - 1, "retry_reason": "timeout"}
        return envelope


class SocketMode:
    """The connections of the app, and what was sent over them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.base_url = ""  # ws://…, without a ticket
        self.garbage: list[str] = []  # what clients sent that is no acknowledgement of anything
        self.deliveries: list[Delivery] = []
        self._tickets: dict[str, datetime] = {}
        self._connections: list[WebSocket] = []
        self._changed = threading.Condition()
        self._turn = itertools.count()
        self._losing = 0
        self.lost = 0  # acknowledgements, by `lose`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clockwork: asyncio.Task[None] | None = None

    # --- What a test asks of it ---------------------------------------------------------------------------------------

    @property
    def connected(self) -> int:
        """How many connections stand."""
        return len(self._connections)

    def wait_connected(self, count: int, seconds: float = 10.0) -> None:
        """Until so many connections stand. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.connected == count, seconds):
                raise TimeoutError(f"{self.connected} connections stand, not {count}")

    def deliver(self, kind: str, payload: Reply) -> Delivery:
        """Send an envelope over one of the connections. Without any it is given up, as a click in the client is."""
        delivery = Delivery(secrets.token_hex(16), kind, payload)
        self.deliveries.append(delivery)
        self._do(self._send(delivery))
        return delivery

    def refresh(self, reason: str = "refresh_requested") -> None:
        """Tell each connection that it ends; it is closed at once, unless the reason is `warning`."""
        for connection in list(self._connections):
            self._do(self._end(connection, reason))

    def drop(self) -> None:
        """Close each connection without a word."""
        for connection in list(self._connections):
            self._do(connection.close(1011))

    def say(self, text: str) -> None:
        """Send any text over each connection."""
        for connection in list(self._connections):
            self._do(connection.send_text(text))

    def lose(self, acknowledgements: int) -> None:
        """So many of the next acknowledgements are lost on their way."""
        self._losing = acknowledgements

    def clear(self) -> None:
        """Forget what was sent; connections stand."""
        self._losing = self.lost = 0
        self.deliveries.clear()
        self.garbage.clear()

    # --- The far side -------------------------------------------------------------------------------------------------

    def methods(self) -> Mapping[str, tuple[str | None, Method]]:
        """What it offers; it needs the app's own token."""
        return {"apps.connections.open": (None, self._open)}

    async def connect(self, socket: WebSocket) -> None:
        """One connection, until either side ends it."""
        made = self._tickets.pop(socket.query_params.get("ticket", ""), None)
        if made is None or self._workspace.now() - made > TICKET_LASTS:
            await socket.close()  # before it is accepted: status 403
            return
        await socket.accept()
        if self.connected >= MOST_CONNECTIONS:
            await self._end(socket, "too_many_websockets")
            return
        await self._hello(socket)
        self._enter(socket)
        try:
            async for text in socket.iter_text():
                self._heard(text)
        except WebSocketDisconnect:
            pass
        finally:
            self._leave(socket)

    def _open(self, _args: Mapping[str, Any]) -> Reply:
        ticket = secrets.token_urlsafe(16)
        self._tickets[ticket] = self._workspace.now()
        return {"url": f"{self.base_url}?ticket={ticket}&app_id={OUR_APP}"}

    async def _hello(self, socket: WebSocket) -> None:
        hello = {
            "type": "hello",
            "num_connections": self.connected + 1,
            "connection_info": {"app_id": OUR_APP},
            "debug_info": {"host": "sandbox", "approximate_connection_time": 18060},
        }
        await socket.send_text(json.dumps(hello))

    async def _end(self, socket: WebSocket, reason: str) -> None:
        told = {"type": "disconnect", "reason": reason, "debug_info": {"host": "sandbox"}}
        await socket.send_text(json.dumps(told))
        if reason != "warning":
            await socket.close()

    def _enter(self, socket: WebSocket) -> None:
        self._loop = asyncio.get_running_loop()
        with self._changed:
            self._connections.append(socket)
            self._changed.notify_all()
        if self._clockwork is None:
            self._clockwork = self._loop.create_task(self._redeliver())

    def _leave(self, socket: WebSocket) -> None:
        with self._changed:
            self._connections.remove(socket)
            self._changed.notify_all()
        if not self._connections and self._clockwork is not None:
            self._clockwork.cancel()
            self._clockwork = None

    def _heard(self, text: str) -> None:
        try:
            said = json.loads(text)
            wanted = said["envelope_id"]
        except (ValueError, LookupError, TypeError):
            self.garbage.append(text)
            return
        delivery = next((d for d in self.deliveries if d.envelope_id == wanted), None)
        if delivery is None:
            self.garbage.append(text)
            return
        if self._losing:
            self._losing -= 1
            self.lost += 1
            return
        delivery.acknowledged, delivery.answer = True, said.get("payload")
        delivery.settled.set()

    async def _send(self, delivery: Delivery) -> None:
        standing = [c for c in self._connections if c.application_state is WebSocketState.CONNECTED]
        if not standing or delivery.attempts > MOST_RETRIES:
            delivery.settled.set()
            return
        delivery.attempts += 1
        delivery.sent_at = self._workspace.now()
        await standing[next(self._turn) % len(standing)].send_text(json.dumps(delivery.as_envelope()))

    async def _redeliver(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            now = self._workspace.now()
            for delivery in list(self.deliveries):
                late = delivery.sent_at is not None and now - delivery.sent_at >= ACK_WITHIN
                if late and not delivery.settled.is_set():
                    await self._send(delivery)

    def _do(self, what: Any) -> None:
        """Run a coroutine on the server's loop, and wait for it. Without any connection there is nobody to talk to."""
        if self._loop is None or not self._loop.is_running():
            what.close()
            for delivery in self.deliveries:
                delivery.settled.set()
            return
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)
