"""The texts of policies, which decisions name by their hashes: whether they are still what they were."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, select

from quarantine.ledger import revision
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import policy_versions
from quarantine.ledger.text import unescape

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


def altered(engine: Engine, cluster: str) -> list[str]:
    """One line for each kept text of a cluster that does not have its hash. Raises LedgerUnavailable, SchemaMismatch.

    The hash stands in the decisions, so the chain holds it.
    """
    kept = select(policy_versions.c.name, policy_versions.c.hash, policy_versions.c.text)
    with reading(engine) as connection:
        revision.require(connection)
        rows = connection.execute(
            kept.where(policy_versions.c.cluster == cluster).order_by(policy_versions.c.name, policy_versions.c.hash)
        )
        return [
            f"the text of {unescape(row.name)} that is kept under {row.hash:.12}… does not have that hash"
            for row in rows
            if hashlib.sha256(row.text.encode()).hexdigest() != row.hash
        ]
