"""A stretch of the trail: each row against its hash, its predecessor and its columns. Stretches are independent.

The predecessor of a stretch's first row is taken as it stands: it is the last row of the stretch before it, and is held
to its own hash there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from sqlalchemy import ColumnElement, Engine, Text, cast, select
from sqlalchemy.exc import DatabaseError

from quarantine.core.decision import Action
from quarantine.ledger import revision
from quarantine.ledger.chain import GENESIS, link
from quarantine.ledger.columns import NAMES, plainly_say, wrong_column
from quarantine.ledger.engine import reading
from quarantine.ledger.faults import translate
from quarantine.ledger.schema import decisions

PAGE = 4000  # rows of one query: bounds memory, and how long a transaction stays open

_OF_CHAIN = (decisions.c.seq, decisions.c.hash, decisions.c.prev_hash, decisions.c.body)
_AT = cast(decisions.c.at, Text)  # making a time of it costs as much as all the rest, and is needed for hardly any row
_COLUMNS = (*_OF_CHAIN, _AT, *(decisions.c[name] for name in NAMES))
_ACTION = len(_OF_CHAIN) + 1 + NAMES.index("action")  # where it is in a row


@dataclass(frozen=True, slots=True)
class Broken:
    """The first bad row, and what is wrong with it."""

    seq: int
    what: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows from `first` to `last`, both included."""

    first: int
    last: int

    def cut(self, length: int) -> Iterator[Stretch]:
        """Into pieces of at most `length` rows."""
        for first in range(self.first, self.last + 1, length):
            yield Stretch(first, min(first + length - 1, self.last))


@dataclass(frozen=True, slots=True)
class Named:
    """A version of a document of the rules that came into force by row `seq`."""

    seq: int
    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class Walked:
    """How far a stretch is sound: `seq` and `hash` are those of its last row before a fault or a gap.

    `before` is the hash of the row before the stretch; None where there is no such row.
    """

    before: str | None
    seq: int
    hash: str
    fault: Broken | None = None
    versions: tuple[Named, ...] = ()  # that came into force in these rows


def walk(engine: Engine, cluster: str, stretch: Stretch) -> Walked:
    """Read it in pages, each in a transaction of its own. Raises LedgerUnavailable, SchemaMismatch."""
    before = _hash_before(engine, cluster, stretch.first)
    seq, last = stretch.first - 1, before
    if last is None:
        return Walked(None, seq, GENESIS)
    versions: list[Named] = []
    for page in stretch.cut(PAGE):
        rows = _rows(engine, cluster, page)
        for row in rows:
            body: str = row[3]
            plain = row[0] == seq + 1 and row[2] == last and link(last, cluster, row[0], body) == row[1]
            if not (plain and plainly_say(body, row[4], row[5:])):
                fault = _fault(cluster, seq, last, row)
                if fault is not None:
                    return Walked(before, seq, last, fault)
            seq, last = row[0], row[1]
            if row[_ACTION] == Action.POLICY:
                versions += _named(seq, body)
    return Walked(before, seq, last, versions=tuple(versions))


def _named(seq: int, body: str) -> list[Named]:
    """The version that a sound row says has come into force; none where it says that a document is no more."""
    said = json.loads(body)
    name, hash_ = said.get("policy"), said.get("policy_hash")
    return [Named(seq, name, hash_)] if isinstance(name, str) and isinstance(hash_, str) else []


def _rows(engine: Engine, cluster: str, page: Stretch) -> Sequence[Any]:
    """Tuples of `_COLUMNS`, as the driver makes them: all are text or numbers, and SQLAlchemy would only wrap them."""
    wanted = select(*_COLUMNS).where(*_of(cluster, page)).order_by(decisions.c.seq)
    with reading(engine) as connection:
        revision.require(connection)
        found: Any = connection.execute(wanted).cursor
        try:
            return list(found.fetchall())
        except (psycopg.Error, sqlite3.Error) as error:
            raise translate(DatabaseError(None, None, error), engine.url) from error


def _moment(text: str) -> datetime | None:
    """The time that a row's column tells; None where it is none, or one that no decision can have (infinity, BC)."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _of(cluster: str, page: Stretch) -> tuple[ColumnElement[bool], ...]:
    return decisions.c.cluster == cluster, decisions.c.seq.between(page.first, page.last)


def _hash_before(engine: Engine, cluster: str, first: int) -> str | None:
    if first == 1:
        return GENESIS
    of_one = select(decisions.c.hash).where(decisions.c.cluster == cluster, decisions.c.seq == first - 1)
    with reading(engine) as connection:
        revision.require(connection)
        return connection.execute(of_one).scalar_one_or_none()


def _fault(cluster: str, before: int, last: str, row: Any) -> Broken | None:
    """What is wrong with a row, exactly; `before` and `last` are the number and the hash of the row before it."""
    seq, hash_, prev_hash, body, at, *columns = row
    if seq != before + 1:
        return Broken(before + 1, f"is missing: row {seq} comes next")
    if prev_hash != last:
        return Broken(seq, "does not follow the row before it: one of them was altered, inserted or moved")
    if link(last, cluster, seq, body) != hash_:
        return Broken(seq, "was altered: its text does not have its hash")
    wrong = wrong_column(body, _moment(at), tuple(columns))
    return None if wrong is None else Broken(seq, f"was altered: its column {wrong} does not say what its text says")
