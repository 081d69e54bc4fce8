"""The benchmark finds the troubles that it wrote, so that what it times is the real thing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.rehearsal import as_enforced
from quarantine.sandbox.bench import backtest
from quarantine.sandbox.bench.history import Past
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
