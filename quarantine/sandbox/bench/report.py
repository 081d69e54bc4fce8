"""What a report costs over a trail of a million decisions, on a Postgres that is thrown away afterwards."""

from __future__ import annotations

import resource
import time
from datetime import UTC, datetime, timedelta

import psycopg

from quarantine.core.record.report import Report, Wanted, report
from quarantine.ledger.engine import make_engine
from quarantine.ledger.material import material
from quarantine.ledger.migrate import upgrade
from quarantine.sandbox.postgres import PostgresServer

CLUSTER = "training"
START = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
DECISIONS, FULL_DECISIONS = 100_000, 1_000_000
PER_CASE = 10  # decisions; a case's own, and those of what was held before
ROUNDS = 3
MOST_SECONDS = 2.0  # for the full form

# All of it is made by the server: what is measured is the reading. The hashes are no chain, and no body is read.
_DECISIONS = """
INSERT INTO decisions (cluster, seq, hash, prev_hash, body, at, kind, action, case_id, node, node_uid, device, pool,
                       policy, verdict, held_by, actor, reason)
SELECT %(cluster)s, i, md5(i::text) || md5(i::text), md5((i - 1)::text) || md5((i - 1)::text),
       repeat('{"body": 1}', 60), at, 'decided', 'quarantine', 'q-' || n, 'gpu-node-' || n %% 5000, 'uid-' || n %% 5000,
       'gpu:GPU-' || n %% 8, 'pool-' || n %% 4, 'policy-' || n %% 9, 'bad', NULL, 'controller', 'it is hot'
FROM (
    SELECT i, i / %(each)s AS n, %(start)s::timestamptz + i * (%(length)s / %(decisions)s::int) AS at
    FROM generate_series(1, %(decisions)s::int) AS i
) AS numbered
"""
_CASES = """
INSERT INTO milestones (cluster, case_id, node, machine, pool, provider, policy, signal, device, severity, by_person,
                        gate, phase, opened_at, found_at, out_at, marked_at, drained_at, ticket_at, asked_at,
                        acknowledged_at, swapped_at, back_at, ended_at, fate, same_returned)
SELECT %(cluster)s, 'q-' || i, 'gpu-node-' || i %% 5000, 'system-uuid:' || md5((i %% 5000)::text), 'pool-' || i %% 4,
       'provider-' || i %% 3, CASE WHEN person THEN '' ELSE 'policy-' || i %% 9 END,
       CASE WHEN person THEN '' ELSE 'signal-' || i %% 9 END, 'gpu:GPU-' || i %% 8,
       CASE WHEN person THEN NULL ELSE (ARRAY['warning', 'critical', 'fatal'])[1 + i %% 3] END, person, false,
       CASE WHEN i %% 7 = 0 THEN 'dismissed' ELSE 'released' END, at, at - lag, at + lag, at + lag, at + 2 * lag,
       at + 3 * lag, CASE WHEN i %% 2 = 0 THEN at + 3 * lag END, CASE WHEN i %% 2 = 0 THEN at + 9 * lag END,
       CASE WHEN i %% 2 = 0 THEN at + 200 * lag END, at + 300 * lag, at + 300 * lag,
       (ARRAY['confirmed', 'refuted', 'returned'])[1 + i %% 3], i %% 50 = 0
FROM (
    SELECT i, %(start)s::timestamptz + i * (%(length)s / %(cases)s::int) AS at, i %% 20 = 0 AS person,
           (1 + i %% 400) * interval '1 second' AS lag
    FROM generate_series(1, %(cases)s::int) AS i
) AS numbered
"""
_HOLDS = """
INSERT INTO hold_spans (cluster, seq, key, held_by, since, until, policy, node, pool, reason)
SELECT %(cluster)s, i * %(each)s, 'case/q-' || i, (ARRAY['budget', 'settling', 'correlated', 'escalation'])[1 + i %% 4],
       at, at + (1 + i %% 400) * interval '1 second', 'policy-' || i %% 9, 'gpu-node-' || i %% 5000, 'pool-' || i %% 4,
       'the budget of the pool is spent'
FROM (
    SELECT i, %(start)s::timestamptz + i * (%(length)s / %(cases)s::int) AS at
    FROM generate_series(1, %(cases)s::int) AS i
) AS numbered
"""
_SIZES = """
INSERT INTO pool_sizes (cluster, seq, pool, nodes, gpus, at)
SELECT %(cluster)s, i * %(each)s + 1, 'pool-' || i %% 4, 1250, 10000, %(start)s::timestamptz + i / 4 * interval '1 day'
FROM generate_series(0, 1459) AS i
"""


def measure(*, full: bool) -> bool:
    """Fill a Postgres, make reports of a month and of the year, print what that takes; whether the aim is met.

    The small form has no aim in seconds. Raises QuarantineError where no server can be had.
    """
    decisions = FULL_DECISIONS if full else DECISIONS
    with PostgresServer() as server:
        url = server.database("report")
        upgrade(url)
        _fill(url, decisions)
        month = _timed(url, timedelta(days=30))
        year = _timed(url, YEAR)
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"bench: report decisions={decisions} cases={decisions // PER_CASE} month_seconds={month:.2f} "
        f"year_seconds={year:.2f} rss_mb={rss_mb:.0f}"
    )
    return not full or year <= MOST_SECONDS


def _fill(url: str, decisions: int) -> None:
    given = {
        "cluster": CLUSTER,
        "start": START,
        "length": YEAR,
        "decisions": decisions,
        "cases": decisions // PER_CASE,
        "each": PER_CASE,
    }
    begun = time.perf_counter()
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (_DECISIONS, _CASES, _HOLDS, _SIZES):
            connection.execute(statement, given)
        connection.execute("VACUUM ANALYZE")
    print(f"filled: {decisions:,} decisions in {time.perf_counter() - begun:.1f} s", flush=True)


def _timed(url: str, length: timedelta) -> float:
    """The best of some rounds, in seconds, of a connection that is new each time: what else runs only ever adds."""
    took = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        made = _report(url, START + YEAR - length)
        took.append(time.perf_counter() - begun)
    taken_out = sum(cause.out for cause in made.causes)
    print(f"  {length.days} days: {made.cases:,} cases, {taken_out:,} taken out, {min(took):.2f} s", flush=True)
    return min(took)


def _report(url: str, since: datetime) -> Report:
    engine = make_engine(url)
    try:
        return report(material(engine, since, START + YEAR, CLUSTER), Wanted())
    finally:
        engine.dispose()
