"""What the ledger is measured beside: its rows by bare statements of psycopg."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from typing import Any

import psycopg
from psycopg import sql

from quarantine.core.decision import State
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.fold import fold
from quarantine.ledger.remembered import Remembered
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.trail import Head, chained
from quarantine.ledger.upsert import Shape, Writes
from quarantine.ledger.writer import succeed
from quarantine.sandbox.bench.lives import START, lives


class Inserting:
    """The same rows of the same tables, under another cluster's name: one statement each, one commit a decision."""

    def __init__(self, connection: psycopg.Connection[Any], cluster: str, of: str, url: str) -> None:
        """`connection` is in autocommit mode; another one to `url` is only asked for what is not there.

        `of`: as `lives` has it.
        """
        self.rows = 0  # written so far
        self._connection = connection
        self._engine = make_engine(url)
        with writing(self._engine) as connected:
            succeed(connected, cluster, "bench", START)
        self._given = self._decisions(cluster, of)
        self._texts: dict[Shape, str] = {}
        self._ready: list[list[tuple[str, Mapping[str, Any]]]] = []

    def close(self) -> None:
        """End that other connection."""
        self._given.close()
        self._engine.dispose()

    def make_ready(self, many: int) -> None:
        """Make what `go` then writes."""
        self._ready = list(islice(self._given, many))

    def go(self) -> None:
        """Write it."""
        for statements in self._ready:
            with self._connection.transaction():
                for statement, row in statements:
                    self._connection.execute(statement, row)
            self.rows += len(statements)

    def _decisions(self, cluster: str, of: str) -> Generator[list[tuple[str, Mapping[str, Any]]], None, None]:
        """Of each decision what the ledger would write. What is there already is known by what was made before."""
        head, state, remembered = Head(0, GENESIS), State(), Remembered()
        with self._engine.connect() as connection:
            for decision in lives(of):
                made, head = chained(cluster, head, [decision])
                writes = Writes()
                writes.insert(decisions, made)
                writes.update(clusters, [{"cluster": cluster, "seq": head.seq, "hash": head.hash}], key=("cluster",))
                state = fold(connection, writes, cluster, state, [(head.seq, decision)], remembered=remembered)
                yield [(self._text(shape), row) for shape, rows in writes.gathered for row in rows]

    def _text(self, shape: Shape) -> str:
        if shape not in self._texts:
            self._texts[shape] = _statement(shape).as_string(self._connection)
        return self._texts[shape]


class Trail:
    """The same rows of the trail, each a transaction of its own, and nothing else."""

    def __init__(self, connection: psycopg.Connection[Any], cluster: str) -> None:
        """`connection` is in autocommit mode."""
        self._connection = connection
        self._rows = _rows(cluster)
        names = tuple(column.name for column in decisions.columns)
        self._statement = _statement(Shape(decisions, names, "insert")).as_string(connection)
        self._ready: list[dict[str, Any]] = []

    def make_ready(self, many: int) -> None:
        """Make what `go` then writes."""
        self._ready = list(islice(self._rows, many))

    def go(self) -> None:
        """Write it."""
        for row in self._ready:
            self._connection.execute(self._statement, row)


def _statement(shape: Shape) -> sql.Composed:
    """As a person would write it who writes one row."""
    table = sql.Identifier(shape.table.name)
    if shape.verb == "update":
        changed, found = (
            [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in names]
            for names in (shape.changed, shape.named)
        )
        only = [] if shape.only is None else [sql.SQL(str(shape.only.compile(compile_kwargs={"literal_binds": True})))]
        where = sql.SQL(" AND ").join([*found, *only])
        return sql.SQL("UPDATE {} SET {} WHERE {}").format(table, sql.SQL(", ").join(changed), where)
    if shape.verb == "delete":
        found = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in shape.names]
        return sql.SQL("DELETE FROM {} WHERE {}").format(table, sql.SQL(" AND ").join(found))
    names = [sql.Identifier(name) for name in shape.names]
    values = [sql.Placeholder(name) for name in shape.names]
    insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})")
    inserted = insert.format(table, sql.SQL(", ").join(names), sql.SQL(", ").join(values))
    if shape.verb == "insert":
        return inserted
    key = [sql.Identifier(column.name) for column in shape.table.primary_key]
    same = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in shape.changed]
    conflict = sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(sql.SQL(", ").join(key), sql.SQL(", ").join(same))
    return inserted + conflict


def _rows(cluster: str) -> Iterator[dict[str, Any]]:
    head = Head(0, GENESIS)
    for decision in lives(cluster):
        made, head = chained(cluster, head, [decision])
        yield from made
