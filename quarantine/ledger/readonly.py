"""SQLite files where nothing can be written: a read-only mount, a backup of another user's, a folder without rights.

SQLite reads a file in WAL mode by way of two files beside it (`-wal`, `-shm`), and makes them where they are missing.
Where it can neither find nor make them, it can still read the file as one that nobody changes (`immutable`), which is
true where there is no log beside it: whoever has the file open keeps one there. Such a log may hold decisions that are
not in the file yet; with one, the file alone is not the ledger.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quarantine.core.errors import LedgerUnavailable

_log = logging.getLogger(__name__)
_CANNOT = ("SQLITE_CANTOPEN", "SQLITE_READONLY")
_told: set[str] = set()  # files, once each


def connect(_: object, __: object, arguments: tuple[Any, ...], options: dict[str, Any]) -> sqlite3.Connection:
    """For SQLAlchemy's `do_connect`: as usual, or else without writing. Raises as sqlite3, and LedgerUnavailable."""
    connection: sqlite3.Connection = sqlite3.connect(*arguments, **options)
    try:
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error as error:
        path = str(arguments[0])
        if not getattr(error, "sqlite_errorname", "").startswith(_CANNOT) or not Path(path).is_file():
            return connection  # what is wrong with it, the first statement says
        connection.close()
        return _unchanged(path, options)
    return connection


def _unchanged(path: str, options: dict[str, Any]) -> sqlite3.Connection:
    """The file as one that nobody changes. Raises LedgerUnavailable where it may not be the whole ledger."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise LedgerUnavailable(
            f"the ledger {path} has newer decisions in {log.name} beside it, which cannot be read where nothing can be "
            "written; copy both files into a folder of your own, and name the copy"
        )
    connection: sqlite3.Connection = sqlite3.connect(
        f"file:{quote(path)}?mode=ro&immutable=1", **{**options, "uri": True}
    )
    if path not in _told:
        _told.add(path)
        _log.warning(
            "the ledger %s is read as a file that nobody changes meanwhile, since nothing can be written beside it",
            path,
        )
    return connection
