"""What stood in the way and does not any more: for whoever was told of it, and must hear that it is over."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from quarantine.core.case import HeldBy
from quarantine.ledger.schema import hold_spans
from quarantine.ledger.text import unescape
from quarantine.ports import EndedHold

_KNOWN = frozenset(HeldBy)


def ended(connection: Connection, cluster: str, since: datetime) -> tuple[EndedHold, ...]:
    """Those that ended after `since`, oldest first; what a newer version held is left out."""
    columns = (hold_spans.c.key, hold_spans.c.held_by, hold_spans.c.pool)
    chosen = (
        select(*columns)
        .where(hold_spans.c.cluster == cluster, hold_spans.c.until > since)
        .order_by(hold_spans.c.until, hold_spans.c.seq)
    )
    rows = connection.execute(chosen).all()
    return tuple(
        EndedHold(unescape(row.key), HeldBy(row.held_by), unescape(row.pool)) for row in rows if row.held_by in _KNOWN
    )
