"""The database itself refuses to change the trail: every way round that a client has, tried."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.engine import make_url

from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Sound
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
    "WITH gone AS (DELETE FROM decisions RETURNING *) SELECT count(*) FROM gone",
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
]


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
@pytest.mark.parametrize("role", ["origin", "replica"])
def test_postgres_refuses(url: str, role: str) -> None:
    """Also as a superuser, and with ordinary triggers switched off."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET session_replication_role = {role}")
        for statement in COMMON + POSTGRES:
            with pytest.raises(psycopg.errors.RestrictViolation, match="the trail is append-only"):
                connection.execute(statement)


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
