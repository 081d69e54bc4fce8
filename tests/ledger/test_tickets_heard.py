"""The table of tickets follows what is heard of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine, select

from quarantine.core.case import Effect
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.tickets import Filing, TicketState
from quarantine.ledger import schema
from quarantine.ledger.engine import reading
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.store import SqlLedger
from tests.ledger.samples import CLUSTER, NOW, now, outcome, quarantined

HOUR = timedelta(hours=1)
FILED = Filing("T-1", "c-1", "desk", "report", NOW)


def rows(engine: Engine) -> dict[str, Any]:
    with reading(engine) as connection:
        found = connection.execute(select(schema.tickets).where(schema.tickets.c.cluster == CLUSTER)).all()
        return {row.ref: row for row in found}


def heard(filing: Filing, hours: int) -> Decision:
    case = quarantined(1)
    return Decision(
        NOW + hours * HOUR,
        Kind.DECIDED,
        Action.HEAR,
        "it was heard",
        "controller test",
        case="c-1",
        node=case.node,
        machine=case.machine,
        ticket=filing,
        ref=filing.ref,
    )


def test_a_ticket_is_closed_and_opened_by_what_is_heard_and_one_that_turned_up_is_there(engine: Engine) -> None:
    ledger = SqlLedger(engine, CLUSTER, now=now)
    term = ledger.take_term("pod")
    ledger.record(term, [quarantined(1)])
    ledger.record(term, [replace(outcome(Effect.TICKET), ref="T-1", ticket=FILED)])
    assert rows(engine)["T-1"].closed_at is None
    closed = replace(FILED, open=False, state=TicketState.CLOSED, heard_at=NOW + HOUR)
    ledger.record(term, [heard(closed, 1)])
    ledger.record(term, [heard(replace(closed, status="really"), 2)])
    assert rows(engine)["T-1"].closed_at == NOW + HOUR, "since when it is closed"
    more = replace(FILED, ref="T-9", at=NOW + 3 * HOUR)
    ledger.record(term, [heard(replace(closed, open=True), 3), heard(more, 3)])
    told = rows(engine)
    assert (told["T-1"].closed_at, told["T-9"].filed_at, told["T-9"].ask) == (None, NOW + 3 * HOUR, "report")
    assert rebuild(engine, CLUSTER, now=NOW).sound, "the table is what the decisions add up to"
