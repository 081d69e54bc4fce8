"""What a database says when it will not, as our own errors: one sentence with what happened, where, and what to do."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from quarantine.core.errors import LedgerUnavailable, QuarantineError, SchemaMismatch
from quarantine.ledger.bounded import Unanswered
from quarantine.ledger.url import masked


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What an error code means to a person."""

    what: str
    advice: str
    schema: bool = False  # the tables are not those of this code


_NO_TABLE = _Meaning("does not have the tables of this version", "run `quarantine db upgrade`", schema=True)
_REFUSED = _Meaning("refused a row", "run `quarantine audit verify`, and ask who else writes to this database")
_AUTH = _Meaning("does not let this user in", "correct the user or the password in the URL")
_NO_DATABASE = _Meaning("does not exist", "create the database")
_NO_PASSWORD = _Meaning(
    "asks for a password and was given none", "put it into the URL, into PGPASSWORD or into a password file"
)
_NO_ROLE = _Meaning("does not know this user", "create the role, or correct the user in the URL")
_NO_LOGIN = _Meaning("does not let this role log in", "make it a role with LOGIN, or correct the user in the URL")
_NO_CONNECT = _Meaning(
    "does not let this user connect to the database",
    "have its owner run GRANT CONNECT ON DATABASE, or correct the user or the database in the URL",
)
_NO_ENTRY = _Meaning(
    "does not let this user in from here",
    "add a line for the user, the database and this machine to the server's pg_hba.conf, or correct the URL",
)
_NO_TLS = _Meaning("and this URL do not agree about TLS", "correct sslmode and sslrootcert in the URL, or the server")
_READ_ONLY = _Meaning(
    "is read-only", "point the URL at the primary, or make it writable; the controller goes on by itself"
)
_FULL = _Meaning("has no disk space left", "make room; the controller goes on by itself")
_LOCKED = _Meaning("is locked by another transaction", "see who holds the lock; the controller tries again by itself")
_SLOW = _Meaning("took too long for a statement", "look at its load; the controller tries again by itself")
_BROKEN = _Meaning("is damaged or is no database", "restore it from a backup")
_BUSY = _Meaning("has no connection left", "raise max_connections or close other clients; the controller tries again")
_SHORT = _Meaning("has run out of memory or of another resource", "read its log; the controller tries again by itself")
_SILENT = _Meaning("does not answer", "see whether its machine, its disk or a pooler hangs; the controller tries again")
_CUT = _Meaning("ended a transaction that stood still", "see what held the controller up; it tries again by itself")
_POOLED = _Meaning(
    "is behind a pooler that refuses the settings of a connection",
    "have it ignore them (ignore_startup_parameters = options), and give the role time-outs of its own",
)
_UNPREPARED = _Meaning(
    "is behind a pooler that loses prepared statements", "write ?prepare_threshold=none at the end of the ledger's URL"
)
_CLASH = _Meaning("aborted a transaction in favour of another one", "nothing: the controller tries again by itself")
_AWAY = _Meaning("cannot be reached", "start the database or correct the URL; the controller goes on by itself")
_UNREADABLE = _Meaning(
    "holds a value that cannot be read", "run `quarantine audit verify`, and ask who else writes there"
)
_OTHER = _Meaning("failed", "read the database's log")

# SQLSTATEs, longest prefix first: https://www.postgresql.org/docs/current/errcodes-appendix.html
_POSTGRES: Mapping[str, _Meaning] = {
    "42P01": _NO_TABLE,
    "42703": _NO_TABLE,
    "3F000": _NO_TABLE,
    "42501": _Meaning(
        "does not let this user do that",
        "run what `quarantine db grants` prints, as the owner of the tables; only their owner upgrades",
    ),
    "3D000": _NO_DATABASE,
    "22003": _UNREADABLE,
    "22008": _UNREADABLE,
    "25006": _READ_ONLY,
    "25P03": _CUT,
    "25P04": _CUT,
    "53100": _FULL,
    "53300": _BUSY,
    "53": _SHORT,
    "57014": _SLOW,
    "55P03": _LOCKED,
    "42P05": _UNPREPARED,
    "26": _UNPREPARED,
    "40": _CLASH,
    "28": _AUTH,
    "23": _REFUSED,
    "57": _AWAY,
    "08": _AWAY,
    "XX001": _BROKEN,
    "XX002": _BROKEN,
}
# What libpq tells of a connection that was refused has no SQLSTATE; a server of another language is `_AWAY` then.
_TURNED_AWAY: Mapping[re.Pattern[str], _Meaning] = {
    re.compile(r"database \".*\" does not exist"): _NO_DATABASE,
    re.compile(r"role \".*\" does not exist"): _NO_ROLE,
    re.compile("is not permitted to log in"): _NO_LOGIN,
    re.compile("permission denied for database"): _NO_CONNECT,
    re.compile("no password supplied"): _NO_PASSWORD,
    re.compile("no pg_hba.conf entry|pg_hba.conf rejects"): _NO_ENTRY,
    re.compile("authentication failed"): _AUTH,
    re.compile("too many (clients|connections)|remaining connection slots"): _BUSY,
    re.compile("unsupported startup parameter"): _POOLED,
    re.compile(
        "does not support SSL|certificate verify failed|root certificate file|does not match host name"
    ): _NO_TLS,
}
# Functions of the server that make a file longer: a quota or a limit of the file's size has no SQLSTATE of its own.
_GROWING = frozenset({"mdextend", "mdzeroextend", "RelationAddBlocks", "XLogFileInitInternal", "BufFileDumpBuffer"})
_SQLITE: Mapping[str, _Meaning] = {
    "SQLITE_READONLY": _READ_ONLY,
    "SQLITE_FULL": _FULL,
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_CORRUPT": _BROKEN,
    "SQLITE_NOTADB": _BROKEN,
    "SQLITE_IOERR": _Meaning("could not be read or written", "look at the disk; the controller tries again by itself"),
    "SQLITE_CONSTRAINT": _REFUSED,
    "SQLITE_CANTOPEN": _Meaning("cannot be opened", "make its folder, and let this user write there"),
    "SQLITE_PERM": _Meaning("cannot be opened", "let this user read and write the file"),
}


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Raise LedgerUnavailable or SchemaMismatch, chained, in place of what SQLAlchemy and the drivers raise."""
    try:
        yield
    except SQLAlchemyError as error:
        if isinstance(error, StatementError) and not isinstance(error, DBAPIError) and error.orig is not None:
            raise error.orig from error  # a value that no column takes, such as a naive time: the caller's mistake
        raise translate(error, url) from error
    except (ValueError, TypeError) as error:
        if "fromisoformat" not in str(error) and "isoformat string" not in str(error):
            raise
        # A time of SQLite's that is none, or none of Python's: `infinity`, a year of five digits.
        raise LedgerUnavailable(
            f"the ledger {masked(url)} {_UNREADABLE.what} ({error}); {_UNREADABLE.advice}"
        ) from error


def translate(error: SQLAlchemyError, url: URL) -> QuarantineError:
    """The error of ours that stands for this one."""
    orig = error.orig if isinstance(error, DBAPIError) else None
    meaning = _meaning(error, orig)
    detail = _detail(orig if orig is not None else error, url)
    message = f"the ledger {masked(url)} {meaning.what} ({detail}); {meaning.advice}"
    return SchemaMismatch(message) if meaning.schema else LedgerUnavailable(message)


def of_another_server(error: BaseException | None) -> bool:
    """Whether a new connection may do better: this one leads to a server that takes no writes."""
    return isinstance(error, psycopg.Error) and error.sqlstate == "25006"


def _meaning(error: SQLAlchemyError, orig: BaseException | None) -> _Meaning:
    if isinstance(error, PoolTimeout):
        return _BUSY
    if isinstance(orig, psycopg.Error):
        return _of_postgres(orig)
    if isinstance(orig, sqlite3.Error):
        return _of_sqlite(orig)
    return _OTHER


def _of_postgres(error: psycopg.Error) -> _Meaning:
    code = error.sqlstate
    if isinstance(error, Unanswered | psycopg.errors.ConnectionTimeout):
        return _SILENT
    if code is None and isinstance(error, psycopg.DataError):
        return _UNREADABLE
    if code is None:  # libpq's own: it had no server to ask, or the server turned it away while connecting
        said = str(error)
        return next((meaning for words, meaning in _TURNED_AWAY.items() if words.search(said)), _AWAY)
    if error.diag.source_function in _GROWING:
        return _FULL
    return _POSTGRES.get(code) or _POSTGRES.get(code[:2]) or _OTHER


def _of_sqlite(error: sqlite3.Error) -> _Meaning:
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_ERROR" and ("no such table" in str(error) or "no such column" in str(error)):
        return _NO_TABLE
    return next((meaning for prefix, meaning in _SQLITE.items() if name.startswith(prefix)), _OTHER)


def _detail(error: BaseException, url: URL) -> str:
    """The first line of what the driver said. Drivers do not repeat passwords; should one, it is masked."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    secret = str(url.password or "")
    return line.replace(secret, "***") if secret else line
