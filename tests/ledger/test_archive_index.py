"""A history is found by index: what the databases themselves say of every statement, on 120,000 decisions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event, text

from quarantine.core.model import Device, DeviceKind, Machine
from quarantine.ledger import trail
from quarantine.ledger.archive import SqlArchive
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import SqlLedger
from quarantine.sandbox.postgres import PostgresServer
from tests.ledger.samples import NOW, now, outcome, quarantined

Statement = tuple[str, Any]
GPU = "GPU-0a1b2c3d"
MACHINE = Machine("uid-1", "provider://1", "system-1", gpus=(GPU,))
NAMES = ("node-1", "uid-1", "provider://1", "system-1", "system-uuid:system-1", GPU)
_SMALL = ("clusters", "alembic_version")  # a row for each cluster, and one
_number = itertools.count()

# Other machines' decisions: each on one of 6,000 nodes; a third of them in no case.
FILLER = """
    INSERT INTO decisions (cluster, seq, hash, prev_hash, body, at, kind, action, case_id, node, node_uid, device, pool,
        actor, reason)
    SELECT 'east', n + 1000, '', '', '{}', :at, 'decided', 'join', CASE WHEN n % 3 > 0 THEN 'other-' || (n / 6) END,
        'other-' || (n % 6000), 'uid-other-' || (n % 6000), 'gpu:GPU-f' || (n % 48000), 'gpu', 'controller', ''
    FROM numbers
"""
NAMED = """
    INSERT INTO sightings (cluster, value, node_uid, kind, node, machine, first_seq, last_seq, first_at, last_at)
    SELECT 'east', 'v-' || n, 'uid-other-' || (n % 6000), 'gpu', 'other-' || (n % 6000), 'system-uuid:' || (n % 6000),
        n, n + 9, :at, :at
    FROM numbers
"""
# What was decided on ours at the beginning is decided once more, two hundred thousand decisions later.
AGAIN = (
    """
    INSERT INTO decisions (cluster, seq, hash, prev_hash, body, at, kind, action, case_id, node, node_uid, device, pool,
        actor, reason)
    SELECT cluster, seq + 200000, hash, prev_hash, body, at, kind, action, case_id, node, node_uid, device, pool,
        actor, reason
    FROM decisions WHERE cluster = 'east' AND seq < 1000
    """,
    "UPDATE sightings SET last_seq = last_seq + 200000 WHERE node_uid = 'uid-1'",
)
NUMBERS = {
    "postgresql": "WITH numbers AS (SELECT generate_series(1, :last) AS n)",
    "sqlite": "WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)",
}


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Postgres with a collation that is not the bytes' order, as nearly every one in production has."""
    if request.param == "sqlite":
        url = request.getfixturevalue("sqlite")
    else:
        server: PostgresServer = request.getfixturevalue("server")
        name = f"collated_{next(_number)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'")
        url = server.url_of(name)
        upgrade(url)
    made = make_engine(url)
    yield made
    made.dispose()


def fill(engine: Engine, others: int = 120_000) -> None:
    ours = replace(quarantined(1), machine=MACHINE, device=Device(DeviceKind.GPU, GPU))
    link = replace(ours, case="c-1", device=Device(DeviceKind.NVLINK, f"{GPU}/7"))
    ledger = SqlLedger(engine, "east", now=now)
    ledger.record(ledger.take_term("pod"), [ours, outcome(ours.effects[0], 1), link, *[ours] * 97])
    with writing(engine) as connection:
        at: Any = NOW if engine.dialect.name == "postgresql" else "2026-11-29 12:00:00.000000"
        for insert, last in ((FILLER, others), (NAMED, others // 2)):
            # The clause stands behind INSERT INTO … on both dialects.
            into, _, chosen = insert.partition("SELECT")
            connection.execute(text(f"{into}{NUMBERS[engine.dialect.name]} SELECT{chosen}"), {"last": last, "at": at})
        for statement in AGAIN:
            connection.execute(text(statement))
    if engine.dialect.name == "postgresql":  # it does so by itself; SQLite never does
        with writing(engine) as connection:
            connection.execute(text("ANALYZE"))


def asked(engine: Engine, name: str) -> list[Statement]:
    """The statements of a history, as they are sent."""
    sent: list[Statement] = []

    def keep(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        sent.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", keep)
    try:
        archive = SqlArchive(engine)
        assert sum(1 for _ in archive.history(name)) == 200, "all that was recorded"
        archive.sightings(name)
    finally:
        event.remove(engine, "before_cursor_execute", keep)
    return [(statement, parameters) for statement, parameters in sent if statement.startswith("SELECT")]


def scans(engine: Engine, statement: Statement) -> list[str]:
    """How the tables that grow are read, where it is not by what is asked for."""
    explain = "EXPLAIN (FORMAT JSON) " if engine.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(explain + statement[0], statement[1]).all()
    if engine.dialect.name == "sqlite":
        steps = [row.detail for row in rows if row.detail.startswith(("SCAN", "SEARCH"))]
        return [step for step in steps if step.split()[1] not in _SMALL and not selective(step.partition("(")[2])]
    return [
        f"{node['Node Type']} {node.get('Relation Name', node.get('Index Name'))} {node.get('Index Cond', '')}"
        for node in nodes(rows[0][0][0]["Plan"])
        if node["Node Type"] in ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan")
        and node.get("Relation Name") not in _SMALL
        and not selective(node.get("Index Cond", ""))
    ]


def selective(condition: str) -> bool:
    """Whether what is looked up in an index is more than a cluster and a stretch of its trail."""
    return re.search(r"\b(node|node_uid|case_id|device|value|machine)\b ?(=|>|~)", condition) is not None


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@pytest.mark.slow
def test_no_statement_of_a_history_scans_what_grows(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(engine)
    monkeypatch.setattr(trail, "PAGE", 100)  # so that there are later pages
    for name in NAMES:
        statements = asked(engine, name)
        assert len(statements) > 3
        for statement in statements:
            assert scans(engine, statement) == [], statement


def test_a_scan_would_be_noticed(engine: Engine) -> None:
    fill(engine, others=6000)
    every = "SELECT seq FROM decisions WHERE cluster = 'east' AND seq > 5 AND reason = 'x' ORDER BY seq LIMIT 10"
    assert scans(engine, (every, ()))
    assert scans(engine, ("SELECT value FROM sightings WHERE node = 'x'", ()))
