"""Rows that are written with a mind to what is there already, and many tables at once."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    JSON,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

Insert = postgresql.Insert | sqlite.Insert
Row = dict[str, Any]

MANY = 20  # rows from which on Postgres takes them as one text, in one statement: that costs less than row by row


def insert_into(connection: Connection, table: Table) -> Insert:
    """An insert of this connection's dialect, for `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return sqlite.insert(table) if _sqlite(connection) else postgresql.insert(table)


def upsert(connection: Connection, table: Table, rows: Sequence[Row], *, keep: Collection[str] = ()) -> None:
    """Insert rows, or make those of the same primary key like them, but for the columns in `keep`.

    All rows have the same columns, and no two of them the same key.
    """
    if rows:
        _write(connection, _Shape(table, tuple(rows[0]), "upsert", tuple(keep)), rows)


def insert_all(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that are new, all of them with the same columns."""
    if rows:
        _write(connection, _Shape(table, tuple(rows[0]), "insert"), rows)


class Writes:
    """What a transaction writes, gathered table by table and written at once.

    On Postgres few rows are one statement: each that is sent costs as much as writing its row, and the leader's
    decisions come one by one.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self._all: list[tuple[_Shape, Sequence[Row]]] = []
        self._in_order = False

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """As `insert_all`."""
        self._add("insert", table, rows)

    def upsert(self, table: Table, rows: Sequence[Row], *, keep: Collection[str] = ()) -> None:
        """As the function of this name."""
        self._add("upsert", table, rows, tuple(keep))

    def update(self, table: Table, rows: Sequence[Row], *, key: Collection[str], only: Any = None) -> None:
        """Change rows that are there, found by the columns in `key` and, where it is given, the condition `only`."""
        self._add("update", table, rows, tuple(key), only)

    def delete(self, table: Table, rows: Sequence[Row]) -> None:
        """Delete the rows in which all these columns are so. None of them is written again in the same transaction."""
        self._add("delete", table, rows)

    def in_order(self) -> None:
        """What was gathered later must see what was gathered before: one statement does not."""
        self._in_order = True

    @property
    def can_be_one(self) -> bool:
        """Whether one statement will do."""
        return not self._in_order

    def save(self, connection: Connection) -> None:
        """Write it all, one table after the other."""
        for shape, rows in self._all:
            _write(connection, shape, rows)

    def save_where(self, connection: Connection, condition: Update, parameters: Mapping[str, Any]) -> bool:
        """Write it all, and `condition`, if that finds its row: in one statement of Postgres, and all or nothing.

        `condition` returns something of the row, and is the same object at every call; none of its parameters has a
        column's name. Returns whether it was found.
        """
        texts = {_name(number): _text(rows) for number, (_, rows) in enumerate(self._all)}
        statement = _together(tuple(shape for shape, _ in self._all), condition)
        return bool(connection.execute(statement, {**texts, **parameters}).scalar_one())

    def _add(self, verb: str, table: Table, rows: Sequence[Row], named: tuple[str, ...] = (), only: Any = None) -> None:
        if rows:
            self._all.append((_Shape(table, tuple(rows[0]), verb, named, only), rows))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What statements are made from, and kept by: making one takes longer than executing it."""

    table: Table
    names: tuple[str, ...]  # of the columns that the rows have
    verb: str  # insert, upsert, update, delete
    named: tuple[str, ...] = ()  # upsert: what stays as it is; update: what rows are found by
    only: ColumnElement[bool] | None = None

    def __hash__(self) -> int:
        return hash((self.table, self.names, self.verb))

    def __eq__(self, other: object) -> bool:
        """By identity of table and condition: their own equality makes SQL."""
        if not isinstance(other, _Shape):
            return NotImplemented
        same = self.table is other.table and self.only is other.only
        return same and (self.names, self.verb, self.named) == (other.names, other.verb, other.named)

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that are set where the row is there already."""
        key = self.named if self.verb == "update" else {*self.named, *(part.name for part in self.table.primary_key)}
        return tuple(name for name in self.names if name not in key)


def _write(connection: Connection, shape: _Shape, rows: Sequence[Row]) -> None:
    dialect = connection.dialect.name
    # What has bodies goes row by row: they are texts of JSON, which is slow to read within another one.
    if dialect == "sqlite" or len(rows) < MANY or "body" in shape.table.c:
        given = rows
        if shape.verb in ("update", "delete"):
            given = [{_of(name): row[name] for name in shape.names} for row in rows]
        connection.execute(_row_by_row(shape, dialect), given)
    else:
        connection.execute(_of_text(shape, _name(0)), {_name(0): _text(rows)})


@cache
def _row_by_row(shape: _Shape, dialect: str) -> Any:
    if shape.verb in ("update", "delete"):
        return _finding(shape, {name: bindparam(_of(name)) for name in shape.names})
    made = sqlite.insert(shape.table) if dialect == "sqlite" else postgresql.insert(shape.table)
    return _minding(shape, made)


@cache
def _of_text(shape: _Shape, parameter: str, found: CTE | None = None) -> Any:
    """The same for Postgres, with all rows as one parameter: a text of JSON. `found`: nothing, where that is empty."""
    source = _source(shape, parameter)
    if found is not None:
        source = source.where(exists(select(*found.c)))
    if shape.verb in ("update", "delete"):
        given = source.subquery(f"given_{parameter}")
        return _finding(shape, {name: given.c[name] for name in shape.names})
    return _minding(shape, postgresql.insert(shape.table).from_select(list(shape.names), source))


@cache
def _together(shapes: tuple[_Shape, ...], condition: Update) -> Select[Any]:
    found = condition.cte("found")
    parts = [_of_text(shape, _name(n), found).cte(f"write_{n}") for n, shape in enumerate(shapes)]
    return select(func.count()).select_from(found).add_cte(*parts)


def _finding(shape: _Shape, given: Mapping[str, ColumnElement[Any]]) -> Any:
    """The statement that changes or deletes the rows that are found by what is given."""
    table, key = shape.table, shape.names if shape.verb == "delete" else shape.named
    where = [table.c[name] == given[name] for name in key]
    if shape.only is not None:
        where.append(shape.only)
    if shape.verb == "delete":
        return delete(table).where(and_(*where))
    return update(table).where(and_(*where)).values({name: given[name] for name in shape.changed})


def _minding(shape: _Shape, statement: Insert) -> Insert:
    if shape.verb == "insert":
        return statement
    key = [part.name for part in shape.table.primary_key]
    changed = {name: statement.excluded[name] for name in shape.changed}
    return statement.on_conflict_do_update(index_elements=key, set_=changed)


def _source(shape: _Shape, parameter: str) -> Select[Any]:
    columns = [column(name, shape.table.c[name].type) for name in shape.names]
    given = cast(bindparam(parameter, type_=Text), JSON)
    return select(*func.json_to_recordset(given).table_valued(*columns).render_derived(with_types=True).c)


def _sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _name(number: int) -> str:
    return f"rows_{number}"


def _of(name: str) -> str:
    return f"of_{name}"  # SQLAlchemy keeps a column's own name for itself


def _text(rows: Sequence[Row]) -> str:
    return json.dumps(rows, default=_time)


def _time(value: object) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    raise TypeError(f"{value!r} is no aware time")
