"""One writer: whoever was succeeded writes nothing, and a write is whole or not there at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event, select, update
from sqlalchemy.exc import OperationalError

from quarantine.core.case import Effect
from quarantine.core.errors import LedgerUnavailable, Superseded
from quarantine.ledger.engine import make_engine, reading, writing
from quarantine.ledger.schema import METADATA
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound
from tests.ledger.samples import CLUSTER, NOW, dismissed, ended, held, now, outcome, policy, quarantined, request

WRITES: dict[str, Callable[[SqlLedger, int], object]] = {
    "record": lambda ledger, term: ledger.record(term, [quarantined(2), held("x")], [policy("new", "new")]),
    "record nothing": lambda ledger, term: ledger.record(term, []),
    "attempt": lambda ledger, term: ledger.attempt(term, "c-1/mark", NOW),
    "postpone": lambda ledger, term: ledger.postpone(term, "c-1/mark", "503"),
    "settle": lambda ledger, term: ledger.settle(term, "c-1/mark", outcome(Effect.MARK, by_us=True)),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_writer_that_was_succeeded_leaves_nothing(ledger: SqlLedger, url: str, write: str) -> None:
    first = ledger.take_term("pod-1")
    ledger.record(first, [quarantined(1)])
    with open_ledger(url, CLUSTER, now=now) as other:
        assert other.take_term("pod-2") == first + 1
        before = contents(url)
        with pytest.raises(Superseded, match=r"term 1 .*term 2, held by pod-2"):
            WRITES[write](ledger, first)
        assert contents(url) == before
        WRITES[write](other, first + 1)
        assert contents(url) != before or write == "record nothing"


def test_a_term_that_nobody_took_writes_nothing(ledger: SqlLedger) -> None:
    with pytest.raises(Superseded, match="no such cluster"):
        ledger.record(1, [quarantined(1)])
    ledger.take_term("pod-1")
    with pytest.raises(Superseded):
        ledger.record(2, [quarantined(1)])
    assert list(ledger.decisions()) == []


def test_terms_taken_at_once_are_all_different(url: str) -> None:
    """Also the first, which makes the row."""
    together = threading.Barrier(6)

    def take(number: int) -> int:
        with open_ledger(url, CLUSTER, now=now) as mine:
            together.wait(timeout=30)
            return mine.take_term(f"pod-{number}")

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(take, range(6))) == [1, 2, 3, 4, 5, 6]


def test_two_writers_that_both_think_they_lead_make_one_sound_chain(url: str) -> None:
    """A paused process wakes in the middle of its successor's work: no decision of its own gets in between."""
    together = threading.Barrier(2)
    written: dict[int, list[int]] = {0: [], 1: []}

    def lead(which: int) -> None:
        with open_ledger(url, CLUSTER, now=now) as mine:
            together.wait(timeout=30)
            for round_ in range(8):
                term = mine.take_term(f"pod-{which}")
                number = 100 * which + round_
                try:
                    mine.record(term, [quarantined(number)])
                    mine.settle(term, f"c-{number}/mark", outcome(Effect.MARK, number))
                except Superseded:
                    continue
                written[which].append(number)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lead, range(2)))
    with open_ledger(url, CLUSTER, now=now) as reader:
        rows = list(reader.decisions())
        assert reader.verify() == Sound(len(rows), rows[-1].hash)
        settled = {row.decision.case for row in rows if row.decision.effect is Effect.MARK}
        assert settled == {f"c-{number}" for number in written[0] + written[1]}
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


def test_an_error_at_any_statement_leaves_nothing(url: str) -> None:
    """Wherever a write breaks off, the database is as before, and the same write then succeeds."""
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        ledger.record(term, [quarantined(1), quarantined(2), held("a"), held("b")], [policy()])
        ledger.ask(request(1))
        batch = [quarantined(3), held("c"), held("a", None), dismissed(2), ended(1, request="r-1")]
        before = contents(url)
        failing = _FailingAt(ledger)
        place = 0
        while True:
            failing.arm(place)
            try:
                ledger.record(term, batch, [policy("new", "new")])
            except LedgerUnavailable:
                assert contents(url) == before
                place += 1
            else:
                break
        failing.arm(-1)
        assert place > 8  # it did break off, and at more than the first few
        assert len(list(ledger.decisions())) == 9
        assert ledger.load().requests == ()
        assert isinstance(ledger.verify(), Sound)


class _FailingAt:
    """Makes the n-th statement of a ledger fail as a full disk would."""

    def __init__(self, ledger: SqlLedger) -> None:
        self._left = -1
        event.listen(ledger._engine, "before_cursor_execute", lambda *_: self._count())

    def arm(self, place: int) -> None:
        self._left = place

    def _count(self) -> None:
        if self._left == 0:
            self._left = -1
            raise OperationalError("INSERT", {}, OSError("no space left on device"))
        self._left -= 1


def contents(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table."""
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            return {
                table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key)).all()]
                for table in METADATA.sorted_tables
            }
    finally:
        engine.dispose()


@pytest.mark.parametrize("write", WRITES)
def test_a_term_whose_number_was_handed_out_twice_is_of_its_last_holder(
    ledger: SqlLedger, url: str, write: str
) -> None:
    """A standby that was promoted had not seen the first one taken, and gave the second the same number."""
    ledger.record(ledger.take_term("pod-1/a"), [quarantined(1)])
    ledger.load()
    first = ledger.take_term("pod-1/a")
    engine = make_engine(url)
    with writing(engine) as connection:
        connection.execute(update(METADATA.tables["clusters"]).values(term=first - 1))
    engine.dispose()
    with open_ledger(url, CLUSTER, now=now) as other:
        assert other.take_term("pod-1/b") == first
        before = contents(url)
        with pytest.raises(Superseded, match="held by pod-1/b"):
            WRITES[write](ledger, first)
        with pytest.raises(Superseded, match="held by pod-1/b"):
            ledger.record(first, [held("x")])
        assert contents(url) == before
        WRITES[write](other, first)
        assert contents(url) != before or write == "record nothing"
