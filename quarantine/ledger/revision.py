"""Whether a database has the schema of this code: asked before it is used, without loading Alembic."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, exists, func, inspect, select

from quarantine.core.errors import SchemaMismatch
from quarantine.ledger.schema import REVISION
from quarantine.ledger.url import is_sqlite, masked

LOCK = 0x71756172616E74  # any number that nobody else would choose; Postgres keeps these locks apart by database

# Alembic's own table; not among the models, since it is not ours to make.
_version = Table("alembic_version", MetaData(), Column("version_num", String(32)))

# A condition of a statement that must not be carried out on the tables of another version.
is_ours = exists(select(_version.c.version_num).where(_version.c.version_num == REVISION))


def current(connection: Connection) -> str | None:
    """The revision that the database is at; None where it was never migrated."""
    if not inspect(connection).has_table(_version.name):
        return None
    return connection.execute(select(_version.c.version_num)).scalar_one_or_none()


def require(connection: Connection) -> None:
    """Raise SchemaMismatch unless the database is at exactly this code's revision.

    One query. Where even Alembic's table is missing, the database's own refusal becomes SchemaMismatch (see `faults`).
    """
    found = connection.execute(select(_version.c.version_num)).scalar_one_or_none()
    if found == REVISION:
        return
    place = f"the ledger {masked(connection.engine.url)}"
    if found is None:
        raise SchemaMismatch(f"{place} has no tables yet; run `quarantine db upgrade`")
    if found < REVISION:  # revisions are numbers with leading zeros
        raise SchemaMismatch(
            f"{place} is at schema {found}, older than this code's {REVISION}; run `quarantine db upgrade`"
        )
    raise SchemaMismatch(
        f"{place} is at schema {found}, newer than this code's {REVISION}; upgrade the program, it writes nothing here"
    )


def hold(connection: Connection) -> None:
    """The same, for a writer outside the terms: until its transaction ends, nobody migrates. Raises as `require`.

    Whoever writes in a term needs it not: a migration takes every term first, by the row that the writer locks.
    """
    if not is_sqlite(connection.engine.url):  # there, BEGIN IMMEDIATE has done it
        connection.execute(select(func.pg_advisory_xact_lock_shared(LOCK)))
    require(connection)
