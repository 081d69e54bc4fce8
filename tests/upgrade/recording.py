"""What an earlier version left behind: its database as that database would be backed up, and the town around it.

`recorded/<revision>-<dialect>.json.gz` is a mapping: `commit`, `minutes` (after the beginning; the time of the last
thing that happened), `database` (SQL, one statement per element), and what `town.Town.kept` gives.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from quarantine.sandbox.postgres import find_binaries

RECORDED = Path(__file__).parent / "recorded"
DIALECTS = ("sqlite", "postgres")
# What pg_dump writes for psql alone, or what is another server's matter.
_OF_THE_SERVER = ("\\", "--", "SET ", "SELECT pg_catalog.set_config", "CREATE SCHEMA", "COMMENT ON SCHEMA")


def path_of(revision: str, dialect: str) -> Path:
    """Where it is kept."""
    return RECORDED / f"{revision}-{dialect}.json.gz"


def revisions() -> list[str]:
    """All that were recorded, oldest first."""
    return sorted({path.name.partition("-")[0] for path in RECORDED.glob("*.json.gz")})


def read(revision: str, dialect: str) -> Mapping[str, Any]:
    """A recording."""
    found: dict[str, Any] = json.loads(gzip.decompress(path_of(revision, dialect).read_bytes()))
    return found


def keep(revision: str, dialect: str, recording: Mapping[str, Any]) -> None:
    """Write a recording, the same bytes for the same contents."""
    text = json.dumps(recording, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    path_of(revision, dialect).write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def dumped(url: str) -> list[str]:
    """A database as SQL."""
    place = make_url(url)
    if place.drivername.startswith("sqlite"):
        with closing(sqlite3.connect(str(place.database))) as connection:
            return list(connection.iterdump())
    command = [str(find_binaries() / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", url]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return _statements(text)


def load(statements: Sequence[str], url: str) -> None:
    """Make a dumped database again, in one that is empty."""
    place = make_url(url)
    if place.drivername.startswith("sqlite"):
        with closing(sqlite3.connect(str(place.database))) as connection:
            connection.executescript("\n".join(statements))
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET check_function_bodies = false")
        connection.execute("\n".join(statements).encode())


def _statements(text: str) -> list[str]:
    """Of pg_dump's text the lines that make something, joined as they are: values may have line breaks in them."""
    kept: list[str] = []
    within = False  # a statement that spans lines
    for line in text.splitlines():
        if not within and (not line or line.startswith(_OF_THE_SERVER)):
            continue
        kept.append(line)
        within = not line.endswith(";")
    return kept
