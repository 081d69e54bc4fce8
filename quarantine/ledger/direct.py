"""Statements of Postgres that SQLAlchemy makes once, and that then go to the driver as they are.

What SQLAlchemy and the driver do for each execution (bind parameters, results, placeholders of another style) costs
more than all that the leader computes for a decision. So its one statement is compiled to Postgres' own placeholders
and kept; each use hands over texts, which the server reads by the casts in the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, Select
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from quarantine.ledger.bounded import BoundedConnection
from quarantine.ledger.faults import of_another_server

_DIALECT = PGDialect_psycopg(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement with its placeholders in order; `fixed` are those that are always the same."""

    text: str
    encoded: bytes
    names: tuple[str, ...]
    fixed: Mapping[str, Any]


def prepared(statement: Select[Any]) -> Prepared:
    """To be made once and kept."""
    made = statement.compile(dialect=_DIALECT)
    names = tuple(made.positiontup or ())
    text = " ".join(str(made).split())  # it stands in the server's log, and the server compares it
    fixed = {name: value for name, value in made.params.items() if value is not None}
    return Prepared(text, text.encode(), names, fixed)


def scalar(connection: Connection, statement: Prepared, given: Mapping[str, Any]) -> Any:
    """The first value of the first row. Who listens to statements hears of it. Raises DBAPIError, as SQLAlchemy does.

    Raises TypeError for a time without a zone.
    """
    driver = cast("BoundedConnection", connection.connection.dbapi_connection)
    values = {**statement.fixed, **given}
    cursor = psycopg.RawCursor(driver)
    for hears in connection.dispatch.before_cursor_execute:
        hears(connection, cursor, statement.text, values, None, False)
    try:
        cursor.execute(statement.encoded, [text(values[name]) for name in statement.names])
        row = cursor.fetchone()
    except psycopg.Error as error:
        lost = driver.closed or of_another_server(error)
        if lost:
            connection.invalidate(error)
        raise DBAPIError(None, None, error, hide_parameters=True, connection_invalidated=lost) from error
    for hears in connection.dispatch.after_cursor_execute:
        hears(connection, cursor, statement.text, values, None, False)
    return None if row is None else row[0]


def text(value: Any) -> str | None:
    """As Postgres reads it. One type for all: the server keeps a plan for each combination of types."""
    if value is None or type(value) is str:
        return value
    if value is True or value is False:
        return "t" if value else "f"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise TypeError(f"{value!r} is no aware time")
        return value.isoformat()
    return str(value)
