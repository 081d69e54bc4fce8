"""The throw-away server: gone when it is closed, gone when its parent is killed, and back on the same data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from quarantine.core.errors import UsageError
from quarantine.sandbox import postgres as module
from quarantine.sandbox.postgres import PostgresServer, find_binaries

_CHILD = """
import sys
from quarantine.sandbox.postgres import PostgresServer
server = PostgresServer()
print(server.url, server._folder, flush=True)
sys.stdin.read()
"""


def _until(true: Callable[[], bool]) -> bool:
    """Whether it became true within twenty seconds."""
    deadline = time.monotonic() + 20
    pause = threading.Event()
    while not true():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.05)
    return True


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def test_it_keeps_its_data_and_its_address(server: PostgresServer) -> None:
    url = server.database("kept")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE marks (mark text)")
    for end in (server.stop, server.kill):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("INSERT INTO marks VALUES ('kept')")
        end()
        assert not _answers(url)
        server.start()
        server.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM marks").fetchone() == (2,)
    server.drop("kept")
    assert not _answers(url)
    assert _answers(server.url)


def test_it_listens_on_loopback_alone_and_has_no_socket_file(server: PostgresServer) -> None:
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("SHOW unix_socket_directories").fetchone() == ("",)


def test_a_copy_of_a_database(server: PostgresServer) -> None:
    with psycopg.connect(server.database("original"), autocommit=True) as connection:
        connection.execute("CREATE TABLE marks AS SELECT 1 AS mark")
    with psycopg.connect(server.database("copy", template="original")) as connection:
        assert connection.execute("SELECT mark FROM marks").fetchone() == (1,)
    server.drop("copy")
    server.drop("original")


def test_a_killed_parent_takes_it_along() -> None:
    """No server outlives a killed test run or demo, and no data stay behind."""
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url, folder = parent.stdout.readline().split()
        assert _answers(url)
        parent.send_signal(signal.SIGKILL)
    assert _until(lambda: not _answers(url))
    assert _until(lambda: not Path(folder).exists())


def test_an_ordinary_end_takes_it_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url, folder = parent.stdout.readline().split()
        parent.communicate("")
    assert parent.returncode == 0
    assert not _answers(url)
    assert not Path(folder).exists()


def test_without_programs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUARANTINE_SANDBOX_PG_BIN", str(tmp_path))
    with pytest.raises(UsageError, match="QUARANTINE_SANDBOX_PG_BIN names; install PostgreSQL"):
        PostgresServer()


def test_named_programs_are_preferred(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = find_binaries()
    for name in ("postgres", "initdb"):
        (tmp_path / name).symlink_to(real / name)
    monkeypatch.setenv("QUARANTINE_SANDBOX_PG_BIN", str(tmp_path))
    assert find_binaries() == tmp_path


def test_root_becomes_somebody_else(server: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And says so where that user cannot reach the folder."""
    assert server._process is not None
    owner = Path(f"/proc/{server._process.pid}").stat().st_uid
    assert owner != 0
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = module._account()
    assert account is not None
    assert account.uid != 0
    monkeypatch.setattr(os, "chown", lambda *_: None)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(UsageError, match=f"cannot enter {closed}; set TMPDIR"):
        module._make_reachable(closed / "data", account)
