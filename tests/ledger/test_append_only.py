"""The database itself refuses to change the trail: every way round that a client has, tried."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.engine import make_url

from quarantine.ledger import guards
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Broken, Sound
from tests.ledger.samples import CLUSTER, now, policy, quarantined

ROWS = (
    "INTO decisions SELECT cluster, {seq}, hash, prev_hash, '{{}}', at, kind, action, case_id, node, node_uid, device, "
    "pool, policy, verdict, held_by, actor, reason FROM decisions WHERE seq = 1"
)


@pytest.fixture(autouse=True)
def filled(url: str) -> Iterator[None]:
    """Two decisions and a policy; whatever the test tried, they are the same afterwards."""
    with open_ledger(url, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [quarantined(1), quarantined(2)], [policy()])
        before = list(ledger.decisions())
        yield
        assert list(ledger.decisions()) == before
        assert ledger.verify() == Sound(2, before[-1].hash)


COMMON = [
    "UPDATE decisions SET body = 'x'",
    "UPDATE decisions SET seq = seq",
    "UPDATE policy_versions SET text = 'x'",
    "UPDATE policy_versions SET hash = hash",
    "DELETE FROM decisions",
    "DELETE FROM decisions WHERE seq = 2",
    "DELETE FROM policy_versions",
]
POSTGRES = [
    "TRUNCATE decisions CASCADE",
    "TRUNCATE policy_versions",
    f"INSERT {ROWS.format(seq=1)} ON CONFLICT (cluster, seq) DO UPDATE SET body = EXCLUDED.body",
    "MERGE INTO decisions d USING (SELECT 1) x ON d.seq = 1 WHEN MATCHED THEN DELETE",
    "MERGE INTO decisions d USING (SELECT 1) x ON d.seq = 1 WHEN MATCHED THEN UPDATE SET body = 'x'",
    "WITH gone AS (DELETE FROM decisions RETURNING *) SELECT count(*) FROM gone",
    "DELETE FROM clusters; DELETE FROM decisions",
    "CREATE VIEW through AS SELECT * FROM decisions; UPDATE through SET body = 'x'",
    "CREATE RULE turned AS ON UPDATE TO clusters DO INSTEAD DELETE FROM decisions; "
    "ALTER TABLE clusters ENABLE ALWAYS RULE turned; UPDATE clusters SET seq = 0",
    "CREATE FUNCTION gone() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'DELETE FROM decisions'; SELECT gone()",
]
SQLITE = [
    f"INSERT OR REPLACE {ROWS.format(seq=1)}",
    f"REPLACE {ROWS.format(seq=2)}",
    f"INSERT OR IGNORE {ROWS.format(seq=2)}",
    "INSERT OR REPLACE INTO decisions (rowid, cluster, seq, hash, prev_hash, body, at, kind, action, actor, reason) "
    "VALUES (1, 'elsewhere', 99, '', '', '', '2026-11-29', '', '', '', '')",
    "UPDATE OR REPLACE decisions SET seq = 2 WHERE seq = 1",
    "UPDATE OR IGNORE decisions SET body = 'x'",
    "INSERT OR REPLACE INTO policy_versions SELECT cluster, hash, name, 'x', revision, first_seen FROM policy_versions",
    f"INSERT {ROWS.format(seq=1)} ON CONFLICT (cluster, seq) DO UPDATE SET body = excluded.body",
    "WITH x AS (SELECT 1) DELETE FROM decisions WHERE seq IN (SELECT seq FROM decisions LIMIT 1)",
    "DELETE FROM decisions RETURNING seq",
    "UPDATE decisions SET rowid = rowid + 100",
]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize("role", ["origin", "replica"])
def test_postgres_refuses(url: str, role: str) -> None:
    """Also as a superuser, and with ordinary triggers switched off."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET session_replication_role = {role}")
        for statement in COMMON + POSTGRES:
            with pytest.raises(psycopg.errors.RestrictViolation, match="the trail is append-only"):
                connection.execute(statement.encode())


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("recursive", ["ON", "OFF"])
def test_sqlite_refuses(url: str, recursive: str) -> None:
    """Also to a client that knows nothing of our pragmas."""
    with closing(sqlite3.connect(str(make_url(url).database), isolation_level=None)) as connection:
        connection.execute(f"PRAGMA recursive_triggers={recursive}")
        for statement in COMMON + SQLITE:
            with pytest.raises(sqlite3.IntegrityError, match="the trail is append-only"):
                connection.execute(statement)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_new_row_is_no_replacement(url: str) -> None:
    """The trigger refuses what replaces, not every INSERT OR REPLACE."""
    with closing(sqlite3.connect(str(make_url(url).database), isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute(f"INSERT OR REPLACE {ROWS.format(seq=3)}")
        connection.execute("ROLLBACK")


# --- whoever owns the tables can switch the triggers off, and that is seen --------------------------------------------

OFF_POSTGRES = [
    ("ALTER TABLE decisions DISABLE TRIGGER USER", "differs: trigger decisions_append_only is switched off"),
    (
        "ALTER TABLE decisions DISABLE TRIGGER decisions_no_truncate",
        "trigger decisions_no_truncate is switched",
    ),
    ("ALTER TABLE decisions ENABLE TRIGGER decisions_append_only", "can be by a setting"),
    ("ALTER TABLE policy_versions ENABLE REPLICA TRIGGER policy_versions_append_only", "or can be by a setting"),
    ("DROP TRIGGER decisions_append_only ON decisions", "missing: trigger decisions_append_only"),
    ("DROP FUNCTION quarantine_append_only() CASCADE", "missing: trigger policy_versions_no_truncate"),
    (
        "CREATE OR REPLACE FUNCTION quarantine_append_only() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RETURN NEW; END'",
        "differs: trigger decisions_append_only does not do what it was made for",
    ),
    (
        "DROP TRIGGER decisions_append_only ON decisions; "
        "CREATE TRIGGER decisions_append_only BEFORE UPDATE ON decisions "
        "FOR EACH ROW EXECUTE FUNCTION quarantine_append_only(); "
        "ALTER TABLE decisions ENABLE ALWAYS TRIGGER decisions_append_only",
        "differs: trigger decisions_append_only does not do",
    ),
    (
        "DROP TRIGGER decisions_append_only ON decisions; CREATE TRIGGER decisions_append_only BEFORE UPDATE OR DELETE "
        "ON decisions FOR EACH ROW WHEN (false) EXECUTE FUNCTION quarantine_append_only(); "
        "ALTER TABLE decisions ENABLE ALWAYS TRIGGER decisions_append_only",
        "differs: trigger decisions_append_only does not do",
    ),
]
OFF_SQLITE = [
    ("DROP TRIGGER decisions_no_update", "missing: trigger decisions_no_update"),
    (
        "PRAGMA writable_schema=ON; DELETE FROM sqlite_master WHERE name = 'decisions_no_delete'",
        "missing: trigger decisions_no_delete",
    ),
    (
        "DROP TRIGGER decisions_no_replace; CREATE TRIGGER decisions_no_replace BEFORE INSERT ON decisions WHEN 0 "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
        "differs: trigger decisions_no_replace does not do what it was made for",
    ),
    (
        "DROP TRIGGER policy_versions_no_delete; "
        "CREATE TRIGGER policy_versions_no_delete BEFORE DELETE ON cases BEGIN SELECT 1; END",
        "differs: trigger policy_versions_no_delete does not do",
    ),
]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize(("statement", "said"), OFF_POSTGRES)
def test_what_an_owner_of_postgres_does_to_the_triggers_is_seen(url: str, statement: str, said: str) -> None:
    assert differences(url) == []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
    assert any(said in line for line in differences(url))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("script", "said"), OFF_SQLITE)
def test_what_is_done_to_the_triggers_of_sqlite_is_seen(url: str, script: str, said: str) -> None:
    assert differences(url) == []
    with closing(sqlite3.connect(str(make_url(url).database), isolation_level=None)) as connection:
        connection.executescript(script)
    assert any(said in line for line in differences(url))


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_rows_that_were_written_past_sqlite_are_seen(url: str) -> None:
    """Whoever has the file has the rows: with the triggers gone from the schema, and put back."""
    with closing(sqlite3.connect(str(make_url(url).database), isolation_level=None)) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'decisions_no_update'").fetchone()
        connection.execute("BEGIN")
        connection.execute("DROP TRIGGER decisions_no_update")
        connection.execute("UPDATE decisions SET body = replace(body, '91.5', '71.5') WHERE seq = 2")
        connection.execute(made)
        connection.execute("COMMIT")
        with open_ledger(url, CLUSTER, now=now) as ledger:
            assert ledger.verify() == Broken(2, "was altered: its text does not have its hash")
        connection.execute("DROP TRIGGER decisions_no_update")
        connection.execute("UPDATE decisions SET body = replace(body, '71.5', '91.5') WHERE seq = 2")
        connection.execute(made)
    assert differences(url) == []


def differences(url: str) -> list[str]:
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            return guards.differences(connection)
    finally:
        engine.dispose()
