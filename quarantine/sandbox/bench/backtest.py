"""What a backtest costs beside the bare fetching of the same answers."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context

import requests

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.backtest.engine import Manner, run
from quarantine.backtest.result import Result, Span
from quarantine.core.errors import Refused
from quarantine.core.policy import Rules
from quarantine.core.rehearsal import as_enforced
from quarantine.core.series import Grid, RangeAnswer
from quarantine.sandbox.bench.history import Past
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.settings import shipped_policies

POLICIES = ("gpu-hot", "nvlink-errors")
START = datetime(2026, 6, 1, tzinfo=UTC)
ROUNDS, FULL_ROUNDS = 3, 1
MOST_RATIO = 1.5
MOST_RSS_MB = 500


@dataclass(slots=True)
class Recorder:
    """Passes queries on, and remembers them."""

    metrics: PrometheusMetrics
    asked: list[tuple[str, Grid]] = field(default_factory=list)

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta) -> RangeAnswer:
        """As the metrics behind it."""
        self.asked.append((promql, grid))
        return self.metrics.query_range(promql, grid, timeout=timeout)


def measure(*, full: bool) -> bool:
    """Fill a Prometheus, run backtest and bare fetching in turn, print both; whether the aims are met.

    Raises QuarantineError where a server cannot be had or does not answer.
    """
    past = Past(256, START, timedelta(days=7)) if full else Past(64, START, timedelta(days=1))
    shipped = load_rules([shipped_policies()])
    rules = as_enforced(replace(shipped, policies=tuple(p for p in shipped.policies if p.name in POLICIES)))
    flags = ["--query.max-concurrency=20"]
    with PrometheusServer(flags=flags) as server, PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
        _fill(server.url, past)
        return compare(server.url, metrics, rules, past, FULL_ROUNDS if full else ROUNDS)


def _fill(url: str, past: Past) -> None:
    """In a process of its own: what it needs is no part of what a backtest needs."""
    begun = time.perf_counter()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        samples = other.submit(past.fill, url).result()
    took = time.perf_counter() - begun
    print(f"filled: {past.series} series, {samples:,} samples in {took:.1f} s ({samples / took:,.0f}/s)", flush=True)


def compare(url: str, metrics: PrometheusMetrics, rules: Rules, past: Past, rounds: int) -> bool:
    """Prints what is found and what it costs; whether the aims are met. Raises Refused where it cannot be compared."""
    span = Span(past.start, past.start + past.length - timedelta(minutes=1))
    manner = Manner()
    recorder = Recorder(metrics)
    found = run(rules, past.inventory(), recorder, span, manner=manner)  # warms Prometheus, and tells what is asked
    _show(found)
    ours: list[float] = []
    bare: list[float] = []
    for number in range(rounds):
        with _timed(ours):
            run(rules, past.inventory(), metrics, span, manner=manner)
        with _timed(bare):
            size = _fetch(url, recorder.asked, manner.workers)
        print(f"round {number + 1}: backtest {ours[-1]:.2f} s, bare {bare[-1]:.2f} s ({size / 1e6:.1f} MB)", flush=True)
    ratio = min(ours) / min(bare)  # what else runs on the machine only ever adds
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"bench: backtest nodes={past.nodes} days={past.length / timedelta(days=1):g} queries={found.queries} "
        f"steps={found.steps} seconds={min(ours):.2f} bare={min(bare):.2f} ratio={ratio:.2f} rss_mb={rss_mb:.0f}"
    )
    return ratio <= MOST_RATIO and rss_mb <= MOST_RSS_MB and not found.gaps


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    into.append(time.perf_counter() - begun)


def _fetch(url: str, asked: list[tuple[str, Grid]], workers: int) -> int:
    """The same queries, as many at once; the answers are read and thrown away. Returns their size in bytes."""
    with requests.Session() as session, ThreadPoolExecutor(workers) as pool:

        def fetch(query: str, grid: Grid) -> int:
            form = {
                "query": query,
                "start": f"{grid.start.timestamp():.3f}",
                "end": f"{grid.end.timestamp():.3f}",
                "step": f"{grid.step.total_seconds():.3f}",
            }
            answer = session.post(f"{url}/api/v1/query_range", data=form, timeout=120)
            if answer.status_code != 200:
                raise Refused(f"{url} answered {answer.status_code} to a query that it answered before: {query}")
            return len(answer.content)

        return sum(pool.map(lambda pair: fetch(*pair), asked))


def _show(found: Result) -> None:
    for outage in found.outages:
        print(f"  {outage.start:%Y-%m-%d %H:%M} {outage.node}: {outage.policy}, {outage.device}")
    print(
        f"  {found.decisions} decisions, {len(found.held)} held, {found.gpu_hours_out():.0f} GPU-hours out of service"
    )
