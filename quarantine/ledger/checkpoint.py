"""Checkpoints: a small file that says what the trail was at a moment, kept where the database's owner cannot write.

The hash of a row stands for all rows up to it. A trail whose row `count` has another hash today was written anew,
however consistently, and a trail that is shorter has lost rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select

from quarantine import __version__
from quarantine.core.errors import UsageError
from quarantine.ledger import revision
from quarantine.ledger.atoms import parse_time
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import decisions
from quarantine.ledger.trail import Head, head_of
from quarantine.ledger.walk import Broken
from quarantine.ledger.wholefile import whole_file

FORMAT = 1
_LARGEST = 10_000  # bytes that a checkpoint can have
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the trail of a cluster was: its rows, counted, and the hash of the newest one."""

    cluster: str
    count: int
    hash: str
    at: datetime
    version: str = __version__  # of the program that took it


def take(engine: Engine, cluster: str, now: datetime) -> Checkpoint | Broken:
    """Of the trail as it stands; Broken where its head is no row of it. Raises LedgerUnavailable, SchemaMismatch."""
    with reading(engine) as connection:
        revision.require(connection)
        head = head_of(connection, cluster)
        if _hash_of(connection, cluster, head.seq) != head.hash:
            return Broken(head.seq, "is not the row that the head of the chain names")
    return Checkpoint(cluster, head.seq, head.hash, now)


def contradiction(engine: Engine, head: Head, checkpoints: Sequence[Checkpoint]) -> Broken | None:
    """The first row at which a sound trail is not what its checkpoints saw. Raises LedgerUnavailable."""
    agreed = 0
    for seen in sorted(checkpoints, key=lambda one: one.count):
        of = f"the checkpoint of {seen.at:%Y-%m-%d %H:%M} UTC"
        if seen.count > head.seq:
            return Broken(
                head.seq + 1,
                f"is missing: {of} counts {seen.count} rows. The database was restored from an older backup, a "
                "failover lost the last commits, or rows were taken away",
            )
        with reading(engine) as connection:
            found = _hash_of(connection, seen.cluster, seen.count)
        if found != seen.hash:
            since = f"after row {agreed}, at which it still agrees with an older one, and " if agreed else ""
            return Broken(
                seen.count,
                f"has another hash than in {of}: {since}not after row {seen.count}, the trail was written anew. "
                "Somebody rewrote it, or rows that a backup or a failover had lost were replaced by others",
            )
        agreed = seen.count
    return None


def text_of(seen: Checkpoint) -> str:
    """The file's text."""
    data = {
        "format": FORMAT,
        "cluster": seen.cluster,
        "count": seen.count,
        "hash": seen.hash,
        "at": seen.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "version": seen.version,
    }
    return json.dumps(data, indent=2) + "\n"


def read(path: Path) -> Checkpoint:
    """From a file. Raises UsageError."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        data = json.loads(raw)
    except OSError as error:
        raise UsageError(f"the checkpoint {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict) and type(data.get("format")) is int and data["format"] > FORMAT:
        raise UsageError(
            f"{path} is a checkpoint of format {data['format']}, newer than this version's {FORMAT}; upgrade the "
            "program"
        )
    found = _checkpoint(data) if isinstance(data, dict) else None
    if found is None:
        raise UsageError(f"{path} is no checkpoint; `quarantine audit checkpoint FILE` writes one")
    return found


def write(path: Path, seen: Checkpoint) -> None:
    """Whole or not at all, whatever happens meanwhile. Raises UsageError where it cannot be written there."""
    with whole_file(path) as file:
        file.write(text_of(seen).encode())


def _checkpoint(data: dict[str, Any]) -> Checkpoint | None:
    """None where this is none."""
    members: tuple[Any, ...] = tuple(data.get(name) for name in ("format", "cluster", "count", "hash", "at"))
    if [type(one) for one in members] != [int, str, int, str, str]:
        return None
    format_, cluster, count, hash_, written = members
    if format_ != FORMAT or count < 0 or not _HASH.fullmatch(hash_) or (count == 0) != (hash_ == GENESIS):
        return None
    try:
        at = parse_time(written)
    except ValueError:
        return None
    return Checkpoint(cluster, count, hash_, at, str(data.get("version", "")))


def _hash_of(connection: Connection, cluster: str, seq: int) -> str | None:
    if seq == 0:
        return GENESIS
    of_one = select(decisions.c.hash).where(decisions.c.cluster == cluster, decisions.c.seq == seq)
    found: str | None = connection.execute(of_one).scalar_one_or_none()
    return found
