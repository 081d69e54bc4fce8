"""The benchmark finds the troubles that it wrote, so that what it times is the real thing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import islice

import psycopg
import pytest

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.rehearsal import as_enforced
from quarantine.ledger.migrate import upgrade
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
        assert len(found.ours) == len(found.bare) == 2
        assert found.ratio > 0
        assert 4 < found.rows < 30, "a row of the trail, its case, the names of its machine …"
        with open_ledger(url, "clusters 1", now=lambda: START) as opened:
            recorded = [row.decision for row in opened.decisions()]
            assert recorded == list(islice(lives("clusters 1"), 60)), "what is timed is what is recorded"
            assert isinstance(opened.verify(), Sound)
        with psycopg.connect(url) as connection:
            bare = connection.execute("SELECT count(*) FROM decisions WHERE cluster = 'bare clusters 1'").fetchone()
        assert bare == (60,), "and as many rows beside it"
        assert len(ledger.batches(url, 2, 30)) == 2
        assert min(ledger.rates_of_reading(url, 400)) > 0
