"""The texts of policies, which decisions name by their hashes: whether they are still what they were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select

from quarantine.ledger import revision
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import policy_versions
from quarantine.ledger.text import storable, unescape
from quarantine.ledger.walk import Named

MOST = 10  # versions that are told where the beginning of a hash fits several


@dataclass(frozen=True, slots=True)
class Kept:
    """A version of a document of the rules, letter for letter."""

    name: str
    hash: str
    revision: str | None
    first_seen: datetime
    text: str


def kept(engine: Engine, cluster: str, beginning: str) -> list[Kept]:
    """The versions whose hash begins so, which is of hexadecimal digits; a few where they are many.

    Raises LedgerUnavailable, SchemaMismatch.
    """
    columns = policy_versions.c
    chosen = select(policy_versions).where(
        columns.cluster == cluster, columns.hash >= beginning, columns.hash < f"{beginning}g"
    )
    with reading(engine) as connection:
        revision.require(connection)
        rows = connection.execute(chosen.order_by(columns.hash).limit(MOST)).all()
    return [
        Kept(
            unescape(row.name),
            row.hash,
            None if row.revision is None else unescape(row.revision),
            row.first_seen,
            row.text,
        )
        for row in rows
        if row.hash.startswith(beginning)
    ]


def faults(engine: Engine, cluster: str, named: Iterable[Named] = ()) -> list[str]:
    """One line for each kept text that does not have its hash, and for each version in `named` that has none kept.

    The hash stands in the decisions, so the chain holds it. `named` are those that the trail says have come into
    force: their texts were kept with that row, in one transaction. Trails begin to tell of that with schema 0005, and
    what earlier rows name alone is not missed. Raises LedgerUnavailable, SchemaMismatch.
    """
    columns = policy_versions.c
    chosen = select(columns.name, columns.hash, columns.text).where(columns.cluster == cluster)
    there, found = set[str](), list[str]()
    with reading(engine) as connection:
        revision.require(connection)
        for row in connection.execute(chosen.order_by(columns.name, columns.hash)):
            there.add(row.hash)
            kept = row.text if isinstance(row.text, str) else repr(row.text)  # SQLite keeps bytes in any column
            if hashlib.sha256(kept.encode()).hexdigest() != row.hash:
                name = unescape(row.name)
                found.append(f"the text of {name} that is kept under {row.hash:.12}… does not have that hash")
    missing = {one.hash: one for one in named if storable(one.hash) not in there}
    return found + [
        f"the text of {one.name} that came into force by row {one.seq} ({one.hash:.12}…) is missing"
        for one in sorted(missing.values(), key=lambda one: one.seq)
    ]
