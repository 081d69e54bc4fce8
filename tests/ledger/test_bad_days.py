"""The database is down, dies in the middle, is locked, slow or read-only: one sentence, and nothing half."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.engine import make_url

from quarantine.core.case import Effect
from quarantine.core.errors import LedgerUnavailable, SchemaMismatch
from quarantine.ledger.engine import make_engine, reading, writing
from quarantine.ledger.migrate import check, upgrade
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.url import masked, parse_url
from quarantine.ledger.verify import Sound
from quarantine.ledger.writer import FEW
from quarantine.sandbox.postgres import PostgresServer
from tests.ledger.samples import CLUSTER, now, outcome, quarantined, request
from tests.ledger.test_fencing import contents


@pytest.fixture
def mortal(server: PostgresServer, postgres: str) -> Iterator[PostgresServer]:
    """The server of `postgres`, to be stopped and killed; it runs again afterwards."""
    yield server
    server.start()


# How a statement begins, and how many decisions there are: few are written by one statement.
MOMENTS = [
    ("WITH found", 2),
    ("COMMIT", 2),
    *((moment, FEW + 1) for moment in ("INSERT INTO decisions", "INSERT INTO actions", "UPDATE clusters SET seq")),
]


@pytest.mark.parametrize(("moment", "many"), MOMENTS)
def test_postgres_killed_in_mid_transaction(mortal: PostgresServer, postgres: str, moment: str, many: int) -> None:
    """Nothing half; and the same ledger goes on by itself once the server is back."""
    with open_ledger(postgres, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        ledger.record(term, [quarantined(1)])
        taken = [quarantined(number) for number in range(2, 2 + many)]
        before = contents(postgres)

        def die(*arguments: object) -> None:
            if moment == "COMMIT" or str(arguments[2]).startswith(moment):
                mortal.kill()

        name = "commit" if moment == "COMMIT" else "before_cursor_execute"
        event.listen(ledger._engine, name, die)
        with pytest.raises(LedgerUnavailable, match="the ledger postgresql"):
            ledger.record(term, taken)
        with pytest.raises(LedgerUnavailable, match="cannot be reached"):
            ledger.load()
        event.remove(ledger._engine, name, die)

        mortal.start()
        assert contents(postgres) == before
        ledger.record(term, taken)
        ledger.settle(term, "c-2/mark", outcome(Effect.MARK, 2))
        assert isinstance(ledger.verify(), Sound)
        assert [row.seq for row in ledger.decisions()] == list(range(1, 1 + 1 + many + 1))


def test_a_server_that_is_down_says_so_at_once(mortal: PostgresServer, postgres: str) -> None:
    secret = postgres.replace("quarantine@", "quarantine:s3cret@")
    with open_ledger(secret, CLUSTER, now=now) as ledger:
        ledger.load()
        mortal.stop()
        begun = time.monotonic()
        for use in (
            ledger.load,
            lambda: ledger.take_term("pod-1"),
            lambda: ledger.record(1, [quarantined(1)]),
            lambda: next(ledger.decisions()),
            lambda: ledger.ask(request(1)),
            ledger.verify,
            lambda: check(secret),
            lambda: upgrade(secret),
        ):
            with pytest.raises(LedgerUnavailable) as caught:
                use()
            message = str(caught.value)
            assert f"postgresql://quarantine:***@127.0.0.1:{mortal.port}/test_" in message
            assert "cannot be reached" in message
            assert "start the database" in message
            assert "\n" not in message
            assert "s3cret" not in message + repr(ledger) + repr(caught.value.__cause__)
            assert caught.value.__cause__ is not None
        assert time.monotonic() - begun < 5
        mortal.start()
        assert ledger.take_term("pod-1") == 1


def test_a_committed_decision_survives_a_kill(mortal: PostgresServer, postgres: str) -> None:
    with open_ledger(postgres, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        for number in range(20):
            ledger.record(term, [quarantined(number)])
        mortal.kill()
        mortal.start()
        assert len(list(ledger.decisions())) == 20
        assert isinstance(ledger.verify(), Sound)


def test_a_writer_waits_for_a_lock_only_so_long(postgres: str) -> None:
    with open_ledger(f"{postgres}?options=-clock_timeout%3D100", CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        with psycopg.connect(postgres) as other:
            other.execute("SELECT * FROM clusters FOR UPDATE")
            with pytest.raises(LedgerUnavailable, match="locked by another transaction"):
                ledger.record(term, [quarantined(1)])
            assert ledger.load().pending == ()
        ledger.record(term, [quarantined(1)])


def test_a_statement_takes_only_so_long(postgres: str) -> None:
    with open_ledger(f"{postgres}?options=-cstatement_timeout%3D100", CLUSTER, now=now) as ledger:
        with psycopg.connect(postgres) as other:
            other.execute("LOCK TABLE holds IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(LedgerUnavailable, match="took too long"):
                ledger.load()
        assert ledger.load().pending == ()


def test_a_read_only_postgres(postgres: str) -> None:
    with open_ledger(f"{postgres}?options=-cdefault_transaction_read_only%3Don", CLUSTER, now=now) as ledger:
        assert ledger.load().pending == ()
        with pytest.raises(LedgerUnavailable, match=r"is read-only .*point the URL at the primary"):
            ledger.take_term("pod-1")


def test_a_user_without_rights(postgres: str, server: PostgresServer) -> None:
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS stranger")
        owner.execute("CREATE ROLE stranger LOGIN")
    try:
        with (
            open_ledger(postgres.replace("quarantine@", "stranger@"), CLUSTER, now=now) as ledger,
            pytest.raises(LedgerUnavailable, match="does not let this user do that"),
        ):
            ledger.load()
    finally:
        with psycopg.connect(postgres, autocommit=True) as owner:
            owner.execute("DROP ROLE stranger")


def test_a_database_that_does_not_exist(server: PostgresServer) -> None:
    with pytest.raises(LedgerUnavailable, match=r"does not exist \(.*create the database"):
        check(server.url_of("nowhere"))


def test_a_row_that_somebody_put_behind_the_head(postgres: str) -> None:
    """The next decision has no place: nothing is written, and the sentence says where to look."""
    with open_ledger(postgres, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        ledger.record(term, [quarantined(1)])
        with psycopg.connect(postgres) as other:
            other.execute("CREATE TEMP TABLE copied AS SELECT * FROM decisions")
            other.execute("UPDATE copied SET seq = 2")
            other.execute("INSERT INTO decisions SELECT * FROM copied")
        before = contents(postgres)
        with pytest.raises(LedgerUnavailable, match="audit verify"):
            ledger.record(term, [quarantined(2)])
        assert contents(postgres) == before


def test_a_locked_sqlite_file(sqlite: str) -> None:
    engine = make_engine(sqlite)
    with open_ledger(f"{sqlite}?timeout=0.1", CLUSTER, now=now) as ledger:
        with writing(engine), pytest.raises(LedgerUnavailable, match="locked by another transaction"):
            ledger.take_term("pod-1")
        assert ledger.take_term("pod-1") == 1
    engine.dispose()


def test_a_read_only_sqlite_file(sqlite: str) -> None:
    path = make_url(sqlite).database
    with open_ledger(f"sqlite:///file:{path}?mode=ro&uri=true", CLUSTER, now=now) as ledger:
        assert ledger.load().pending == ()
        with pytest.raises(LedgerUnavailable, match="is read-only"):
            ledger.take_term("pod-1")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at " * 50)
    for use in (check, upgrade):
        with pytest.raises(LedgerUnavailable, match="damaged or is no database"):
            use(f"sqlite:///{path}")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match=r"cannot be opened .*make its folder"):
        upgrade(f"sqlite:///{tmp_path / 'nowhere' / 'ledger.db'}")


def test_a_body_that_this_code_cannot_read(url: str) -> None:
    """Written by a newer version, or by hand: reading says which row, and does not guess."""
    with open_ledger(url, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [quarantined(1)])
        engine = make_engine(url)
        with writing(engine) as connection:
            connection.execute(text("UPDATE cases SET body = replace(body, 'quarantined', 'quarantined-twice')"))
        engine.dispose()
        with pytest.raises(SchemaMismatch, match=r"a case in the ledger cannot be read .*Case\.phase"):
            ledger.load()


def test_both_databases_are_set_up_as_the_design_says(url: str) -> None:
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            verb = "PRAGMA" if connection.dialect.name == "sqlite" else "SHOW"
            expected = _SETTINGS[connection.dialect.name]
            found = {name: str(connection.execute(text(f"{verb} {name}")).scalar_one()) for name in expected}
    finally:
        engine.dispose()
    assert found == expected


_SETTINGS = {
    "sqlite": {
        "foreign_keys": "1",
        "recursive_triggers": "1",
        "journal_mode": "wal",
        "busy_timeout": "10000",
        "synchronous": "2",
    },
    "postgresql": {
        "statement_timeout": "30s",
        "lock_timeout": "10s",
        "application_name": "quarantine",
        "timezone": "UTC",
        "transaction_isolation": "repeatable read",
        "idle_in_transaction_session_timeout": "30s",
    },
}


@pytest.mark.parametrize(
    ("given", "driver", "shown"),
    [
        ("postgres://u:p@h/d", "postgresql+psycopg", "postgresql://u:***@h/d"),
        ("postgresql://u@h:1/d?sslmode=require", "postgresql+psycopg", "postgresql://u@h:1/d?sslmode=require"),
        ("postgresql+psycopg://h/d?password=secret", "postgresql+psycopg", "postgresql://h/d?password=%2A%2A%2A"),
        ("sqlite:///x.db", "sqlite+pysqlite", "sqlite:///x.db"),
    ],
)
def test_urls(given: str, driver: str, shown: str) -> None:
    assert parse_url(given).drivername == driver
    assert masked(parse_url(given)) == shown


@pytest.mark.parametrize("url", ["postgresql://u:s3cret@h:port/d", "postgresql:/u:s3cret@h", "mysql://u:s3cret@h/d"])
def test_a_wrong_url_does_not_tell_its_password(url: str) -> None:
    with pytest.raises(Exception, match="the ledger's URL") as caught:
        parse_url(url)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_the_ledger_says_whether_it_is_embedded(ledger: SqlLedger, url: str) -> None:
    assert ledger.embedded == url.startswith("sqlite")
