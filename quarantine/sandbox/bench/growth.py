"""How fast the ledger grows: bytes of a decision as Postgres stores it, and decisions of a machine's failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql

from quarantine.core.decision import Decision
from quarantine.ledger.codec import encode
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.schema import METADATA, decisions
from quarantine.ledger.store import open_ledger
from quarantine.sandbox.bench.lives import START, life
from quarantine.sandbox.postgres import PostgresServer

LIVES, FULL_LIVES = 250, 5_000
FAILURES = (2.34, 6.50)  # of 1,000 nodes and day: published for two clusters over eleven months
FLEETS = (1_000, 10_000)  # nodes
_PER_TRANSACTION = 50  # lives
_DAYS = 365


@dataclass(frozen=True, slots=True)
class Growth:
    """What was measured over a number of lives."""

    decisions: int
    per_life: int  # decisions of one life
    body: float  # bytes of a decision's text
    finding: int  # bytes of the text of a decision that takes a machine out, with the series around it
    untraced: int  # the same without the series
    tables: Mapping[str, int]  # bytes on disk of all that is not empty: rows, TOAST and indexes
    indexes: int  # bytes of them that are indexes

    @property
    def row(self) -> float:
        """Bytes on disk for each decision, of the trail alone."""
        return self.tables[decisions.name] / self.decisions

    @property
    def whole(self) -> float:
        """Bytes on disk for each decision, with everything that follows from it."""
        return sum(self.tables.values()) / self.decisions


def measure(*, full: bool) -> bool:
    """Fill a Postgres, and print how large it is and what that means for a year. There is nothing to miss.

    Raises QuarantineError where no server can be had.
    """
    with PostgresServer() as server:
        found = grown(server.database("growth"), FULL_LIVES if full else LIVES)
    print(
        f"bench: growth decisions={found.decisions} per_failure={found.per_life} body_bytes={found.body:.0f} "
        f"finding_bytes={found.finding} finding_bytes_without_series={found.untraced} row_bytes={found.row:.0f} "
        f"whole_bytes={found.whole:.0f} indexes={found.indexes / sum(found.tables.values()):.0%}"
    )
    for name, size in sorted(found.tables.items(), key=lambda table: -table[1]):
        print(f"  {name}: {size / found.decisions:.0f} bytes for each decision")
    for nodes in FLEETS:
        few, many = (rate * nodes / 1_000 * found.per_life for rate in FAILURES)
        print(
            f"  {nodes:,} nodes: {few:.0f} to {many:.0f} decisions a day, "
            f"{few * _DAYS * found.whole / 1e6:.0f} to {many * _DAYS * found.whole / 1e6:.0f} MB a year"
        )
    return True


def grown(url: str, lives: int) -> Growth:
    """Migrate an empty Postgres, record so many lives in it, and measure it."""
    upgrade(url)
    taken: list[Decision] = []
    with open_ledger(url, "growth", now=lambda: START) as ledger:
        term = ledger.take_term("bench")
        for first in range(0, lives, _PER_TRANSACTION):
            numbers = range(first, min(first + _PER_TRANSACTION, lives))
            some = [decision for number in numbers for decision in life("growth", number)]
            ledger.record(term, some)
            taken += some
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        sizes = {
            table.name: _size(connection, "pg_total_relation_size", table.name) for table in METADATA.sorted_tables
        }
        empty = {table.name for table in METADATA.sorted_tables if not _filled(connection, table.name)}
        tables = {name: size for name, size in sizes.items() if name not in empty}
        indexes = sum(_size(connection, "pg_indexes_size", name) for name in tables)
    return Growth(
        decisions=len(taken),
        per_life=len(life("growth", 0)),
        body=sum(len(encode(decision)) for decision in taken) / len(taken),
        finding=len(encode(life("growth", 0)[0])),
        untraced=len(encode(life("growth", 0, traced=False)[0])),
        tables=tables,
        indexes=indexes,
    )


def _size(connection: psycopg.Connection[tuple[int]], function: str, table: str) -> int:
    query = sql.SQL("SELECT {}({}::regclass)").format(sql.Identifier(function), sql.Literal(table))
    found = connection.execute(query).fetchone()
    return 0 if found is None else found[0]


def _filled(connection: psycopg.Connection[tuple[int]], table: str) -> bool:
    return connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(table))).fetchone() is not None
