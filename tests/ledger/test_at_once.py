"""The leader's few decisions as one statement of Postgres: what it writes, and where it writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from quarantine.core.case import Effect
from quarantine.core.decision import State
from quarantine.core.errors import Conflict, LedgerUnavailable, Superseded
from quarantine.core.state import fold
from quarantine.ledger.engine import make_engine
from quarantine.ledger.rebuild import rebuild
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound
from quarantine.ledger.writer import FEW
from tests.ledger.samples import CLUSTER, NOW, dismissed, ended, held, now, outcome, quarantined, request


@pytest.fixture
def leader(postgres: str) -> Iterator[SqlLedger]:
    with open_ledger(postgres, CLUSTER, now=now) as opened:
        yield opened


def statements(ledger: SqlLedger) -> list[str]:
    """What is sent from now on."""
    seen: list[str] = []
    event.listen(ledger._engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    return seen


def sound(postgres: str, ledger: SqlLedger) -> bool:
    """Whether every table says what the decisions add up to, and the chain holds."""
    engine = make_engine(postgres)
    try:
        return rebuild(engine, CLUSTER, now=NOW).sound and isinstance(ledger.verify(), Sound)
    finally:
        engine.dispose()


def test_a_life_is_a_statement_for_each_decision(leader: SqlLedger, postgres: str) -> None:
    term = leader.take_term("pod-1")
    leader.ask(request(1))
    leader.record(term, [quarantined(1)])
    seen = statements(leader)
    leader.record(term, [held("x")])
    assert len(seen) == 2, "the first time, whether the hold stands already is read"
    seen.clear()
    leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1, by_us=True))
    leader.settle(term, "c-1/ticket", outcome(Effect.TICKET, 1, ref="T-1"))
    leader.record(term, [held("x", None)])
    leader.record(term, [ended(1, request="r-1")])
    leader.settle(term, "c-1/unmark", outcome(Effect.UNMARK, 1))
    assert len([one for one in seen if one.startswith("WITH found")]) == 5
    assert len(seen) == 5, "nothing is read of a case that was opened here"
    assert not leader.waiting()
    assert sound(postgres, leader)


def test_nothing_is_written_once_the_term_is_over(leader: SqlLedger, postgres: str) -> None:
    term = leader.take_term("pod-1")
    leader.record(term, [quarantined(1)])
    with open_ledger(postgres, CLUSTER, now=now) as other:
        newer = other.take_term("pod-2")
        with pytest.raises(Superseded):
            leader.record(term, [quarantined(2)])
        with pytest.raises(Superseded):
            leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1))
        other.record(newer, [held("x")])
    assert [row.decision for row in leader.decisions()] == [quarantined(1), held("x")]
    assert sound(postgres, leader)


def test_a_newer_decision_of_another_process_is_behind_what_follows(leader: SqlLedger, postgres: str) -> None:
    """It has the same term: a hand at the same ledger. What is known here is old, and that is noticed."""
    term = leader.take_term("pod-1")
    leader.record(term, [quarantined(1)])
    with open_ledger(postgres, CLUSTER, now=now) as other:
        other.record(term, [ended(1)])
    with pytest.raises(ValueError, match="released"):
        leader.record(term, [replace(quarantined(1), at=NOW + timedelta(minutes=1))])
    leader.record(term, [held("x")])
    assert leader.load().state == fold(State(), [quarantined(1), ended(1), held("x")])
    assert sound(postgres, leader)


def test_an_outcome_of_what_is_not_pending_any_more_is_a_conflict(leader: SqlLedger, postgres: str) -> None:
    term = leader.take_term("pod-1")
    leader.record(term, [quarantined(1)])
    leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1))
    with pytest.raises(Conflict):
        leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1))
    with open_ledger(postgres, CLUSTER, now=now) as other:
        other.settle(term, "c-1/event", outcome(Effect.EVENT, 1))
    with pytest.raises(Conflict):
        leader.settle(term, "c-1/event", outcome(Effect.EVENT, 1))
    assert len(list(leader.decisions())) == 3
    assert sound(postgres, leader)


def test_what_was_committed_without_an_answer_is_not_written_twice(leader: SqlLedger, postgres: str) -> None:
    term = leader.take_term("pod-1")
    leader.record(term, [quarantined(1)])

    def lost(connection: object) -> None:
        connection.connection.dbapi_connection.commit()  # type: ignore[attr-defined]
        raise OperationalError("COMMIT", {}, OSError("connection reset"))

    event.listen(leader._engine, "commit", lost)
    with pytest.raises(LedgerUnavailable):
        leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1))
    event.remove(leader._engine, "commit", lost)
    with pytest.raises(Conflict):
        leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1))
    leader.record(term, [held("x")])
    assert [row.decision for row in leader.decisions()] == [quarantined(1), outcome(Effect.MARK, 1), held("x")]
    assert sound(postgres, leader)


def test_what_replaces_rows_by_their_place_goes_one_statement_after_the_other(leader: SqlLedger, postgres: str) -> None:
    term = leader.take_term("pod-1")
    leader.record(term, [quarantined(1)])
    leader.record(term, [dismissed(1)])
    leader.record(term, [quarantined(2), dismissed(2)])
    assert [one.node for one in leader.load().state.dismissals] == ["node-1", "node-2"]
    assert sound(postgres, leader)


@pytest.mark.parametrize("many", [1, FEW, FEW + 1])
def test_many_or_few_are_the_same_rows(leader: SqlLedger, postgres: str, many: int) -> None:
    term = leader.take_term("pod-1")
    leader.load()
    taken = [quarantined(number) for number in range(many)]
    leader.record(term, taken)
    assert leader.load().state == fold(State(), taken)
    assert sound(postgres, leader)


def test_a_load_between_two_decisions_keeps_what_was_read(leader: SqlLedger) -> None:
    term = leader.take_term("pod-1")
    leader.record(term, [quarantined(1)])
    leader.load()
    seen = statements(leader)
    leader.settle(term, "c-1/mark", outcome(Effect.MARK, 1))
    assert len(seen) == 1


def test_rows_that_are_alike_in_other_columns_are_no_other_statement(leader: SqlLedger) -> None:
    """In months a controller would make and keep ever more of them, each some kilobytes, and Postgres as well."""
    term = leader.take_term("pod-1")
    seen = statements(leader)
    two = [[quarantined(2 * n), quarantined(2 * n + 1)] for n in range(1, 5)]
    two[1] = [replace(one, node="node-7") for one in two[1]]
    two[2] = [replace(one, reason="a" * (n + 1), pool="b" * n) for n, one in enumerate(two[2])]
    two[3] = [replace(one, at=NOW + n * timedelta(seconds=1)) for n, one in enumerate(two[3])]
    for both in two:
        leader.record(term, both)
    assert len({one for one in seen if one.startswith("WITH found")}) == 1
