"""Connections: how each dialect is set up, and the two kinds of transaction that the ledger has."""

from __future__ import annotations

import select as polling
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import psycopg
from sqlalchemy import Connection, Dialect, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, ExceptionContext, interfaces
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from quarantine.core.errors import UsageError
from quarantine.ledger import readonly
from quarantine.ledger.bounded import BoundedConnection
from quarantine.ledger.faults import of_another_server, translated
from quarantine.ledger.url import is_sqlite, parse_url

CONNECT = timedelta(seconds=5)
STATEMENT = timedelta(seconds=30)  # longer than any statement of a cycle; a hung one must not hold the cycle
LOCK = timedelta(seconds=10)  # how long to wait for another writer
_COMPILED = 150  # statements that are kept as text: a controller's own, with half as many to spare
_RECENT_S = 1.0
_USED = "quarantine_used"  # when a connection was used last, by the monotonic clock
_PREPARE = "prepare_threshold"  # psycopg's; not libpq's, so it is no text
_IMMEDIATE = "quarantine_immediate"  # execution option: take SQLite's write lock at BEGIN


def make_engine(url: str | URL) -> Engine:
    """An engine with time-outs and, on SQLite, the pragmas. Connects to nothing yet. Raises UsageError."""
    parsed = parse_url(url)
    # Parameters are kept out of errors and logs: bodies are long, and errors are read on Slack.
    if is_sqlite(parsed):
        arguments: dict[str, Any] = {"timeout": LOCK.total_seconds(), "check_same_thread": False}
        kept = {name: value for name, value in arguments.items() if name not in parsed.query}
        engine = create_engine(parsed, hide_parameters=True, connect_args=kept)
        event.listen(engine, "do_connect", readonly.connect)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = create_engine(
        parsed,
        hide_parameters=True,
        pool_size=2,
        max_overflow=3,
        pool_timeout=LOCK.total_seconds(),
        pool_recycle=1800,
        query_cache_size=_COMPILED,
        connect_args=_postgres_arguments(parsed),
    )
    event.listen(engine, "do_connect", _connect_postgres)
    event.listen(engine, "checkin", _put_back)
    event.listen(engine, "checkout", partial(_look_first, engine.dialect))
    event.listen(engine, "handle_error", _leave_what_was_the_primary)
    return engine


class Opened:
    """A database that whoever opened it closes."""

    def __init__(self, engine: Engine) -> None:
        """`engine` comes from `make_engine`, and is closed with this."""
        self._engine = engine

    def __enter__(self) -> Self:
        """Usable at once."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A transaction for reading, in which every statement sees the same state. Raises as `translated`."""
    with translated(engine.url), engine.connect() as connection:
        if not is_sqlite(engine.url):
            # Not also READ ONLY: the pool would put that back to READ WRITE, which overrides a server's own read-only.
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that is committed when the block ends and leaves nothing when it raises. Raises as `translated`."""
    with translated(engine.url), engine.connect() as connection:
        connection.execution_options(**{_IMMEDIATE: True})
        with connection.begin():
            yield connection


def unhurried(connection: Connection) -> None:
    """Let this transaction take as long as it needs, locks of others aside. SQLite has no such limits."""
    if is_sqlite(connection.engine.url):
        return
    limits = ("statement_timeout", "idle_in_transaction_session_timeout")
    connection.execute(select(*(func.set_config(name, "0", True) for name in limits)))
    driver = cast("BoundedConnection", connection.connection.dbapi_connection)
    driver.limit_s = None


def _put_back(connection: Any, entry: ConnectionPoolEntry) -> None:
    if isinstance(connection, BoundedConnection):  # None where it was given up
        connection.limit_s = connection.usual_s
        entry.info[_USED] = time.monotonic()


def _look_first(dialect: Dialect, connection: Any, entry: ConnectionPoolEntry, _: PoolProxiedConnection) -> None:
    """Ask the server for a sign of life before a connection is used again, as `pool_pre_ping` does.

    One that was used a moment ago is not asked: a server that has ended it since has said so, and that is looked for.
    """
    if _USED not in entry.info:
        return  # it is new
    looked = polling.poll()
    looked.register(connection.fileno(), polling.POLLIN)
    if time.monotonic() - entry.info[_USED] < _RECENT_S and not looked.poll(0):
        return
    try:
        dialect.do_ping(connection)
    except psycopg.OperationalError as error:
        raise InvalidatePoolError from error


def _connect_postgres(
    _: interfaces.Dialect, __: ConnectionPoolEntry, arguments: tuple[Any, ...], options: dict[str, Any]
) -> BoundedConnection:
    return BoundedConnection.connect(*arguments, **options)


def _leave_what_was_the_primary(context: ExceptionContext) -> None:
    """After a failover by name or by a proxy, connections that stay open lead to what is a standby by now."""
    if of_another_server(context.original_exception):
        context.is_disconnect = True


def _postgres_arguments(url: URL) -> dict[str, Any]:
    """What libpq is told, unless the URL says otherwise."""
    settings = {
        "statement_timeout": f"{STATEMENT // timedelta(milliseconds=1)}",
        "lock_timeout": f"{LOCK // timedelta(milliseconds=1)}",
        "idle_in_transaction_session_timeout": f"{STATEMENT // timedelta(milliseconds=1)}",
        "timezone": "UTC",
    }
    ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
    theirs = url.query.get("options", "")
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT // timedelta(seconds=1),
        "application_name": "quarantine",
        # A server that vanished without a word (its machine died) must not hold the cycle for TCP's two hours.
        "tcp_user_timeout": STATEMENT // timedelta(milliseconds=1),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    kept = {name: value for name, value in arguments.items() if name not in url.query}
    if _PREPARE in url.query:  # over what SQLAlchemy hands on from the URL as text
        kept[_PREPARE] = _prepare(url.query[_PREPARE])
    return {**kept, "options": f"{ours} {theirs if isinstance(theirs, str) else ' '.join(theirs)}".strip()}


def _prepare(text: str | tuple[str, ...]) -> int | None:
    """After how many uses a statement is prepared on the server; None: never, for poolers that change the server."""
    if text == "none":
        return None
    if isinstance(text, str) and text.isdecimal():
        return int(text)
    raise UsageError(f"the ledger's URL has {_PREPARE}={text}: write none, or a number of uses")


def _prepare_sqlite(connection: interfaces.DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver would open transactions of its own, late and never IMMEDIATE: BEGIN is ours (SQLAlchemy's recipe).
    connection.isolation_level = None
    cursor = connection.cursor()
    # recursive_triggers: without it INSERT OR REPLACE deletes without asking the trigger.
    # synchronous=FULL: in WAL, NORMAL may lose the last commits at a power cut, and with them the record of an action.
    for pragma in ("foreign_keys=ON", "recursive_triggers=ON", "synchronous=FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer that begins by reading and then writes can fail with "locked" at once; IMMEDIATE waits for its turn.
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
