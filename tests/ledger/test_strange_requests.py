"""Rows of requests that others than our commands wrote: each is refused once, and none is in the way of the others."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from quarantine.core.decision import Action, Decision, Kind, RequestKind
from quarantine.ledger.engine import writing
from quarantine.ledger.store import SqlLedger
from tests.ledger.samples import CLUSTER, NOW

BODY = (
    '{"actor":"a","at":"2026-11-29T12:00:00.000000Z","channel":"sql","id":"%s","kind":"open","node":"n","reason":"r"}'
)
INSERT = text(
    "INSERT INTO requests (cluster, id, kind, node, reason, actor, channel, at, body) "
    "VALUES (:cluster, :id, 'open', 'n', 'r', 'a', 'sql', :at, :body)"
)


def insert(engine: Engine, key: str, *, at: str = "2026-11-29 12:00:00", body: str = "{}") -> None:
    """As somebody with rights and SQL does it."""
    with writing(engine) as connection:
        connection.execute(INSERT, {"cluster": CLUSTER, "id": key, "at": at, "body": body})


@pytest.mark.parametrize(
    ("key", "body"),
    [
        (r"a\qb", "{}"),
        (r"DOMAIN\user-1", "{}"),
        (r"DOMAIN\user-2", BODY % r"DOMAIN\\user-2"),
        ("long-" + "x" * 500, "{}"),
        ("r-1", BODY % "another"),
        ("r-1", "[" * 100_000),
    ],
)
def test_each_is_answered_once(ledger: SqlLedger, engine: Engine, key: str, body: str) -> None:
    insert(engine, key, body=body)
    (asked,) = ledger.load().requests
    assert {asked.id} == ledger.waiting()
    refused = Decision(NOW, Kind.DECIDED, Action.ANSWER, "not done", "controller", request=asked.id)
    ledger.record(ledger.take_term("pod"), [refused])
    assert ledger.load().requests == ()
    assert ledger.waiting() == frozenset()


def test_a_text_with_another_id_does_not_answer_for_that_one(ledger: SqlLedger, engine: Engine) -> None:
    insert(engine, "r-1", body=BODY % "r-2")
    (asked,) = ledger.load().requests
    assert (asked.id, asked.kind) == ("r-1", RequestKind.UNKNOWN)


@pytest.mark.parametrize("at", ["infinity", "-infinity", "0044-01-01 00:00:00 BC"])
def test_a_time_that_is_none_of_ours_hides_no_other_request(ledger: SqlLedger, engine: Engine, at: str) -> None:
    insert(engine, "r-1", at=at)
    insert(engine, "r-2", body=BODY % "r-2")
    asked = {request.id: request.kind for request in ledger.load().requests}
    assert asked == {"r-1": RequestKind.UNKNOWN, "r-2": RequestKind.OPEN}
