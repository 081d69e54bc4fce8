"""INSERT that minds what is there already: the one statement that the two dialects spell in modules of their own."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import JSON, Connection, Select, Table, Text, bindparam, cast, column, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

Insert = postgresql.Insert | sqlite.Insert

MANY = 20  # rows from which on Postgres takes them as one text, in one statement: that costs less than row by row


def insert_into(connection: Connection, table: Table) -> Insert:
    """An insert of this connection's dialect, for `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def upsert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]], *, keep: Collection[str] = ()) -> None:
    """Insert rows, or make those of the same primary key like them, but for the columns in `keep`.

    All rows have the same columns, and no two of them the same key.
    """
    if not rows:
        return
    key = [column.name for column in table.primary_key]
    statement = insert_into(connection, table)
    changed = {name: statement.excluded[name] for name in rows[0] if name not in key and name not in keep}
    source, parameters = _source(connection, table, rows)
    full = statement if source is None else statement.from_select(list(rows[0]), source)
    connection.execute(full.on_conflict_do_update(index_elements=key, set_=changed), parameters)


def insert_all(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows that are new, all of them with the same columns."""
    if not rows:
        return
    source, parameters = _source(connection, table, rows)
    statement = insert(table)
    connection.execute(statement if source is None else statement.from_select(list(rows[0]), source), parameters)


def _source(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> tuple[Select[Any] | None, Any]:
    """Where the rows come from, and with which parameters; None: each row is a set of parameters of its own.

    So it is for what has bodies, too: they are texts of JSON, which is slow to read within another one.
    """
    if connection.dialect.name == "sqlite" or len(rows) < MANY or "body" in table.c:
        return None, rows
    return _of_text(table, tuple(rows[0])), {"rows": json.dumps(rows, default=_time)}


@cache
def _of_text(table: Table, names: tuple[str, ...]) -> Select[Any]:
    columns = [column(name, table.c[name].type) for name in names]
    given = cast(bindparam("rows", type_=Text), JSON)
    return select(*func.json_to_recordset(given).table_valued(*columns).render_derived(with_types=True).c)


def _time(value: object) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.isoformat()
    raise TypeError(f"{value!r} is no aware time")
