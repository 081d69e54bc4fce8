"""Whether the trail is what was written: every row against its hash, its predecessor, its columns and the head."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row, func, select

from quarantine.ledger import revision
from quarantine.ledger.chain import GENESIS, link
from quarantine.ledger.codec import parse_time
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import decisions
from quarantine.ledger.trail import Head, head_of, pages, projected

_PROJECTED = (
    "kind",
    "action",
    "case_id",
    "node",
    "node_uid",
    "device",
    "pool",
    "policy",
    "verdict",
    "held_by",
    "actor",
)
_COLUMNS = ("seq", "hash", "prev_hash", "body", "at", *_PROJECTED, "reason")


@dataclass(frozen=True, slots=True)
class Sound:
    """Every row is what was written. `hash` is the head's: kept elsewhere, it shows later that none was rewritten."""

    count: int
    hash: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The first bad row, and what is wrong with it."""

    seq: int
    what: str


def verify(engine: Engine, cluster: str) -> Sound | Broken:
    """Walk the trail of a cluster as it stands now, in bounded memory. Raises LedgerUnavailable, SchemaMismatch."""
    head, first, newest = _ends(engine, cluster)
    if first is not None and first < 1:
        return Broken(first, "stands before the first row")
    last = Head(0, GENESIS)
    columns = [decisions.c[name] for name in _COLUMNS]
    for row in pages(engine, [decisions.c.cluster == cluster], *columns, upto=head.seq):
        if (fault := _fault(cluster, last, row)) is not None:
            return fault
        last = Head(row.seq, row.hash)
    if last.seq != head.seq:
        return Broken(last.seq + 1, f"is missing: the head of the chain is row {head.seq}")
    if last.hash != head.hash:
        return Broken(last.seq, "is not the row that the head of the chain names")
    if newest is not None and newest > head.seq:
        return Broken(head.seq + 1, f"stands behind the head of the chain, which is row {head.seq}")
    return Sound(last.seq, last.hash)


def _ends(engine: Engine, cluster: str) -> tuple[Head, int | None, int | None]:
    """The head, the lowest and the highest seq, as of one moment; rows that are appended later do not matter."""
    ends = select(func.min(decisions.c.seq), func.max(decisions.c.seq)).where(decisions.c.cluster == cluster)
    with reading(engine) as connection:
        revision.require(connection)
        head = head_of(connection, cluster)
        first, newest = connection.execute(ends).one()
    return head, first, newest


def _fault(cluster: str, last: Head, row: Row[Any]) -> Broken | None:
    if row.seq != last.seq + 1:
        return Broken(last.seq + 1, f"is missing: row {row.seq} comes next")
    if row.prev_hash != last.hash:
        return Broken(row.seq, "does not follow the row before it: one of them was altered, inserted or moved")
    if link(last.hash, cluster, row.seq, row.body) != row.hash:
        return Broken(row.seq, "was altered: its text does not have its hash")
    wrong = _wrong_column(row)
    return (
        None if wrong is None else Broken(row.seq, f"was altered: its column {wrong} does not say what its text says")
    )


def _wrong_column(row: Sequence[Any] | Row[Any]) -> str | None:
    seen: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    try:
        data = json.loads(seen["body"])
        expected: dict[str, str | datetime | None] = {**projected(data), "at": parse_time(data["at"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        return "body"
    return next((name for name, value in expected.items() if seen[name] != value), None)
