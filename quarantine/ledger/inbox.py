"""What people ask: the only table to which others than the leader append."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Text, cast, select

from quarantine.core.decision import LONGEST_REASON, Request, RequestKind
from quarantine.core.marks import shorten
from quarantine.ledger.codec import decode_as, encode
from quarantine.ledger.schema import requests
from quarantine.ledger.text import SENTENCE, fit, original, stored_as, unescape
from quarantine.ledger.upsert import insert_into

_KNOWN = frozenset(field.name for field in fields(Request))
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


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
    said = (requests.c.id, requests.c.node, requests.c.actor, requests.c.channel, requests.c.body)
    # As text: whoever may insert may insert `infinity`, and no row may keep all others from being read.
    chosen = select(*said, cast(requests.c.at, Text).label("at"))
    chosen = chosen.where(requests.c.cluster == cluster, requests.c.answered_seq.is_(None))
    rows = connection.execute(chosen.order_by(requests.c.at, requests.c.id)).all()
    return tuple(_request(row) for row in rows)


def waiting(connection: Connection, cluster: str) -> frozenset[str]:
    """The ids alone."""
    chosen = select(requests.c.id).where(requests.c.cluster == cluster, requests.c.answered_seq.is_(None))
    return frozenset(original(key) for key in connection.execute(chosen).scalars())


def _request(row: Row[Any]) -> Request:
    """A request that this version cannot read in full (of a newer command line) is one to refuse: what it does not
    know of it may be what narrows it. So is one whose text is another's: it is answered by the id of its row.
    """
    with suppress(ValueError):
        request = decode_as(Request, row.body)
        if row.id in stored_as(request.id) and json.loads(row.body).keys() <= _KNOWN:
            return request
    said = (unescape(row.node), "", unescape(row.actor), unescape(row.channel))
    return Request(original(row.id), RequestKind.UNKNOWN, *said, _time(row.at))


def _time(stored: str) -> datetime:
    """When it was asked; where that is no time, long ago."""
    try:
        found = datetime.fromisoformat(stored)
    except ValueError:
        return _LONG_AGO
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
