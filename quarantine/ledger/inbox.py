"""What people ask: the only table to which others than the leader append."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, Row, select

from quarantine.core.decision import LONGEST_REASON, Request, RequestKind
from quarantine.core.marks import shorten
from quarantine.ledger.codec import decode_as, encode
from quarantine.ledger.schema import requests
from quarantine.ledger.text import SENTENCE, fit, unescape
from quarantine.ledger.upsert import insert_into

_KNOWN = frozenset(field.name for field in fields(Request))


def ask(connection: Connection, cluster: str, request: Request) -> None:
    """Append a request; one whose id is there already, answered or not, stays as it is. A long reason is cut."""
    request = replace(request, reason=shorten(request.reason, LONGEST_REASON))
    row = {
        "cluster": cluster,
        "id": fit(request.id),
        "kind": request.kind.value,
        "node": fit(request.node),
        "reason": fit(request.reason, SENTENCE),
        "actor": fit(request.actor),
        "channel": fit(request.channel),
        "at": request.at,
        "body": encode(request),
    }
    connection.execute(insert_into(connection, requests).values(row).on_conflict_do_nothing())


def unanswered(connection: Connection, cluster: str) -> tuple[Request, ...]:
    """Oldest first."""
    chosen = select(requests).where(requests.c.cluster == cluster, requests.c.answered_seq.is_(None))
    rows = connection.execute(chosen.order_by(requests.c.at, requests.c.id)).all()
    return tuple(_request(row) for row in rows)


def waiting(connection: Connection, cluster: str) -> frozenset[str]:
    """The ids alone."""
    chosen = select(requests.c.id).where(requests.c.cluster == cluster, requests.c.answered_seq.is_(None))
    return frozenset(unescape(key) for key in connection.execute(chosen).scalars())


def _request(row: Row[Any]) -> Request:
    """A request that this version cannot read in full (of a newer command line) is one to refuse: what it does not
    know of it may be what narrows it.
    """
    with suppress(ValueError):
        request = decode_as(Request, row.body)
        if json.loads(row.body).keys() <= _KNOWN:
            return request
    kind = RequestKind.UNKNOWN
    return Request(unescape(row.id), kind, unescape(row.node), "", unescape(row.actor), unescape(row.channel), row.at)
