"""What the role that a URL connects as may do to the ledger's tables in Postgres, against what the controller needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.schema import METADATA

_APPENDED = ("decisions", "policy_versions")


@dataclass(frozen=True, slots=True)
class OwnRights:
    """`missing`: such as `INSERT on decisions`. `rewrites`: it could change or remove what was decided."""

    role: str
    missing: tuple[str, ...]
    rewrites: bool


def own_rights(url: str) -> OwnRights:
    """Of the role of this URL, which is Postgres'. Raises UsageError, LedgerUnavailable, SchemaMismatch."""
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            role = str(connection.execute(select(func.current_user())).scalar_one())
            missing = tuple(f"{what} on {table}" for table, what in _needed() if not _may(connection, table, what))
            rewrites = any(_may(connection, "decisions", what) for what in ("UPDATE", "DELETE", "TRUNCATE"))
    finally:
        engine.dispose()
    return OwnRights(role, missing, rewrites)


def _needed() -> Iterator[tuple[str, str]]:
    """Table and right, as `grants` gives them to a writer."""
    for table in METADATA.tables:
        yield table, "SELECT"
        yield table, "INSERT"
        if table in _APPENDED or table == "requests":
            continue
        yield table, "UPDATE"
        if table != "clusters":
            yield table, "DELETE"


def _may(connection: Connection, table: str, what: str) -> bool:
    if what == "SELECT" or table != "requests":
        return bool(connection.execute(select(func.has_table_privilege(table, what))).scalar_one())
    return bool(connection.execute(select(func.has_any_column_privilege(table, what))).scalar_one())
