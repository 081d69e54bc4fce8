"""Records that once kept a whole cycle's decisions from being recorded, or were believed though rows were missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Connection, delete, insert

from quarantine.core.case import Effect
from quarantine.core.decision import Kind
from quarantine.core.model import Machine
from quarantine.ledger.engine import make_engine, writing
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.schema import TRIGGERS, actions, clusters, decisions
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.text import fit
from quarantine.ledger.trail import Head, chained
from tests.ledger.samples import CLUSTER, NOW, now, outcome, quarantined


def test_two_names_of_which_one_is_the_other_cut_are_one_row(ledger: SqlLedger) -> None:
    long = "g" * 500
    gpus = (long, fit(long), *(f"GPU-{number}" for number in range(30)))
    machine = Machine("uid-1", "provider://1", "system-1", "boot-1", gpus=gpus)
    ledger.record(ledger.take_term("pod"), [replace(quarantined(1), machine=machine)])
    assert ledger.load().state.cases


def test_tables_are_not_made_to_say_what_a_trail_with_rows_missing_says(url: str) -> None:
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod")
        ledger.record(term, [quarantined(1), quarantined(2), quarantined(3)])
        ledger.record(term, [outcome(Effect.MARK, 3, by_us=True)])
        engine = make_engine(url)
        with writing(engine) as connection:
            _unguarded(connection)
            connection.execute(delete(actions).where(actions.c.case_id == "c-2"))
            connection.execute(delete(decisions).where(decisions.c.case_id == "c-2"))
        before = ledger.load().state.cases
        made = rebuild(engine, CLUSTER, now=NOW, write=True)
        engine.dispose()
        assert not made.written
        assert made.unfit == ((2, "is missing: row 3 comes next"),)
        assert ledger.load().state.cases == before


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED])
def test_an_outcome_of_nothing_is_told_and_ends_nothing(url: str, kind: Kind) -> None:
    with open_ledger(url, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod"), [quarantined(1)])
        engine = make_engine(url)
        with writing(engine) as connection:
            first = connection.execute(decisions.select()).one()
            rows, head = chained(CLUSTER, Head(1, first.hash), [replace(outcome(Effect.MARK), kind=kind, effect=None)])
            connection.execute(insert(decisions), rows)
            _advance(connection, head)
        made = rebuild(engine, CLUSTER, now=NOW)
        engine.dispose()
        assert [seq for seq, _ in made.unfit] == [2]
        assert "does not say what it is the outcome of" in made.unfit[0][1]


def _advance(connection: Connection, head: Head) -> None:
    connection.execute(clusters.update().values(seq=head.seq, hash=head.hash))


def _unguarded(connection: Connection) -> None:
    """As an owner of the database could do it."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ALTER TABLE decisions DISABLE TRIGGER USER")
    else:
        for name in TRIGGERS["sqlite"]:
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
