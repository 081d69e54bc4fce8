"""Who may do what in the ledger's Postgres, as SQL for the owner of its tables to run.

The owner migrates. The writer is the controller: it appends decisions, keeps the tables that follow from them, and can
neither change nor remove a decision. A requester appends what people ask. A reader reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from textwrap import fill
from typing import TYPE_CHECKING

from psycopg import sql

from quarantine.core.errors import UsageError
from quarantine.ledger.schema import METADATA
from quarantine.ledger.views import VIEWS

if TYPE_CHECKING:
    from sqlalchemy import Connection

_LONGEST = 63  # bytes: Postgres cuts a longer name without an error
_NOBODY = frozenset({"public", "none"})  # what these mean to GRANT, quoted or not, is no role
_APPENDED = ("decisions", "policy_versions")


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of roles; None: there is no such role."""

    writer: str | None = None
    requester: str | None = None
    reader: str | None = None

    def named(self) -> Iterator[tuple[str, str]]:
        """What each is, and its name."""
        for field in fields(self):
            if (name := getattr(self, field.name)) is not None:
                yield field.name, name


def script(roles: Roles, schema: str = "public") -> str:
    """The SQL. Running it twice is running it once, and rights that a role had before are gone. Raises UsageError."""
    _check(roles, schema)
    lines = [
        "-- For the owner of the ledger's tables (who runs `quarantine db upgrade`), after each upgrade.",
        "-- All or nothing. What these roles could do to the tables before, and is not named here, they then cannot.",
        "BEGIN;",
        *(f"{statement.as_string(None)};" for statement in _statements(roles, sql.Identifier(schema))),
        "COMMIT;",
    ]
    return "\n".join(lines) + "\n"


def apply(url: str, roles: Roles, schema: str = "public") -> None:
    """Run it, as the user of this URL. All or nothing. Raises UsageError, LedgerUnavailable."""
    from quarantine.ledger.engine import make_engine
    from quarantine.ledger.faults import translated
    from quarantine.ledger.url import is_sqlite, parse_url

    _check(roles, schema)
    if is_sqlite(parse_url(url)):
        raise UsageError("SQLite has no roles: whoever has the file may do everything")
    engine = make_engine(url)
    try:
        with translated(engine.url), engine.begin() as connection:
            # A name may hold a percent sign, which would be taken for a parameter.
            plain = connection.execution_options(no_parameters=True)
            _require_owner(plain, schema)
            for statement in _statements(roles, sql.Identifier(schema)):
                plain.exec_driver_sql(statement.as_string(None))
    finally:
        engine.dispose()


def _require_owner(connection: Connection, schema: str) -> None:
    """Postgres only warns whoever grants what is not theirs to grant, and grants nothing. Raises UsageError."""
    query = sql.SQL(
        "SELECT current_user, tableowner FROM pg_tables WHERE schemaname = {} AND tablename = 'decisions' "
        "AND NOT pg_has_role(tableowner, 'USAGE')"
    ).format(sql.Literal(schema))
    other = connection.exec_driver_sql(query.as_string(None)).first()
    if other is not None:
        raise UsageError(
            f"the ledger's tables are those of the role {other[1]}, and {other[0]} cannot give rights to them: "
            "use the URL of the owner"
        )


def _statements(roles: Roles, schema: sql.Identifier) -> Iterator[sql.Composed]:
    every = _names((*METADATA.tables, "alembic_version", *VIEWS))
    whom = sql.SQL(", ").join(sql.Identifier(name) for _, name in roles.named())
    yield sql.SQL("SET LOCAL search_path TO {}").format(schema)
    yield sql.SQL("REVOKE CREATE ON SCHEMA {} FROM PUBLIC").format(schema)
    yield sql.SQL("REVOKE ALL ON SCHEMA {} FROM {}").format(schema, whom)
    yield sql.SQL("REVOKE ALL ON{}FROM PUBLIC, {}").format(every, whom)
    yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, whom)
    yield sql.SQL("GRANT SELECT ON{}TO {}").format(every, whom)
    # What a later version adds can be read at once, and written once this was run again.
    yield sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO {}").format(schema, whom)
    if roles.writer is not None:
        yield from _writer(sql.Identifier(roles.writer))
    if roles.requester is not None:
        # Not `answered_seq`: a request that says it was answered would be seen by nobody.
        asked = [column.name for column in METADATA.tables["requests"].columns if column.name != "answered_seq"]
        may = sql.SQL("GRANT INSERT ({}) ON requests TO {}")
        yield may.format(sql.SQL(", ").join(map(sql.Identifier, asked)), sql.Identifier(roles.requester))


def _writer(role: sql.Identifier) -> Iterator[sql.Composed]:
    yield sql.SQL("GRANT INSERT ON {} TO {}").format(sql.SQL(", ".join(_APPENDED)), role)
    yield sql.SQL("GRANT INSERT, UPDATE ON clusters TO {}").format(role)
    yield sql.SQL("GRANT INSERT, UPDATE (answered_seq) ON requests TO {}").format(role)
    projections = [name for name in METADATA.tables if name not in (*_APPENDED, "clusters", "requests")]
    yield sql.SQL("GRANT INSERT, UPDATE, DELETE ON{}TO {}").format(_names(projections), role)


def _names(tables: Iterable[str]) -> sql.SQL:
    """Of our own tables, over as many lines as they need."""
    return sql.SQL(f"\n{fill(', '.join(tables), 110, initial_indent='    ', subsequent_indent='    ')}\n")


def _check(roles: Roles, schema: str) -> None:
    names = list(roles.named())
    if not names:
        raise UsageError("name at least one role: --writer, --requester or --reader")
    for option, name in (*names, ("schema", schema)):
        if not name or not name.isprintable() or len(name.encode()) > _LONGEST:
            raise UsageError(f"--{option} {name!r:.80} is no name: write 1 to {_LONGEST} plain characters")
        if option != "schema" and (name in _NOBODY or name.startswith("pg_")):
            raise UsageError(f"--{option} {name}: Postgres keeps that name to itself; name a role of your own")
    if len({name for _, name in names}) < len(names):
        raise UsageError("each role needs a name of its own: whoever has two of them has the rights of both")
