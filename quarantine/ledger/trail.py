"""The rows of the trail: how a decision becomes one, and how they are read, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, select

from quarantine.core.decision import Decision
from quarantine.core.errors import SchemaMismatch
from quarantine.ledger import revision
from quarantine.ledger.chain import GENESIS, link
from quarantine.ledger.codec import Plain, decode, encode, partly
from quarantine.ledger.engine import reading
from quarantine.ledger.schema import clusters, decisions
from quarantine.ledger.text import SENTENCE, fit
from quarantine.ports import TrailRow

# The fields that the columns beside a body are made of.
_PROJECTED = frozenset(
    {
        "action",
        "actor",
        "case",
        "device",
        "held_by",
        "kind",
        "machine",
        "node",
        "policy",
        "pool",
        "reason",
        "verdict",
    }
)
PAGE = 1000  # rows; bounds memory, and how long one transaction stays open


@dataclass(frozen=True, slots=True)
class Head:
    """The newest row of a cluster's trail."""

    seq: int
    hash: str


def head_of(connection: Connection, cluster: str) -> Head:
    """The head that the cluster's row names; before the first decision, seq 0."""
    found = connection.execute(select(clusters.c.seq, clusters.c.hash).where(clusters.c.cluster == cluster)).first()
    return Head(0, GENESIS) if found is None else Head(found.seq, found.hash)


def chained(cluster: str, head: Head, taken: Sequence[Decision]) -> tuple[list[dict[str, Any]], Head]:
    """The rows that these decisions become behind `head`, and the new head. Raises ValueError for a naive time."""
    rows: list[dict[str, Any]] = []
    for decision in taken:
        body = encode(decision)
        after = Head(head.seq + 1, link(head.hash, cluster, head.seq + 1, body))
        rows.append(
            {
                "cluster": cluster,
                "seq": after.seq,
                "hash": after.hash,
                "prev_hash": head.hash,
                "body": body,
                "at": decision.at.astimezone(UTC),
                **projected(partly(decision, _PROJECTED)),
            }
        )
        head = after
    return rows, head


def projected(data: Plain) -> dict[str, str | None]:
    """The columns beside a body, without the time.

    A function of the body alone, so that `verify` can hold them to it. It may gain columns, and never change one: rows
    that were written years ago are checked by it.
    """
    device = data.get("device")
    machine = data.get("machine") or {}
    return {
        "kind": data["kind"],
        "action": data["action"],
        "case_id": _name(data.get("case")),
        "node": _name(data.get("node")),
        "node_uid": _name(machine.get("node_uid")),
        "device": None if device is None else fit(f"{device['kind']}:{device['name']}"),
        "pool": _name(data.get("pool")),
        "policy": _name(data.get("policy")),
        "verdict": data.get("verdict"),
        "held_by": data.get("held_by"),
        "actor": fit(data["actor"]),
        "reason": fit(data["reason"], SENTENCE),
    }


def read(engine: Engine, cluster: str, *, node: str | None, case: str | None) -> Iterator[TrailRow]:
    """The decisions of a cluster in order, of a node or a case where one is named.

    Each page is a transaction of its own, so an iterator that is left half-way holds no connection. Raises as the port.
    """
    chosen: list[ColumnElement[bool]] = [decisions.c.cluster == cluster]
    if node is not None:
        chosen.append(decisions.c.node == fit(node))
    if case is not None:
        chosen.append(decisions.c.case_id == fit(case))
    # A column is cut where a name is very long: the body has the last word.
    for row in pages(engine, chosen, decisions.c.seq, decisions.c.body, decisions.c.hash):
        decision = decoded(cluster, row.seq, row.body)
        if (node is None or decision.node == node) and (case is None or decision.case == case):
            yield TrailRow(row.seq, decision, row.hash)


def pages(
    engine: Engine, chosen: Sequence[ColumnElement[bool]], *columns: Any, after: int = 0, upto: int | None = None
) -> Iterator[Row[Any]]:
    """Rows of `decisions` by ascending seq, which must be among the columns. Raises as `translated`.

    Bounds of seq are given as `after` and `upto`: with two lower ones SQLite would walk the whole trail between them.
    """
    last = after
    while True:
        page = select(*columns).where(and_(*chosen, decisions.c.seq > last)).order_by(decisions.c.seq).limit(PAGE)
        if upto is not None:
            page = page.where(decisions.c.seq <= upto)
        with reading(engine) as connection:
            revision.require(connection)
            rows = connection.execute(page).all()
        yield from rows
        if len(rows) < PAGE:
            return
        last = rows[-1].seq


def decoded(cluster: str, seq: int, body: str) -> Decision:
    """The decision of a row. Raises SchemaMismatch where this code cannot read it."""
    try:
        return decode(body)
    except ValueError as error:
        raise SchemaMismatch(
            f"decision {seq} of cluster {cluster!r} cannot be read ({error}); run `quarantine audit verify`, and where "
            "the row is sound, upgrade the program"
        ) from error


def _name(text: str | None) -> str | None:
    return None if text is None else fit(text)
