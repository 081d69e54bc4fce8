"""What only the leader writes. Every transaction begins with the cluster's row, where the term must be the writer's.

That update is fence and queue at once: the row stays locked until the end of the transaction, so what is read behind it
is the newest state, and a second writer waits here and then finds that it has been succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from quarantine.core.decision import Decision, State
from quarantine.core.document import Written
from quarantine.core.errors import Superseded
from quarantine.ledger import projections, revision
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.fold import fold
from quarantine.ledger.schema import clusters, decisions, policy_versions, requests
from quarantine.ledger.text import fit, storable
from quarantine.ledger.trail import Head, chained
from quarantine.ledger.upsert import insert_all, insert_into


def take_term(connection: Connection, cluster: str, holder: str, now: datetime) -> int:
    """Take the next term; the cluster's row is made where there is none."""
    first = {"term": 1, "seq": 0, "hash": GENESIS, "holder": fit(holder), "updated_at": now}
    statement = insert_into(connection, clusters).values(cluster=cluster, **first)
    taken = statement.on_conflict_do_update(
        index_elements=[clusters.c.cluster],
        set_={"term": clusters.c.term + 1, "holder": fit(holder), "updated_at": now},
    ).returning(clusters.c.term)
    term: int = connection.execute(taken).scalar_one()
    return term


def fence(connection: Connection, cluster: str, term: int, now: datetime) -> Head:
    """Lock the cluster's row and return its head. Raises Superseded where the term is not the writer's any more.

    Raises SchemaMismatch where somebody has migrated since the last look.
    """
    row = (clusters.c.cluster == cluster, clusters.c.term == term, revision.is_ours)
    touch = update(clusters).where(*row).values(updated_at=now).returning(clusters.c.seq, clusters.c.hash)
    found = connection.execute(touch).one_or_none()
    if found is not None:
        return Head(found.seq, found.hash)
    revision.require(connection)
    present = connection.execute(select(clusters.c.term, clusters.c.holder).where(row[0])).one_or_none()
    by = "has no such cluster" if present is None else f"is at term {present.term}, held by {present.holder}"
    raise Superseded(f"term {term} of cluster {cluster!r} is over: the ledger {by}; this process must stop")


@dataclass(frozen=True, slots=True)
class Known:
    """The state as of a head. The chain makes it certain: the same hash is the same history."""

    head: Head
    state: State


def append(
    connection: Connection, cluster: str, head: Head, taken: Sequence[Decision], now: datetime, known: Known | None
) -> Known:
    """Put decisions behind the head, and make every table say what they add up to.

    `known` spares the reading of the state where it is of this head. Returns what is known once the transaction is
    committed. Raises ValueError as `evolve`.
    """
    named = {decision.case for decision in taken if decision.case is not None}
    if known is None or known.head != head:
        known = Known(head, projections.load(connection, cluster, now, also=named))
    before = known.state
    # Those that are new are not there; those that ended long ago were not loaded.
    if found := projections.cases_of(connection, cluster, named - before.cases.keys()):
        before = replace(before, cases={**before.cases, **found})
    if any(decision.until is not None for decision in taken):
        before = projections.with_all_dismissals(connection, cluster, before)
    rows, new = chained(cluster, head, taken)
    insert_all(connection, decisions, rows)
    after = fold(connection, cluster, before, list(enumerate(taken, start=head.seq + 1)))
    _answer(connection, cluster, head, taken)
    advance = update(clusters).where(clusters.c.cluster == cluster).values(seq=new.seq, hash=new.hash)
    connection.execute(advance)
    return Known(new, after)


def keep_texts(connection: Connection, cluster: str, policies: Sequence[Written], now: datetime) -> None:
    """Keep the full text of every version that decides or comes into force; those that are there stay as they are."""
    if not policies:
        return
    # Not ON CONFLICT DO NOTHING: SQLite's trigger against REPLACE runs before the conflict is seen.
    given = {storable(policy.hash): policy for policy in policies}
    known = select(policy_versions.c.hash).where(
        policy_versions.c.cluster == cluster, policy_versions.c.hash.in_(list(given))
    )
    there = set(connection.execute(known).scalars())
    rows: list[dict[str, Any]] = [
        {
            "cluster": cluster,
            "hash": key,
            "name": fit(policy.name),
            "text": storable(policy.text),
            "revision": None if policy.revision is None else fit(policy.revision),
            "first_seen": now,
        }
        for key, policy in given.items()
        if key not in there
    ]
    if rows:
        connection.execute(insert(policy_versions), rows)


def _answer(connection: Connection, cluster: str, head: Head, taken: Sequence[Decision]) -> None:
    answers = [
        {"of": fit(decision.request), "by": seq}
        for seq, decision in enumerate(taken, start=head.seq + 1)
        if decision.request is not None
    ]
    if answers:
        open_one = (
            requests.c.cluster == cluster,
            requests.c.id == bindparam("of"),
            requests.c.answered_seq.is_(None),
        )
        connection.execute(update(requests).where(*open_one).values(answered_seq=bindparam("by")), answers)
