"""What only the leader writes. Every transaction begins with the cluster's row, where the term must be the writer's.

That update is fence and queue at once: the row stays locked until the end of the transaction, so what is read behind it
is the newest state, and a second writer waits here and then finds that it has been succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, bindparam, func, insert, select, update

from quarantine.core.decision import Decision, State
from quarantine.core.document import Written
from quarantine.core.errors import LedgerUnavailable, Superseded
from quarantine.ledger import projections, revision, whose
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.fold import fold
from quarantine.ledger.remembered import Remembered
from quarantine.ledger.schema import clusters, decisions, policy_versions, requests
from quarantine.ledger.text import fit, storable, stored_as
from quarantine.ledger.trail import Head, chained
from quarantine.ledger.upsert import Writes, insert_into

FEW = 8  # decisions up to which one statement is quicker than one for each table

# An asynchronous standby that is promoted may not have seen a term that was taken, and hands its number out again: the
# holder tells the two apart. NULL: whoever writes has taken no term itself, and was told of one.
_is_ours = clusters.c.holder == func.coalesce(bindparam("of_holder", type_=Text), clusters.c.holder)

# Made once: SQLAlchemy takes longer to make a statement than to execute it. No parameter is called as a column is, or
# every UPDATE that is part of the same statement would set it.
_TOUCH = (
    update(clusters)
    .where(
        clusters.c.cluster == bindparam("of_cluster"),
        clusters.c.term == bindparam("of_term"),
        _is_ours,
        revision.is_ours,
    )
    .values(updated_at=bindparam("touched_at"))
    .returning(clusters.c.seq, clusters.c.hash)
)
_ADVANCE = (
    update(clusters)
    .where(clusters.c.cluster == bindparam("of_cluster"))
    .values(seq=bindparam("to_seq"), hash=bindparam("to_hash"))
)
_FENCED_ADVANCE = (
    update(clusters)
    .where(
        clusters.c.cluster == bindparam("of_cluster"),
        clusters.c.term == bindparam("of_term"),
        _is_ours,
        clusters.c.seq == bindparam("of_seq"),
        clusters.c.hash == bindparam("of_hash"),
        revision.is_ours,
    )
    .values(seq=bindparam("to_seq"), hash=bindparam("to_hash"), updated_at=bindparam("touched_at"))
    .returning(clusters.c.seq)
)
_unanswered = requests.c.answered_seq.is_(None)


def take_term(connection: Connection, cluster: str, holder: str, now: datetime, identity: str | None) -> int:
    """Take the next term; the cluster's row is made where there is none. No two processes have the same `holder`.

    `identity`: of the cluster that is seen; None: it cannot be told. Raises OtherCluster as `whose.require`.
    """
    seen, known = _stored(identity), clusters.c.identity
    mine = known.is_(None) if seen is None else known.is_(None) | (known == seen)
    term: int | None = connection.execute(_taking(connection, cluster, holder, now, seen, mine)).scalar_one_or_none()
    if term is None:
        whose.require(connection, cluster, identity)
        raise LedgerUnavailable(f"the ledger gave no term of cluster {cluster!r}; it will be asked again")
    return term


def succeed(connection: Connection, cluster: str, holder: str, now: datetime) -> int:
    """The next term, for what is no cluster's controller: whose the trail is stays as it is."""
    term: int = connection.execute(_taking(connection, cluster, holder, now)).scalar_one()
    return term


def _taking(
    connection: Connection,
    cluster: str,
    holder: str,
    now: datetime,
    identity: str | None = None,
    where: ColumnElement[bool] | None = None,
) -> Any:
    """One statement: of two that come first at once, the second finds there what the first has kept."""
    taken = {"holder": fit(holder), "updated_at": now}
    first = {"term": 1, "seq": 0, "hash": GENESIS, "identity": identity, **taken}
    next_ = {"term": clusters.c.term + 1, "identity": func.coalesce(clusters.c.identity, identity), **taken}
    statement = insert_into(connection, clusters).values(cluster=cluster, **first)
    statement = statement.on_conflict_do_update(index_elements=[clusters.c.cluster], set_=next_, where=where)
    return statement.returning(clusters.c.term)


def fence(connection: Connection, cluster: str, term: int, holder: str | None, now: datetime) -> Head:
    """Lock the cluster's row and return its head. Raises Superseded where the term is not the writer's any more.

    `holder`: as whom the term was taken; None where this ledger took none, and the number alone must do. Raises
    SchemaMismatch where somebody has migrated since the last look.
    """
    fenced = {"of_cluster": cluster, "of_term": term, "of_holder": _stored(holder), "touched_at": now}
    found = connection.execute(_TOUCH, fenced).one_or_none()
    if found is not None:
        return Head(found.seq, found.hash)
    revision.require(connection)
    row = select(clusters.c.term, clusters.c.holder).where(clusters.c.cluster == cluster)
    present = connection.execute(row).one_or_none()
    by = "has no such cluster" if present is None else f"is at term {present.term}, held by {present.holder}"
    raise Superseded(f"term {term} of cluster {cluster!r} is over: the ledger {by}; this process must stop")


@dataclass(frozen=True, slots=True)
class Known:
    """The state as of a head. The chain makes it certain: the same hash is the same history."""

    head: Head
    state: State
    remembered: Remembered = field(default_factory=Remembered)


def append(
    connection: Connection, cluster: str, head: Head, taken: Sequence[Decision], now: datetime, known: Known | None
) -> Known:
    """Put decisions behind the head, and make every table say what they add up to.

    `known` spares the reading of the state where it is of this head, and must not be used again. Returns what is known
    once the transaction is committed. Raises ValueError as `evolve`.
    """
    if known is None or known.head != head:
        named = {decision.case for decision in taken if decision.case is not None}
        known = Known(head, projections.load(connection, cluster, now, also=named))
    writes, after = _folded(connection, cluster, taken, known)
    writes.save(connection)
    connection.execute(_ADVANCE, {"of_cluster": cluster, "to_seq": after.head.seq, "to_hash": after.head.hash})
    return after


def append_at_once(
    connection: Connection,
    cluster: str,
    term: int,
    holder: str | None,
    taken: Sequence[Decision],
    now: datetime,
    known: Known,
) -> Known | None:
    """The same as `fence` and `append`, in one statement of Postgres, where the trail is still what is known.

    None: nothing was written, for a reason that those two find: the term is over, there is a newer decision, a decision
    could not have been taken, or it is too much for one statement. What is read before is of the known head, which the
    statement holds the database to.
    """
    try:
        writes, after = _folded(connection, cluster, taken, known)
    except ValueError:
        return None
    if not writes.can_be_one:
        return None
    fenced = {
        "of_cluster": cluster,
        "of_term": term,
        "of_holder": _stored(holder),
        "of_seq": known.head.seq,
        "of_hash": known.head.hash,
        "touched_at": now,
    }
    moved = {"to_seq": after.head.seq, "to_hash": after.head.hash}
    return after if writes.save_where(connection, _FENCED_ADVANCE, {**fenced, **moved}) else None


def _stored(holder: str | None) -> str | None:
    return None if holder is None else fit(holder)


def _folded(connection: Connection, cluster: str, taken: Sequence[Decision], known: Known) -> tuple[Writes, Known]:
    """What these decisions have written, and what is known then."""
    named = {decision.case for decision in taken if decision.case is not None}
    before = known.state
    # Those that are new are not there; those that ended long ago were not loaded.
    ended = {case for case in named if case not in before.cases and (case in before.ended or fit(case) != case)}
    if found := projections.cases_of(connection, cluster, ended):
        before = replace(before, cases={**before.cases, **found})
    if any(decision.until is not None for decision in taken):
        before = projections.with_all_dismissals(connection, cluster, before)
    rows, new = chained(cluster, known.head, taken)
    writes = Writes()
    writes.insert(decisions, rows)
    numbered = list(enumerate(taken, start=known.head.seq + 1))
    after = fold(connection, writes, cluster, before, numbered, remembered=known.remembered)
    answered = {decision.request: seq for seq, decision in reversed(numbered) if decision.request is not None}
    answers = [
        {"cluster": cluster, "id": stored, "answered_seq": seq}
        for key, seq in answered.items()
        for stored in stored_as(key)
    ]
    writes.update(requests, answers, key=("cluster", "id"), only=_unanswered)
    return writes, Known(new, after, known.remembered)


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
