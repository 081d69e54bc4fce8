"""A ledger in a folder where nothing can be written is read all the same: a mount, or somebody else's backup."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.core.errors import LedgerUnavailable
from quarantine.ledger import readonly
from quarantine.ledger.store import open_ledger
from tests.ledger.samples import NOW, quarantined

NOBODY = 65534
COMMANDS = [
    ["explain", "node-1"],
    ["history", "node-1"],
    ["report"],
    ["status"],
    ["audit", "verify"],
    ["audit", "export"],
]


@contextmanager
def without_rights() -> Iterator[None]:
    """As one who may read the file and write nowhere; root may write everywhere, so it stops being that for a while."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)


@pytest.fixture
def folder(migrated: Path, still: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a ledger of one decision; where another user can look, which pytest's own folders do not let them."""
    readonly._told.clear()
    with tempfile.TemporaryDirectory() as made:
        found = Path(made)
        monkeypatch.chdir(found)
        monkeypatch.setenv("HOME", made)
        shutil.copy(migrated, found / "ledger.db")
        with open_ledger(f"sqlite:///{found}/ledger.db", "default", now=lambda: NOW) as ledger:
            ledger.record(ledger.take_term("pod"), [quarantined(1)])
        yield found
        monkeypatch.undo()
        found.chmod(0o755)


def close(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--database-url", f"sqlite:///{folder}/ledger.db"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_read(folder: Path, command: list[str]) -> None:
    writable = run(folder, *command)  # which loads all that it needs, too
    close(folder)
    with without_rights():
        found = run(folder, *command)
    assert (found.exit_code, found.stdout) == (writable.exit_code, writable.stdout)
    assert [file.name for file in folder.iterdir()] == ["ledger.db"]


def test_it_is_told_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{folder}/ledger.db"
    with open_ledger(url, "default", now=lambda: NOW) as ledger:
        ledger.load()
    close(folder)
    with without_rights(), open_ledger(url, "default", now=lambda: NOW) as ledger:
        assert set(ledger.load().state.cases) == {"c-1"}
        with pytest.raises(LedgerUnavailable, match="is read-only"):
            ledger.take_term("pod-2")
    (said,) = caplog.messages
    assert said.startswith(f"the ledger {folder}/ledger.db is read as a file that nobody changes meanwhile")


def test_what_is_not_in_the_file_yet_is_not_passed_over(folder: Path) -> None:
    url = f"sqlite:///{folder}/ledger.db"
    with open_ledger(url, "default", now=lambda: NOW) as ledger:
        ledger.load()
    with closing(sqlite3.connect(folder / "ledger.db", isolation_level=None)) as other:
        other.execute("UPDATE clusters SET holder = 'somebody'")
        copies = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert copies["ledger.db-wal"]
    for name in ("ledger.db", "ledger.db-wal"):  # as a backup that forgot the third, which is none of the record
        (folder / name).write_bytes(copies[name])
    close(folder)
    with (
        without_rights(),
        open_ledger(url, "default", now=lambda: NOW) as ledger,
        pytest.raises(LedgerUnavailable, match=r"has newer decisions in ledger\.db-wal .*copy both files"),
    ):
        ledger.load()


def test_beside_a_process_that_writes_its_log_is_read(folder: Path) -> None:
    url = f"sqlite:///{folder}/ledger.db"
    with open_ledger(url, "default", now=lambda: NOW) as writer:
        writer.record(writer.take_term("pod-2"), [quarantined(2)])
        close(folder)
        with without_rights(), open_ledger(url, "default", now=lambda: NOW) as ledger:
            assert set(ledger.load().state.cases) == {"c-1", "c-2"}
        folder.chmod(0o755)
