"""Who writes while the schema changes: whoever began before is waited for, whoever comes meanwhile is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Connection, func, select, text

from quarantine.core.errors import SchemaMismatch
from quarantine.ledger import inbox, migrate, schema
from quarantine.ledger import revision as ledger_revision
from quarantine.ledger.engine import reading, writing
from quarantine.ledger.schema import REVISION
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.ledger.samples import CLUSTER, quarantined, request
from tests.ledger.test_migrate_data import AFTER, engine_of, rows_of


@pytest.mark.parametrize("write", ["a decision", "a new cluster", "a request"])
def test_whoever_writes_while_a_migration_begins_is_waited_for_or_refused(postgres: str, write: str) -> None:
    """What began before it is there when it begins; what began meanwhile finds a schema that is not its own."""
    writes: dict[str, Callable[[SqlLedger], object]] = {
        "a decision": lambda ledger: ledger.record(1, [quarantined(2, at=AFTER)]),
        "a new cluster": lambda ledger: ledger.take_term("pod-1"),
        "a request": lambda ledger: ledger.ask(request(1)),
    }
    named = CLUSTER if write != "a new cluster" else "another"
    with open_ledger(postgres, CLUSTER, now=lambda: AFTER) as ledger:
        term = ledger.take_term("pod-1")
        ledger.record(term, [quarantined(1)])
    with (
        ThreadPoolExecutor(2) as pool,
        open_ledger(postgres, named, now=lambda: AFTER) as ledger,
        pytest.MonkeyPatch.context() as patched,
        engine_of(postgres) as engine,
    ):
        begun, done, seen = threading.Event(), threading.Event(), []

        def newer(connection: Connection) -> None:
            seen.append(connection.execute(select(func.count()).select_from(schema.requests)).scalar_one())
            begun.set()
            assert done.wait(30)
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

        patched.setattr(migrate, "REVISION", "9999")
        patched.setattr(migrate, "_run", newer)
        with writing(engine) as early:
            ledger_revision.hold(early)
            inbox.ask(early, CLUSTER, request(7))
            upgraded = pool.submit(migrate.upgrade, postgres)
            assert not begun.wait(0.3), "a transaction that was there first is waited for"
        assert begun.wait(30)
        assert seen == [1]
        late = pool.submit(writes[write], ledger)
        until_one_waits(postgres)
        done.set()
        assert upgraded.result(30) == (REVISION, "9999")
        with pytest.raises(SchemaMismatch, match="newer"):
            late.result(30)
    assert len(rows_of(postgres)["decisions"]) == 1
    assert len(rows_of(postgres)["requests"]) == 1
    assert [row["term"] for row in rows_of(postgres)["clusters"]] == [term + 1]


def test_a_decision_that_is_being_written_is_waited_for(postgres: str) -> None:
    """The row that it holds is the one that the migration takes first."""
    with open_ledger(postgres, CLUSTER, now=lambda: AFTER) as ledger, ThreadPoolExecutor(1) as pool:
        term = ledger.take_term("pod-1")
        ledger.record(term, [quarantined(1)])
        with pytest.MonkeyPatch.context() as patched:
            begun = threading.Event()

            def newer(connection: Connection) -> None:
                begun.set()
                connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

            patched.setattr(migrate, "REVISION", "9999")
            patched.setattr(migrate, "_run", newer)
            with ledger._fenced(term):
                upgraded = pool.submit(migrate.upgrade, postgres)
                until_one_waits(postgres)
                assert not begun.is_set()
            upgraded.result(30)
        with pytest.raises(SchemaMismatch, match="newer"):
            ledger.record(term, [quarantined(2, at=AFTER)])


def until_one_waits(url: str) -> None:
    """Until a session of this database waits for a lock."""
    waits = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    deadline = time.monotonic() + 30
    with engine_of(url) as engine:
        while True:
            with reading(engine) as connection:
                if connection.execute(waits).scalar_one():
                    return
            assert time.monotonic() < deadline, "nobody waits"
