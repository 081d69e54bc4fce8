"""The emulator on a port of this machine, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import uvicorn
import yaml
from uvicorn.protocols.http.h11_impl import H11Protocol

from quarantine.core.errors import UsageError
from quarantine.sandbox.kubeapi.api import KubeApi
from quarantine.sandbox.kubeapi.auth import MASTERS
from quarantine.sandbox.kubeapi.http import App, Bell

_PATIENCE = 0.3  # seconds that open connections get to end by themselves when the server stops
_START_SECONDS = 30


class _Connections:
    """The open connections, so that one can be reset under a request."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], asyncio.Transport] = {}

    def protocol(self) -> type[H11Protocol]:
        """uvicorn's HTTP protocol, that reports here."""
        opened = self._open

        class Reporting(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if self.client is not None:
                    opened[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.client is not None:
                    opened.pop(self.client, None)

        return Reporting

    def reset(self, client: tuple[str, int]) -> None:
        """Drop the connection of `client`."""
        if transport := self._open.get(client):
            transport.abort()

    def reset_all(self) -> None:
        """Drop every connection."""
        for transport in list(self._open.values()):
            transport.abort()


class _Uvicorn(uvicorn.Server):
    """Waits for its end instead of looking for it ten times a second."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def main_loop(self) -> None:
        await self._stopping.wait()


class KubeApiServer:
    """A running server; a context manager. Stops within a second, also with open watches."""

    def __init__(self, api: KubeApi, host: str, port: int) -> None:
        self.api = api
        self._host = host
        self._port = port
        self._connections = _Connections()
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: Bell | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._host}:{self._port}"

    @property
    def token(self) -> str:
        """The token of the first user that may do everything. Raises ValueError where there is none."""
        for user in self.api.users:
            if MASTERS in user.groups:
                return user.token
        raise ValueError(f"no user of this server is in the group {MASTERS}: use the token of one of its users")

    def write_kubeconfig(self, path: Path, *, user: str = "admin") -> Path:
        """Write a kubeconfig for `user`, readable by its owner only. Raises ValueError for a user that is not known.

        The server's URL carries the credentials: client-go sends no token over plain HTTP, but what a URL says.
        """
        found = next((known for known in self.api.users if known.name == user), None)
        if found is None:
            names = ", ".join(known.name for known in self.api.users)
            raise ValueError(f"no user {user!r} on this server: it knows {names}")
        server = f"http://{quote(user, safe='')}:{quote(found.token, safe='')}@{self._host}:{self._port}"
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": {"server": server}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user, "namespace": "default"}}],
            "users": [{"name": user, "user": {"token": found.token}}],
        }
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        return path

    def start(self) -> Self:
        """Bind and serve. Raises UsageError where the port cannot be had."""
        listener = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
        except OSError as error:
            listener.close()
            where = f"{self._host}:{self._port}"
            raise UsageError(f"cannot listen on {where}: {error.strerror}; choose another port, or 0") from error
        listener.listen(128)
        self._port = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, args=(listener,), name="kubeapi", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise RuntimeError(f"the emulator's thread did not come up within {_START_SECONDS} s")
        return self

    def stop(self) -> None:
        """End every stream, close every connection, and wait for the thread."""
        if self._thread is None or self._loop is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended already
            self._loop.call_soon_threadsafe(self._wind_down)
        self._thread.join()
        self._thread = None

    def drop_connections(self) -> None:
        """Reset every open connection, watches above all; new ones are welcome."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._connections.reset_all)

    def _run(self, listener: socket.socket) -> None:
        with listener:
            asyncio.run(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._bell = Bell()
        app = App(self.api, self._bell, self._connections.reset).asgi()
        config = uvicorn.Config(
            app,
            http=self._connections.protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        server = _Uvicorn(config, self._bell.stopping)
        deaf = self.api.store.listen(self._bell.ring)
        self._started.set()
        try:
            await server.serve(sockets=[listener])
        finally:
            deaf()

    def _wind_down(self) -> None:
        if self._bell is not None and self._loop is not None:
            self._bell.stop()
            self._loop.call_later(_PATIENCE, self._connections.reset_all)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serve(api: KubeApi, *, host: str = "127.0.0.1", port: int = 0) -> KubeApiServer:
    """`with serve(KubeApi()) as server:`; port 0 takes a free one."""
    return KubeApiServer(api, host, port)
