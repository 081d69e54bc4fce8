"""The benchmark finds the troubles that it wrote, so that what it times is the real thing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Table

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.rehearsal import as_enforced
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.staging import DERIVED
from quarantine.ledger.store import open_ledger
from quarantine.ledger.verify import Sound
from quarantine.sandbox.bench import backtest, ledger
from quarantine.sandbox.bench.history import Past
from quarantine.sandbox.bench.lives import START, lives
from quarantine.sandbox.postgres import PostgresServer
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.settings import shipped_policies


def test_the_known_troubles_are_found_and_the_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    past = Past(4, backtest.START, timedelta(hours=2))
    shipped = load_rules([shipped_policies()])
    rules = as_enforced(replace(shipped, policies=tuple(p for p in shipped.policies if p.name in backtest.POLICIES)))
    with PrometheusServer() as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        assert past.fill(server.url) == past.series * past.length // timedelta(seconds=30)
        backtest.compare(server.url, metrics, rules, past, rounds=1)
    said = capsys.readouterr().out
    assert "gpu-node-0003: gpu-hot, GPU 1" in said  # to and fro about the threshold; the pool's budget holds the rest
    assert "bench: backtest nodes=4 " in said
    assert "ratio=" in said


def test_the_ledger_is_compared_with_bare_inserts() -> None:
    with PostgresServer() as server:
        url = server.database("bench")
        upgrade(url)
        found = ledger.compare(url, "clusters", connections=2, rounds=2, each=20)
        assert len(found.ours) == len(found.bare) == len(found.trail) == 2
        assert min(found.ratio, found.trail_ratio) > 0
        assert 4 < found.rows < 30, "a row of the trail, its case, the names of its machine …"
        with open_ledger(url, "clusters 1", now=lambda: START) as opened:
            recorded = [row.decision for row in opened.decisions()]
            assert recorded == list(islice(lives("clusters 1"), 60)), "what is timed is what is recorded"
            assert isinstance(opened.verify(), Sound)
        with psycopg.connect(url) as connection:
            for table in (clusters, *DERIVED):
                ours, bare = (rows(connection, table, name) for name in ("clusters 1", "bare clusters 1"))
                assert ours == bare, "the same rows of the same tables"
            assert len(rows(connection, decisions, "trail clusters 1")) == 60, "and as many of the trail alone"
        assert len(ledger.batches(url, 2, 30)) == 2
        assert min(ledger.rates_of_reading(url, 400)) > 0


def rows(connection: psycopg.Connection[Any], table: Table, cluster: str) -> list[tuple[Any, ...]]:
    """What a cluster has in a table, but for what is made of its name."""
    own = {"cluster", "hash", "prev_hash", "holder", "updated_at"}
    names = [sql.Identifier(column.name) for column in table.c if column.name not in own]
    chosen = sql.SQL("SELECT {0} FROM {1} WHERE cluster = {2} ORDER BY {0}")
    query = chosen.format(sql.SQL(", ").join(names), sql.Identifier(table.name), sql.Literal(cluster))
    return connection.execute(query).fetchall()
