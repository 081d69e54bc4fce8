"""Rows that are written with a mind to what is there already, and many tables at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ARRAY,
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

from quarantine.ledger import direct

Insert = postgresql.Insert | sqlite.Insert
Row = dict[str, Any]

_STATEMENTS = 64  # that are kept, of those for one table and of those for several: what is asked again is among them
_MANY = 200  # rows for which it counts what has to be sent


def insert_into(connection: Connection, table: Table) -> Insert:
    """An insert of this connection's dialect, for `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return sqlite.insert(table) if _sqlite(connection) else postgresql.insert(table)


def upsert(connection: Connection, table: Table, rows: Sequence[Row], *, keep: Collection[str] = ()) -> None:
    """Insert rows, or make those of the same primary key like them, but for the columns in `keep`.

    All rows have the same columns, and no two of them the same key.
    """
    if rows:
        _write(connection, Shape(table, tuple(rows[0]), "upsert", tuple(keep)), rows)


def insert_all(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that are new, all of them with the same columns."""
    if rows:
        _write(connection, Shape(table, tuple(rows[0]), "insert"), rows)


class Writes:
    """What a transaction writes, gathered table by table and written at once.

    On Postgres few rows are one statement: each that is sent costs as much as writing its row, and the leader's
    decisions come one by one.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self._all: list[tuple[Shape, Sequence[Row]]] = []
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
    def gathered(self) -> Sequence[tuple[Shape, Sequence[Row]]]:
        """What is written, in this order."""
        return self._all

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
        given, parts = dict(parameters), []
        for number, (shape, rows) in enumerate(self._all):
            varying = _varying(shape, rows)
            parts.append((shape, varying))
            given.update(_texts(shape, varying, number, rows))
        return bool(direct.scalar(connection, _together(tuple(parts), condition), given))

    def _add(self, verb: str, table: Table, rows: Sequence[Row], named: tuple[str, ...] = (), only: Any = None) -> None:
        if rows:
            self._all.append((Shape(table, tuple(rows[0]), verb, named, only), rows))


@dataclass(frozen=True, slots=True)
class Shape:
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
        if not isinstance(other, Shape):
            return NotImplemented
        same = self.table is other.table and self.only is other.only
        return same and (self.names, self.verb, self.named) == (other.names, other.verb, other.named)

    @property
    def changed(self) -> tuple[str, ...]:
        """The columns that are set where the row is there already."""
        key = self.named if self.verb == "update" else {*self.named, *(part.name for part in self.table.primary_key)}
        return tuple(name for name in self.names if name not in key)


def _write(connection: Connection, shape: Shape, rows: Sequence[Row]) -> None:
    if not _sqlite(connection):
        varying = _varying(shape, rows)
        connection.execute(_at_once(shape, varying), _texts(shape, varying, 0, rows))
        return
    given = rows
    if shape.verb in ("update", "delete"):
        given = [{_of(name): row[name] for name in shape.names} for row in rows]
    connection.execute(_row_by_row(shape), given)


@cache
def _row_by_row(shape: Shape) -> Any:
    """For SQLite, where each row is a call and no journey."""
    if shape.verb in ("update", "delete"):
        return _finding(shape, {name: bindparam(_of(name)) for name in shape.names})
    return _minding(shape, sqlite.insert(shape.table))


# --- Postgres: all rows in one statement ------------------------------------------------------------------------------


@lru_cache(_STATEMENTS)
def _at_once(shape: Shape, varying: tuple[str, ...]) -> Any:
    return _from_source(shape, _source(shape, varying, 0), 0)


@lru_cache(_STATEMENTS)
def _together(parts: tuple[tuple[Shape, tuple[str, ...]], ...], condition: Update) -> direct.Prepared:
    """One statement for rows of several tables, which does nothing where `condition` finds nothing."""
    found = condition.cte("found")
    made = [
        _from_source(shape, _source(shape, varying, number).where(exists(select(*found.c))), number)
        for number, (shape, varying) in enumerate(parts)
    ]
    written = [one.cte(f"write_{number}") for number, one in enumerate(made)]
    return direct.prepared(select(func.count()).select_from(found).add_cte(*written))


def _varying(shape: Shape, rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns that are an array each; the others are a single parameter.

    Of few rows all are or none: each way in which rows are alike would be a statement of its own, to be made and kept
    here and planned and kept there. Of many, a value that is the same in all of them is sent once.
    """
    if len(rows) <= _MANY:
        return shape.names if len(rows) > 1 else ()
    first = rows[0]
    return tuple(name for name in shape.names if any(row[name] != first[name] for row in rows))


def _texts(shape: Shape, varying: Sequence[str], number: int, rows: Sequence[Row]) -> dict[str, str | None]:
    """The parameters of `_source`, a text each: lists take the driver longer, and JSON takes Postgres longer."""
    return {
        _given(number, name): _array([row[name] for row in rows]) if name in varying else direct.text(rows[0][name])
        for name in shape.names
    }


def _array(values: Sequence[Any]) -> str:
    """An array as Postgres reads it."""
    return "{" + ",".join([_element(direct.text(value)) for value in values]) + "}"


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _source(shape: Shape, varying: Sequence[str], number: int) -> Select[Any]:
    """The rows as they are given."""
    texts = {
        name: cast(bindparam(_given(number, name), type_=Text), _type(shape, name, varying)) for name in shape.names
    }
    arrays: Any = {}
    if varying:
        columns = [column(name, shape.table.c[name].type) for name in varying]
        arrays = func.unnest(*(texts[name] for name in varying)).table_valued(*columns).render_derived().c
    return select(*((arrays[name] if name in varying else texts[name]).label(name) for name in shape.names))


def _type(shape: Shape, name: str, varying: Sequence[str]) -> Any:
    kind = shape.table.c[name].type
    return ARRAY(kind) if name in varying else kind


def _from_source(shape: Shape, source: Select[Any], number: int) -> Any:
    if shape.verb in ("update", "delete"):
        given = source.subquery(f"given_{number}")
        return _finding(shape, {name: given.c[name] for name in shape.names})
    return _minding(shape, postgresql.insert(shape.table).from_select(list(shape.names), source))


def _given(number: int, name: str) -> str:
    return f"all_{number}_{name}"


# --- Both -------------------------------------------------------------------------------------------------------------


def _finding(shape: Shape, given: Mapping[str, ColumnElement[Any]]) -> Any:
    """The statement that changes or deletes the rows that are found by what is given."""
    table, key = shape.table, shape.names if shape.verb == "delete" else shape.named
    where = [table.c[name] == given[name] for name in key]
    if shape.only is not None:
        where.append(shape.only)
    if shape.verb == "delete":
        return delete(table).where(and_(*where))
    return update(table).where(and_(*where)).values({name: given[name] for name in shape.changed})


def _minding(shape: Shape, statement: Insert) -> Insert:
    if shape.verb == "insert":
        return statement
    key = [part.name for part in shape.table.primary_key]
    changed = {name: statement.excluded[name] for name in shape.changed}
    return statement.on_conflict_do_update(index_elements=key, set_=changed)


def _sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _of(name: str) -> str:
    return f"of_{name}"  # SQLAlchemy keeps a column's own name for itself
