"""What befalls a database: it hangs, is full, becomes a standby, is put back to an earlier day; an answer is lost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

from quarantine.sandbox.postgres import PostgresServer

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"  # as psycopg sends it: a simple query


@contextmanager
def hanging(server: PostgresServer) -> Iterator[None]:
    """Frozen, with its connections open: the kernel goes on acknowledging what is sent to it."""
    _tell_all(server.processes()[:1], signal.SIGSTOP)  # it begins no more of them
    stopped = server.processes()
    try:
        _tell_all(stopped, signal.SIGSTOP)
        yield
    finally:
        _tell_all(stopped, signal.SIGCONT)


def _tell_all(processes: list[int], what: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):  # one that had just ended
            os.kill(process, what)


@contextmanager
def without_room(server: PostgresServer, room: Path | None, url: str) -> Iterator[None]:
    """No more space: the small file system `room` is filled up; or else no file of the server may be longer than 16 MiB
    (a segment of its log), and the file of the decisions in `url` is as long by then.
    """
    if room is not None:
        filler = room / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 12))
        yield
        filler.unlink()
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    server.stop()
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, hard))
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with psycopg.connect(url) as connection, contextlib.suppress(psycopg.Error):
        connection.execute(_MANY)
    yield
    server.stop()
    server.start()


# They are rolled back, and the file stays as long as it has become.
_MANY = """
INSERT INTO decisions SELECT (made.one).* FROM (
    SELECT jsonb_populate_record(d, jsonb_build_object('seq', number)) AS one
    FROM decisions AS d, generate_series(1000, 100000) AS number WHERE d.seq = 1
) AS made
"""


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system of its own on `folder`; None where this user may not mount one."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder.mkdir()
    where = str(folder).encode()
    mounted = libc.mount(b"tmpfs", where, b"tmpfs", 0, f"size={megabytes}m,mode=755".encode()) == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            libc.umount2(where, 2)  # MNT_DETACH
        folder.rmdir()


def demote(server: PostgresServer) -> None:
    """Make it a standby, which has no primary to follow: its data can be read, and not written.

    Its setting `wal_level` must be `replica`.
    """
    server.stop()
    mark = server.data / "standby.signal"
    mark.touch()
    if os.geteuid() == 0:
        shutil.chown(mark, server.data.owner(), server.data.group())
    server.start()


def promote(server: PostgresServer) -> None:
    """Make it a primary again."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SELECT pg_promote(true, 30)")


def back_up(server: PostgresServer, name: str) -> None:
    """Keep a copy of a database as it is now, for `restore`. Whoever is connected to it is cut off."""
    _copy(server, name, f"{name}_kept")


def restore(server: PostgresServer, name: str) -> None:
    """Put the database back to what it was then: as a restored backup, or a failover that lost the last commits."""
    _copy(server, f"{name}_kept", name)


def _copy(server: PostgresServer, source: str, target: str) -> None:
    names = {"source": sql.Identifier(source), "target": sql.Identifier(target)}
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {target} WITH (FORCE)").format(**names))
        # A program that connects anew in the middle would keep it from being copied.
        connection.execute(sql.SQL("ALTER DATABASE {source} ALLOW_CONNECTIONS false").format(**names))
        ending = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(ending, [source])
        connection.execute(sql.SQL("CREATE DATABASE {target} TEMPLATE {source}").format(**names))
        connection.execute(sql.SQL("ALTER DATABASE {source} ALLOW_CONNECTIONS true").format(**names))


class Wire:
    """A proxy in front of a server, which counts commits and may lose one of them, or its answer."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.commits = 0
        self.lose: tuple[int, bool] | None = None  # which commit (from 1), and whether it reaches the server
        self.lost = False
        self.before_commit: Callable[[], None] = lambda: None
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    def url(self, database: str) -> str:
        """Of a database behind it."""
        return f"postgresql://quarantine@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(20)

    def cut(self) -> None:
        """Every connection breaks."""
        with self._lock:
            for one in self._sockets:
                _end(one)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server), timeout=20)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for one in (client, server):  # else a second small write waits 40 ms for the ACK of the first
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets += [client, server]
            doomed = threading.Event()
            self._begin(self._to_server, client, server, doomed)
            self._begin(self._to_client, server, client, doomed)

    def _to_server(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if COMMIT in data:
                    self.commits += 1
                    self.before_commit()
                    if self.lose is not None and self.commits == self.lose[0]:
                        self.lost = True
                        if not self.lose[1]:
                            break
                        doomed.set()
                server.sendall(data)
        if not doomed.is_set():
            _end(client)
            _end(server)

    def _to_client(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if doomed.is_set():
                    break  # the server has answered, so it is done; nobody hears of it
                client.sendall(data)
        _end(client)
        _end(server)
        with self._lock, contextlib.suppress(ValueError):
            self._sockets.remove(client)
            self._sockets.remove(server)
        client.close()
        server.close()


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
