"""A throw-away Postgres server on loopback, for tests and the demo: made, killed and started again at will.

Postgres refuses to run as root, so root's server runs as the user `postgres`, or `nobody` where there is none. The
server ends with `stop`, at the end of the interpreter, or, when this process is killed, by a watchdog: a small process
that waits for the end of a pipe. (A parent-death signal would fire at the end of the thread that started the server.)
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from quarantine.core.errors import LedgerUnavailable, UsageError

USER = "quarantine"
_READY = 30.0  # seconds for a start, crash recovery included, on a busy machine
_WATCHDOG = """
import os, select, shutil, signal, sys
server, folder = int(sys.argv[1]), sys.argv[2]
if sys.stdin.buffer.read() == b"":  # nothing was said and the pipe has ended: the parent was killed
    try:
        signal.pidfd_send_signal(server, signal.SIGQUIT)
    except ProcessLookupError:
        pass
    waiting = select.poll()
    waiting.register(server, select.POLLIN)
    waiting.poll(10_000)
    shutil.rmtree(folder, ignore_errors=True)
"""


@dataclass(frozen=True, slots=True)
class _Account:
    """Whom the server runs as."""

    uid: int
    gid: int


class PostgresServer:
    """A server with its own data in a temporary folder. Connections need no password and come from 127.0.0.1 only."""

    def __init__(self, *, fsync: bool = False, parent: Path | None = None, **settings: str) -> None:
        """Make the data folder and start. `fsync`: as in production, for benchmarks. `settings`: in place of our own.

        Without it a killed server still keeps what it committed; a machine without power does not. Raises UsageError.
        """
        self._settings = settings
        self._binaries = find_binaries()
        self._account = _account()
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="quarantine-postgres-", dir=parent))
        self.port = _free_port()
        atexit.register(self.close)
        try:
            _make_reachable(self._folder, self._account)
            self._initdb()
            self.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Started already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and remove the data."""
        self.close()

    @property
    def url(self) -> str:
        """Of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Of a database by name, there or not."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def database(self, name: str, *, template: str | None = None) -> str:
        """Make a database, empty or a copy of `template` (to which nobody may be connected); its URL."""
        copied = template if template is not None else "template1"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(copied))
        self._execute(statement)
        return self.url_of(name)

    def drop(self, name: str) -> None:
        """Remove a database, connections and all."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Start on the same data and port as before; returns once it answers. Does nothing where it runs."""
        if self._process is not None:
            return
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",  # TCP only: no socket in a folder that others share
            "fsync": "on" if self._fsync else "off",
            "shared_buffers": "32MB",
            "max_connections": "50",
            "log_min_messages": "fatal",
        }
        if not self._fsync:  # every new database goes through the log: keep that small
            options |= {"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "128MB", "min_wal_size": "32MB"}
        options |= self._settings
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._binaries / "postgres"), "-D", str(self.data), *flags]
        with self._log.open("ab") as log:
            self._process = _spawn(command, self._account, self._folder, log.fileno())
        self._watch(self._process.pid)
        self._await_ready(self._process)

    def stop(self) -> None:
        """End at once but cleanly: open transactions are rolled back, clients are cut off. The data stay."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._reap(self._process)

    def kill(self) -> None:
        """As a power cut would: SIGKILL to the server and its children, in whatever they are doing. The data stay."""
        if self._process is not None:
            children = self.processes()[1:]
            self._process.kill()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            self._reap(self._process)

    def processes(self) -> list[int]:
        """The server and its children, while it runs."""
        return [] if self._process is None else [self._process.pid, *_children(self._process.pid)]

    def close(self) -> None:
        """Stop, and remove the data."""
        atexit.unregister(self.close)
        self.kill()  # a clean shutdown would first write a checkpoint of what is removed next
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def data(self) -> Path:
        """The data folder."""
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
            connection.execute(statement)

    def _initdb(self) -> None:
        flags = ["-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        command = [str(self._binaries / "initdb"), "-D", str(self.data), *flags]
        with self._log.open("ab") as log:
            process = _spawn(command, self._account, self._folder, log.fileno())
        if process.wait(timeout=120) != 0:
            raise LedgerUnavailable(f"initdb failed in {self._folder}: {self._last_words()}")

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _READY
        pause = threading.Event()
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if process.poll() is not None:
                    self._reap(process)
                    raise LedgerUnavailable(f"the sandbox's Postgres ended at once: {self._last_words()}") from error
                if time.monotonic() > deadline:
                    raise LedgerUnavailable(f"the sandbox's Postgres does not answer: {self._last_words()}") from error
                pause.wait(0.02)
            else:
                return

    def _watch(self, pid: int) -> None:
        handle = os.pidfd_open(pid)
        try:
            self._watchdog = subprocess.Popen(  # noqa: S603  (our own command line)
                [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(handle), str(self._folder)],
                stdin=subprocess.PIPE,
                pass_fds=(handle,),
                start_new_session=True,
            )
        finally:
            os.close(handle)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"done")
            self._watchdog = None

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        return lines[-1] if lines else "it wrote no log"


def find_binaries() -> Path:
    """The folder of `postgres` and `initdb`: QUARANTINE_SANDBOX_PG_BIN, PATH, or Debian's newest. Raises UsageError."""
    if named := os.environ.get("QUARANTINE_SANDBOX_PG_BIN"):
        candidates = [Path(named)]
    else:
        on_path = shutil.which("initdb")
        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
        candidates = [*([Path(on_path).resolve().parent] if on_path else []), *debian]
    for folder in candidates:
        if all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb")):
            return folder
    where = f"in {named}, which QUARANTINE_SANDBOX_PG_BIN names" if named else "on PATH or in /usr/lib/postgresql"
    raise UsageError(
        f"there are no programs postgres and initdb {where}; install PostgreSQL's server, or name its folder there"
    )


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())


def _account() -> _Account | None:
    """Whom to become: nobody else unless this is root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return _Account(entry.pw_uid, entry.pw_gid)
    return _Account(65534, 65534)


def _make_reachable(folder: Path, account: _Account | None) -> None:
    if account is None:
        return
    os.chown(folder, account.uid, account.gid)
    for above in folder.resolve().parents:
        if not above.stat().st_mode & 0o001:
            raise UsageError(
                f"Postgres does not run as root, and the user that it becomes cannot enter {above}; "
                "set TMPDIR to a folder that everybody can enter, such as /tmp"
            )


def _spawn(command: list[str], account: _Account | None, folder: Path, log: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  (our own command line)
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=folder,
        user=None if account is None else account.uid,
        group=None if account is None else account.gid,
        extra_groups=None if account is None else [],
        # Ctrl-C in a terminal is for the parent alone, which then stops its server in order.
        start_new_session=True,
    )


def _children(pid: int) -> list[int]:
    """Processes whose parent is `pid`. Postgres gives each a session of its own, so no group holds them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append(int(entry.name))
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
