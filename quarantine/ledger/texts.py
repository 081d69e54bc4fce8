"""The texts of policies, which decisions name by their hashes: whether they are still what they were."""

from __future__ import annotations

import hashlib

from sqlalchemy import Engine, select

from quarantine.ledger import revision
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import policy_versions
from quarantine.ledger.text import unescape


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
