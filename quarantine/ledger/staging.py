"""Empty twins of the tables that follow from the decisions, for one transaction: filled, compared, and copied.

They are temporary tables of the same names. What is executed while they are `entered` reads and writes them and nothing
else, so that a rebuild folds by the writer's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, MetaData, Select, Table, and_, delete, exists, or_, select, text
from sqlalchemy.schema import CreateIndex, CreateTable, DropTable

from quarantine.ledger.schema import (
    actions,
    cases,
    dismissals,
    hold_spans,
    holds,
    machines,
    milestones,
    pool_sizes,
    sightings,
    tickets,
    versions,
    words,
)
from quarantine.ledger.upsert import insert_into

STATE: Sequence[Table] = (cases, holds, dismissals, words, actions)
RECORDS: Sequence[Table] = (milestones, hold_spans, machines, sightings, tickets, versions, pool_sizes)
DERIVED: Sequence[Table] = (*STATE, *RECORDS)
# What the decisions do not tell: how often an effect was tried since it was decided, and what was said then.
UNTOLD = {actions.name: frozenset({"attempts", "last_attempt_at", "last_error"})}
_INDEXED = (hold_spans,)  # read by more than their keys


class Staging:
    """Pairs of tables: `real` ones, and their twins, by the models."""

    def __init__(self, connection: Connection) -> None:
        """Make the twins. They shadow the tables in plain SQL on this connection until `close`."""
        sqlite = connection.dialect.name == "sqlite"
        self._connection = connection
        self._schema = "temp" if sqlite else "pg_temp"
        home = "main" if sqlite else _home(connection)
        self.real, self.twin = _within(home), _within(self._schema)
        for table, twin in self.twin.items():
            connection.execute(CreateTable(twin, include_foreign_key_constraints=[]))
            for index in twin.indexes if table in _INDEXED else ():
                connection.execute(CreateIndex(index))

    def close(self) -> None:
        """Drop the twins."""
        for twin in self.twin.values():
            self._connection.execute(DropTable(twin))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within, the models mean the twins; a table without one is not found."""
        self._connection.execution_options(schema_translate_map={None: self._schema})
        try:
            yield
        finally:
            self._connection.execution_options(schema_translate_map=None)

    def wrong(self, table: Table) -> Select[Any]:
        """Rows of the twin that are missing in the real table, or are not the same there; both sides of each column.

        Columns are named `is_<column>` as they are, and null where there is no such row, and `be_<column>`.
        """
        twin, real = self.twin[table], self.real[table]
        return (
            select(
                *(real.c[column.name].label(f"is_{column.name}") for column in table.c),
                *(twin.c[column.name].label(f"be_{column.name}") for column in table.c),
            )
            .select_from(twin.outerjoin(real, self._same(table)))
            .where(self._differs(table))
            .order_by(*(twin.c[column.name] for column in table.primary_key))
        )

    def surplus(self, table: Table, cluster: str) -> Select[Any]:
        """Rows of the real table that the twin does not have."""
        twin, real = self.twin[table], self.real[table]
        return (
            select(*(column.label(f"is_{column.name}") for column in real.c))
            .select_from(real.outerjoin(twin, self._same(table)))
            .where(real.c.cluster == cluster, twin.c.cluster.is_(None))
            .order_by(*(real.c[column.name] for column in table.primary_key))
        )

    def copy(self, table: Table, cluster: str) -> None:
        """Make the real table's rows of this cluster those of the twin, writing where they differ."""
        twin, real = self.twin[table], self.real[table]
        there = exists(select(twin.c.cluster).where(self._same(table)))
        self._connection.execute(delete(real).where(real.c.cluster == cluster, ~there))
        if table is actions:
            # At most one of a key may be pending: the others are settled first.
            self._copy(table, twin.c.status != "pending")
        self._copy(table)

    def _copy(self, table: Table, *only: ColumnElement[bool]) -> None:
        twin, real = self.twin[table], self.real[table]
        names = [column.name for column in table.c]
        rows = select(*(twin.c[name] for name in names)).select_from(twin.outerjoin(real, self._same(table)))
        key = [column.name for column in table.primary_key]
        statement = insert_into(self._connection, real)
        changed = {name: statement.excluded[name] for name in _told(table)}
        full = statement.from_select(names, rows.where(self._differs(table), *only))
        self._connection.execute(full.on_conflict_do_update(index_elements=key, set_=changed))

    def _same(self, table: Table) -> ColumnElement[bool]:
        twin, real = self.twin[table], self.real[table]
        return and_(*(twin.c[column.name] == real.c[column.name] for column in table.primary_key))

    def _differs(self, table: Table) -> ColumnElement[bool]:
        twin, real = self.twin[table], self.real[table]
        return or_(real.c.cluster.is_(None), *(twin.c[name].is_distinct_from(real.c[name]) for name in _told(table)))


@cache  # SQLAlchemy keeps what it has compiled by the tables' identity
def _within(schema: str) -> Mapping[Table, Table]:
    """The tables of a schema, by the models."""
    return {table: table.to_metadata(MetaData(), schema=schema) for table in DERIVED}


def _told(table: Table) -> list[str]:
    """The columns beside the key that the decisions tell."""
    key = {column.name for column in table.primary_key}
    return [column.name for column in table.c if column.name not in key | UNTOLD.get(table.name, frozenset())]


def _home(connection: Connection) -> str:
    """The schema of Postgres that the tables are in, by the connection's search path."""
    found: str = connection.execute(
        text(
            "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE pg_class.oid = 'decisions'::regclass"
        )
    ).scalar_one()
    return found
