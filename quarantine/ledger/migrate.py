"""Bringing a database to this code's schema, from a checkout or from an installed wheel.

To begin a new migration in a checkout: `python -c "from quarantine.ledger.migrate import new_revision;
print(new_revision('0002', 'what it does'))"`, then read what it wrote, and raise `schema.REVISION`.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, OperationalError

from quarantine.core.errors import QuarantineError
from quarantine.ledger import rebuild, revision
from quarantine.ledger.engine import LOCK, make_engine, reading, unhurried, writing
from quarantine.ledger.faults import translate, translated
from quarantine.ledger.schema import REVISION, clusters
from quarantine.ledger.url import is_sqlite

if TYPE_CHECKING:
    from alembic.config import Config

_RECORDS = "0005"  # made the tables of `staging.RECORDS`, and left them empty


def upgrade(url: str | URL) -> tuple[str | None, str]:
    """Bring the schema to this code's revision; all or nothing, and safe when two start at once.

    What earlier revisions did not keep is made from the decisions, and a controller of theirs that still runs may write
    no more. Returns the revision before (None: there were no tables) and after. Raises UsageError, LedgerUnavailable,
    and SchemaMismatch where the database is newer than this code.
    """
    engine = make_engine(url)
    try:
        if is_sqlite(engine.url):
            _write_ahead(engine)
        with writing(engine) as connection:
            _lock(connection)
            before = revision.current(connection)
            if before is not None and before > REVISION:
                revision.require(connection)
            if before is not None and before != REVISION:
                _succeed(connection)
            if before != REVISION:
                _run(connection)
            if before is not None and before < _RECORDS:
                rebuild.backfill(connection)
        return before, REVISION
    finally:
        engine.dispose()


def check(url: str | URL) -> None:
    """Raise SchemaMismatch unless the database is at exactly this code's revision; UsageError, LedgerUnavailable."""
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            revision.require(connection)
    finally:
        engine.dispose()


def config(connection: Connection | None = None) -> Config:
    """What Alembic must know; there is no alembic.ini. `connection` is what `migrations/env.py` runs on."""
    from alembic.config import Config

    # At INFO it tells of every step, through the handlers of whoever logs. `upgrade` has a result instead.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    made = Config()
    made.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    if connection is not None:
        made.attributes["connection"] = connection
    return made


def script_location() -> Path:
    """The migrations: package data of an installed wheel, or the checkout's folder."""
    package = Path(str(resources.files("quarantine")))
    for folder in (package / "_migrations", package.parent / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise QuarantineError(f"the migrations are missing next to {package}; install the package again")


def new_revision(number: str, message: str) -> Path:
    """Write the first draft of a migration: what differs between the models and the newest revision, on SQLite.

    For developers, in a checkout. Drafts know nothing of triggers, and both dialects must be looked at by hand.
    """
    from alembic import command

    with tempfile.TemporaryDirectory() as folder:
        engine = make_engine(f"sqlite:///{folder}/draft.db")
        try:
            with writing(engine) as connection:
                made = config(connection)
                command.upgrade(made, "head")
                script = command.revision(made, message, autogenerate=True, rev_id=number)
        finally:
            engine.dispose()
    if script is None or isinstance(script, list):
        raise QuarantineError(f"Alembic wrote no single file for revision {number}")
    return Path(script.path)


def _run(connection: Connection) -> None:
    from alembic import command

    command.upgrade(config(connection), REVISION)


def _lock(connection: Connection) -> None:
    """Let one migrate at a time; SQLite's BEGIN IMMEDIATE has done that already."""
    if is_sqlite(connection.engine.url):
        return
    # Whoever waits here waits for a whole migration, and a migration may rewrite a table, or fold a long trail.
    unhurried(connection)
    connection.execute(select(func.set_config("lock_timeout", "10min", True)))
    connection.execute(select(func.pg_advisory_xact_lock(revision.LOCK)))


def _succeed(connection: Connection) -> None:
    """Let whoever writes by the old schema finish, and take every term: behind this, it writes nothing.

    Before the first change, since a statement that waits for its row sees a new term there, but the old revision.
    """
    if not is_sqlite(connection.engine.url):
        # The whole table: a cluster that is new has no row yet to wait at. Whoever only reads goes on.
        connection.execute(text("LOCK TABLE clusters IN EXCLUSIVE MODE"))
    # Not what it says of the last sign of life: this is none of a controller.
    connection.execute(clusters.update().values(term=clusters.c.term + 1, holder="quarantine db upgrade"))


def _write_ahead(engine: Engine) -> None:
    """Let readers read while a writer writes. Kept in the file; cannot be set within a transaction."""
    deadline = time.monotonic() + LOCK.total_seconds()
    pause = threading.Event()
    while True:
        try:
            with translated(engine.url), engine.connect() as connection, closing(connection.connection.cursor()) as raw:
                raw.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # Where two processes make one file at once, SQLite may refuse this lock without waiting its time-out.
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise translate(OperationalError("PRAGMA", None, error), engine.url) from error
            pause.wait(0.02)
        except sqlite3.Error as error:
            raise translate(DatabaseError("PRAGMA", None, error), engine.url) from error
        else:
            return
