"""Migrations: from nothing, twice at once, refused on a newer schema, and equal to the models."""

from __future__ import annotations

import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Column, MetaData, String, Table, delete, inspect, text, update

from quarantine.core.errors import SchemaMismatch, UsageError
from quarantine.ledger import drift, migrate
from quarantine.ledger.engine import make_engine, reading, writing
from quarantine.ledger.schema import METADATA, REVISION
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound
from tests.ledger.samples import CLUSTER, now, quarantined, request

VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32)))


def test_from_nothing_and_again(empty_url: str) -> None:
    assert migrate.upgrade(empty_url) == (None, REVISION)
    with open_ledger(empty_url, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [quarantined(1)])
        assert migrate.upgrade(empty_url) == (REVISION, REVISION)
        assert isinstance(ledger.verify(), Sound)
        assert len(list(ledger.decisions())) == 1
    migrate.check(empty_url)


def test_the_tables_are_those_of_the_models(url: str) -> None:
    assert drift.differences(url) == []
    engine = make_engine(url)
    with reading(engine) as connection:
        assert set(inspect(connection).get_table_names()) == {*METADATA.tables, "alembic_version"}
    engine.dispose()
    assert all("cluster" in table.primary_key for table in METADATA.tables.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ALTER TABLE cases ADD COLUMN colour text", "colour"),
        ("ALTER TABLE cases RENAME COLUMN phase TO face", "phase"),
        ("DROP INDEX decisions_cluster_node_seq_idx", "decisions_cluster_node_seq_idx"),
        ("CREATE TABLE stray (x integer)", "stray"),
    ],
)
def test_drift_is_seen(url: str, change: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    _execute(url, change)
    assert any(said in line for line in drift.differences(url))
    assert drift.main([url]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "change"),
    [
        ("sqlite", "DROP TRIGGER decisions_no_replace"),
        ("postgres", "DROP TRIGGER decisions_no_truncate ON decisions"),
    ],
    indirect=["url"],
)
def test_a_missing_trigger_is_drift(url: str, change: str) -> None:
    _execute(url, change)
    assert drift.differences(url) == [f"missing: trigger {change.split()[2]}"]


def test_the_drift_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert drift.main([]) == 0
    assert drift.main(["a", "b"]) == 2
    assert drift.main([f"sqlite:///{tmp_path / 'none' / 'x.db'}"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 2


def test_several_start_at_once(empty_url: str) -> None:
    """Two replicas of a new version, and two more."""
    together = threading.Barrier(4)

    def start(_: int) -> tuple[str | None, str]:
        together.wait(timeout=30)
        return migrate.upgrade(empty_url)

    with ThreadPoolExecutor(4) as pool:
        results = sorted(pool.map(start, range(4)), key=str)
    assert results == [(REVISION, REVISION)] * 3 + [(None, REVISION)]
    assert drift.differences(empty_url) == []


def test_a_file_whose_journal_cannot_be_set_yet_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SQLite refuses the change of journal at once, without its time-out, while another process holds the file."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    waits: list[float] = []
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE foreign_table (x)")
        other.execute("BEGIN IMMEDIATE")

        class Pause:
            def wait(self, seconds: float) -> None:
                waits.append(seconds)
                other.execute("COMMIT")

        monkeypatch.setattr("threading.Event", Pause)
        assert migrate.upgrade(f"{url}?timeout=0") == (None, REVISION)
    assert len(waits) == 1


def test_a_migration_that_breaks_off_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = migrate._run

    def broken(connection: object) -> None:
        run(connection)  # type: ignore[arg-type]
        raise RuntimeError("the pod was evicted")

    monkeypatch.setattr(migrate, "_run", broken)
    with pytest.raises(RuntimeError, match="evicted"):
        migrate.upgrade(empty_url)
    monkeypatch.undo()
    with pytest.raises(SchemaMismatch, match="db upgrade"):
        migrate.check(empty_url)
    assert migrate.upgrade(empty_url) == (None, REVISION)


def test_without_tables_nothing_works_and_the_reason_is_told(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="run `quarantine db upgrade`"):
        migrate.check(empty_url)
    _every_use_is_refused(empty_url, "run `quarantine db upgrade`")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("9999", f"newer than this code's {REVISION}; upgrade the program"),
        ("0000", f"older than this code's {REVISION}; run `quar"),
    ],
)
def test_another_schema_is_refused(url: str, found: str, said: str) -> None:
    engine = make_engine(url)
    with writing(engine) as connection:
        connection.execute(update(VERSION).values(version_num=found))
    engine.dispose()
    with pytest.raises(SchemaMismatch, match=said):
        migrate.check(url)
    _every_use_is_refused(url, said)


def test_a_newer_schema_is_not_migrated(url: str) -> None:
    _execute(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMismatch, match="newer"):
        migrate.upgrade(url)
    engine = make_engine(url)
    with writing(engine) as connection:
        connection.execute(update(VERSION).values(version_num=REVISION))
    engine.dispose()
    assert drift.differences(url) == []


def test_a_database_that_lost_its_revision_is_refused(url: str) -> None:
    engine = make_engine(url)
    with writing(engine) as connection:
        connection.execute(delete(VERSION))
    engine.dispose()
    with pytest.raises(SchemaMismatch):
        migrate.check(url)


def test_a_schema_that_changes_under_a_running_process_stops_it(ledger: SqlLedger, url: str) -> None:
    ledger.load()
    _execute(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMismatch, match="newer"):
        ledger.load()


def test_the_code_knows_the_newest_revision() -> None:
    scripts = ScriptDirectory.from_config(migrate.config())
    assert scripts.get_heads() == [REVISION]
    assert all(script.revision.isdigit() and len(script.revision) == 4 for script in scripts.walk_revisions())


def test_an_installed_wheel_has_its_migrations_inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`pyproject.toml` ships migrations/ as quarantine/_migrations."""
    package = tmp_path / "site-packages" / "quarantine"
    inside = package / "_migrations"
    inside.mkdir(parents=True)
    (inside / "env.py").write_text("")
    monkeypatch.setattr("importlib.resources.files", lambda _: package)
    assert migrate.script_location() == inside


def test_it_says_nothing_at_all(
    empty_url: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        migrate.upgrade(empty_url)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_sqlite_writes_ahead_so_that_readers_do_not_wait(sqlite: str) -> None:
    engine = make_engine(sqlite)
    with open_ledger(sqlite, CLUSTER, now=now) as ledger, writing(engine) as connection:
        connection.execute(delete(METADATA.tables["holds"]))
        assert ledger.load().pending == ()
    engine.dispose()


@pytest.mark.parametrize(
    "url", ["mysql://h/d", "nonsense", "", "sqlite://", "sqlite:///:memory:", "postgresql://h:port/d"]
)
def test_what_is_no_ledger_url_is_a_mistake_of_usage(url: str) -> None:
    for use in (migrate.upgrade, migrate.check, lambda text: open_ledger(text, CLUSTER, now=now)):
        with pytest.raises(UsageError, match="the ledger's URL"):
            use(url)


def test_the_draft_of_the_next_migration_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For developers: no alembic.ini is needed, and today nothing differs."""
    copied = tmp_path / "migrations"
    for source in migrate.script_location().rglob("*.*"):
        if source.suffix in (".py", ".mako"):
            target = copied / source.relative_to(migrate.script_location())
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(source.read_text())
    monkeypatch.setattr(migrate, "script_location", lambda: copied)
    written = migrate.new_revision("9998", "nothing yet").read_text()
    assert f'down_revision = "{REVISION}"' in written.replace("'", '"')
    assert "def upgrade() -> None:" in written
    assert "pass" in written
    compile(written, "9998", "exec")


def _every_use_is_refused(url: str, said: str) -> None:
    with open_ledger(url, CLUSTER, now=now) as ledger:
        for use in (
            ledger.load,
            lambda: next(ledger.decisions()),
            lambda: ledger.ask(request(1)),
            lambda: ledger.take_term("pod-1"),
            ledger.verify,
        ):
            with pytest.raises(SchemaMismatch, match=said):
                use()


def _execute(url: str, statement: str) -> None:
    engine = make_engine(url)
    with writing(engine) as connection:
        connection.execute(text(statement))
    engine.dispose()
