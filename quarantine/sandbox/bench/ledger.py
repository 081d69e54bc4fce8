"""What keeping the record costs, beside bare inserts of the same rows, on a Postgres that is thrown away afterwards.

The server syncs to its disk as in production, for all sides. They are measured in turn, so that what else runs on the
machine is in each of them, and medians are compared. A decision is one row of the trail and a dozen rows of what
follows from it, in one transaction. The bare side writes the very same rows of the same tables by psycopg, each by a
statement of its own, and commits as often: once for a decision (`ratio`). `trail_ratio` is beside bare rows of the
trail alone, each of which is a transaction, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Any

import psycopg

from quarantine.core.decision import Decision, Kind
from quarantine.core.errors import QuarantineError
from quarantine.ledger.engine import make_engine
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.outbox import key_of
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound, usable_cpus, verify
from quarantine.sandbox.bench import report
from quarantine.sandbox.bench.bare import Inserting, Trail
from quarantine.sandbox.bench.lives import START, lives, taken_out
from quarantine.sandbox.postgres import PostgresServer

ROUNDS, FULL_ROUNDS = 3, 9
EACH, FULL_EACH = 40, 140  # decisions of a connection in a round: some lives of machines
TRAIL, FULL_TRAIL = 2_000, 100_000  # rows that are verified and folded anew
CONNECTIONS = 8
BATCH = 750
LEAST_RATIO = 0.5
MOST_BATCH_S = 0.2
LEAST_VERIFIED = 100_000  # rows a second
_PER_TRANSACTION = 500
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Decisions a second of all connections together, in each round."""

    ours: Sequence[float]
    bare: Sequence[float]  # all rows of a decision
    trail: Sequence[float]  # its row of the trail alone
    rows: float  # that are written for a decision

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return median(self.ours) / median(self.bare)

    @property
    def trail_ratio(self) -> float:
        """Of the medians."""
        return median(self.ours) / median(self.trail)


def measure(*, full: bool) -> bool:
    """Measure everything and print it; whether the aims are met. The small form has none: it is over in a moment.

    Raises QuarantineError where no server can be had.
    """
    rounds, each = (FULL_ROUNDS, FULL_EACH) if full else (ROUNDS, EACH)
    with PostgresServer(fsync=True) as server:
        url = server.database("bench")
        upgrade(url)
        met = [
            _compared(url, "one cluster", 1, rounds, each),
            _compared(url, f"{CONNECTIONS} clusters", CONNECTIONS, rounds, each),
            _batch(url, rounds),
            _trail(url, FULL_TRAIL if full else TRAIL),
        ]
    if full:
        met.append(report.measure(full=True))
    return all(met) or not full


# --- One decision after the other -------------------------------------------------------------------------------------


def _compared(url: str, name: str, connections: int, rounds: int, each: int) -> bool:
    found = compare(url, name, connections, rounds, each)
    ours, bare, trail, met = median(found.ours), median(found.bare), median(found.trail), found.ratio >= LEAST_RATIO
    print(
        f"bench: ledger {name}: connections={connections} rows={found.rows:.1f} decisions_per_s={ours:.0f} "
        f"bare_per_s={bare:.0f} ratio={found.ratio:.2f} aim={LEAST_RATIO} {_word(met)} "
        f"trail_per_s={trail:.0f} trail_ratio={found.trail_ratio:.2f}",
        flush=True,
    )
    return met


def compare(url: str, name: str, connections: int, rounds: int, each: int) -> Rates:
    """Each connection is a process of its own with a cluster of its own. Raises QuarantineError where one fails."""
    context = get_context("spawn")
    barrier = context.Barrier(connections)
    answers = context.Queue()
    workers = [
        context.Process(target=_work, args=(url, f"{name} {n}", rounds, each, barrier, answers), daemon=True)
        for n in range(connections)
    ]
    for worker in workers:
        worker.start()
    try:
        told = [answers.get(timeout=_PATIENCE_S) for _ in workers]
    finally:
        for worker in workers:
            worker.join(timeout=10)
            worker.terminate()
    for failed in (one for one in told if isinstance(one, str)):
        raise QuarantineError(f"a connection of the benchmark failed: {failed}")
    sides = [[_rate([spans[side][n] for spans, _ in told], each) for n in range(rounds)] for side in range(3)]
    written = sum(rows for _, rows in told)
    return Rates(sides[0], sides[1], sides[2], written / (connections * each * (rounds + 1)))


def _rate(spans: Sequence[tuple[float, float]], each: int) -> float:
    return len(spans) * each / (max(end for _, end in spans) - min(begun for begun, _ in spans))


def _work(url: str, cluster: str, rounds: int, each: int, barrier: Barrier, answers: Any) -> None:
    """A connection: in every round it records decisions, and then inserts as many rows, when all others do."""
    try:
        with open_ledger(url, cluster, now=_now) as ledger, psycopg.connect(url, autocommit=True) as bare:
            same = Inserting(bare, f"bare {cluster}", cluster, url)
            sides: tuple[_Recording | Inserting | Trail, ...] = (
                _Recording(ledger, cluster),
                same,
                Trail(bare, f"trail {cluster}"),
            )
            spans: tuple[list[tuple[float, float]], ...] = ([], [], [])
            for side in sides:  # so that statements are compiled and prepared
                side.make_ready(each)
                side.go()
            for _ in range(rounds):
                for side, into in zip(sides, spans, strict=True):
                    side.make_ready(each)
                    barrier.wait(_PATIENCE_S)
                    begun = time.monotonic()
                    side.go()
                    into.append((begun, time.monotonic()))
            same.close()
        answers.put((spans, same.rows))
    except Exception as error:  # noqa: BLE001  (whoever waits for it must hear of it, whatever it is)
        barrier.abort()
        answers.put(f"{type(error).__name__}: {error}")


class _Recording:
    """The leader of a cluster, as the controller and its executor are: each decision in a transaction of its own."""

    def __init__(self, ledger: SqlLedger, cluster: str) -> None:
        self._ledger = ledger
        self._term = ledger.take_term("bench")
        self._given = lives(cluster)
        self._ready: list[Decision] = []
        ledger.load()

    def make_ready(self, many: int) -> None:
        self._ready = list(islice(self._given, many))

    def go(self) -> None:
        for decision in self._ready:
            if decision.kind is Kind.DONE and decision.case is not None and decision.effect is not None:
                self._ledger.settle(self._term, key_of(decision.case, decision.effect), decision)
            else:
                self._ledger.record(self._term, [decision])


# --- Many at once -----------------------------------------------------------------------------------------------------


def _batch(url: str, rounds: int) -> bool:
    took = batches(url, rounds, BATCH)
    met = median(took) <= MOST_BATCH_S
    print(
        f"bench: ledger one cycle: decisions={BATCH} seconds={median(took):.3f} best={min(took):.3f} "
        f"aim={MOST_BATCH_S} {_word(met)}",
        flush=True,
    )
    return met


def batches(url: str, rounds: int, many: int) -> list[float]:
    """Seconds that it takes to record so many decisions of one cycle, in each round."""
    took = []
    with open_ledger(url, "batch", now=_now) as ledger:
        term = ledger.take_term("bench")
        for number in range(rounds + 1):
            ledger.load()
            taken = taken_out("batch", number * many, many)
            begun = time.monotonic()
            ledger.record(term, taken)
            took.append(time.monotonic() - begun)
    return took[1:]  # the first one compiles the statements


def _trail(url: str, rows: int) -> bool:
    verified, folded = rates_of_reading(url, rows)
    met = verified >= LEAST_VERIFIED
    print(f"bench: ledger verify: rows={rows} rows_per_s={verified:.0f} aim={LEAST_VERIFIED} {_word(met)}")
    print(f"bench: ledger rebuild: rows={rows} rows_per_s={folded:.0f}", flush=True)
    return met


def rates_of_reading(url: str, rows: int) -> tuple[float, float]:
    """Rows a second that are verified, and that are folded anew. Raises QuarantineError where they are not sound."""
    given = lives("trail")
    with open_ledger(url, "trail", now=_now) as ledger:
        term = ledger.take_term("bench")
        for first in range(0, rows, _PER_TRANSACTION):
            ledger.record(term, list(islice(given, min(_PER_TRANSACTION, rows - first))))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    engine = make_engine(url)
    try:
        begun = time.monotonic()
        found = verify(engine, "trail", workers=usable_cpus())
        between = time.monotonic()
        made = rebuild(engine, "trail", now=_now())
        end = time.monotonic()
    finally:
        engine.dispose()
    if not (isinstance(found, Sound) and found.count == rows and made.sound):
        raise QuarantineError(f"the trail that was written is not sound: {found}, {made}")
    return rows / (between - begun), rows / (end - between)


def _now() -> datetime:
    return START


def _word(met: bool) -> str:
    return "met" if met else "MISSED"
