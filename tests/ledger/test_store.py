"""What the ledger keeps is what was decided: decisions, state, outbox, requests and policy texts, on both dialects."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import OperationalError

from quarantine.core.case import Effect, HeldBy, Phase
from quarantine.core.decision import LONGEST_REASON, Request, RequestKind, State
from quarantine.core.errors import LedgerUnavailable, UsageError
from quarantine.core.marks import shorten
from quarantine.core.state import fold
from quarantine.ledger import trail
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.schema import decisions, policy_versions
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.ledger.verify import Sound
from quarantine.ports import Ledger, LedgerReader
from tests.ledger.samples import (
    CLUSTER,
    NOW,
    SECOND,
    dismissed,
    ended,
    evidence,
    held,
    now,
    outcome,
    policy,
    quarantined,
    request,
)

GARBAGE = "a\x00b\ud800c\udfff💥\\ \u2028'\"" + "x" * 5000


def test_it_is_the_port(ledger: SqlLedger) -> None:
    port: Ledger = ledger
    reader: LedgerReader = ledger
    assert port.load() == reader.load()


def test_a_new_ledger_is_empty(ledger: SqlLedger) -> None:
    view = ledger.load()
    assert view.state == State()
    assert view.pending == ()
    assert view.requests == ()
    assert list(ledger.decisions()) == []


def test_decisions_come_back_as_they_were_and_in_order(ledger: SqlLedger) -> None:
    taken = [quarantined(1), held("breaker:gpu-hot"), quarantined(2), outcome(Effect.MARK, 1, by_us=True)]
    term = ledger.take_term("pod-1")
    ledger.record(term, taken[:3])
    ledger.record(term, taken[3:])
    rows = list(ledger.decisions())
    assert [row.decision for row in rows] == taken
    assert [row.decision.device and row.decision.device.index for row in rows] == ["1", None, "2", None]
    assert [row.seq for row in rows] == [1, 2, 3, 4]
    assert len({row.hash for row in rows}) == 4
    assert ledger.verify() == Sound(4, rows[-1].hash)


def test_the_state_is_the_fold_of_the_decisions(ledger: SqlLedger, url: str) -> None:
    taken = [
        quarantined(1),
        quarantined(2),
        held("budget:gpu"),
        held("breaker:gpu-hot", HeldBy.BREAKER),
        outcome(Effect.MARK, 1, by_us=True),
        outcome(Effect.TICKET, 1, ref="R-1"),
        held("budget:gpu", None),
        dismissed(2),
    ]
    ledger.record(ledger.take_term("pod-1"), taken)
    expected = fold(State(), taken)
    assert ledger.load().state == expected
    assert expected.dismissals != ()
    assert set(expected.holds) == {"breaker:gpu-hot"}
    assert expected.cases["c-1"].cordoned_by_us is True
    with open_ledger(url, CLUSTER, now=now) as restarted:
        assert restarted.load().state == expected


def test_a_restart_grants_no_pace(url: str) -> None:
    """Invariant 5: what was taken out within the last day counts, whoever asks, and nothing older does."""
    old = quarantined(1, at=NOW - timedelta(hours=25))
    recent = quarantined(2, at=NOW - timedelta(hours=23))
    with open_ledger(url, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [old, recent])
    with open_ledger(url, CLUSTER, now=now) as restarted:
        assert restarted.load().state.quarantined_at == ((recent.at, "gpu"),)


def test_policy_texts_are_kept_once(ledger: SqlLedger, url: str) -> None:
    term = ledger.take_term("pod-1")
    hot, other = policy(), policy("other", "kind: Policy # \\d+\n", None)
    ledger.record(term, [quarantined(1)], [hot])
    ledger.record(term, [quarantined(2)], [hot, other])
    ledger.record(term, [], [hot, other, hot])
    columns = (policy_versions.c.name, policy_versions.c.text, policy_versions.c.revision, policy_versions.c.first_seen)
    assert sorted(_table(url, select(*columns))) == [
        ("gpu-hot", "kind: Policy\n", "1234567", NOW),
        ("other", "kind: Policy # \\d+\n", None, NOW),
    ]


def test_two_clusters_share_a_database_and_nothing_else(url: str) -> None:
    with open_ledger(url, "a", now=now) as one, open_ledger(url, "b", now=now) as two:
        term_one, term_two = one.take_term("pod-1"), two.take_term("pod-2")
        one.record(term_one, [quarantined(1)], [policy()])
        two.record(term_two, [quarantined(1), held("x")], [policy()])
        two.ask(request(1))
        one.ask(request(1))
        assert len(list(one.decisions())) == 1
        assert len(list(two.decisions())) == 2
        two.settle(term_two, "c-1/mark", outcome(Effect.MARK))
        assert len(one.load().pending) == 4
        assert one.load().state.holds == {}
        two.record(term_two, [ended(1, request="r-1")])
        assert one.load().requests == (request(1),)
        assert one.load().state.cases["c-1"].open
        assert isinstance(one.verify(), Sound)
        assert isinstance(two.verify(), Sound)
        assert next(one.decisions()).hash != next(two.decisions()).hash


def test_garbage_text_blocks_nothing_and_comes_back(ledger: SqlLedger) -> None:
    """One garbage label must not block the ledger: NUL, lone surrogates, and megabytes."""
    asked = Request(GARBAGE, RequestKind.OPEN, GARBAGE, GARBAGE, GARBAGE, GARBAGE, NOW)
    ledger.ask(asked)
    assert ledger.load().requests == (replace(asked, reason=shorten(GARBAGE, LONGEST_REASON)),)
    odd = replace(
        quarantined(1),
        node=GARBAGE,
        reason=GARBAGE * 200,
        actor=GARBAGE,
        policy=GARBAGE,
        hold_key=GARBAGE,
        pool="\x00\ud800\\",
        request=GARBAGE,
        evidence=replace(evidence(math.inf), labels={GARBAGE: GARBAGE}),
    )
    odd_hold = replace(held(GARBAGE), node=GARBAGE)
    term = ledger.take_term(GARBAGE)
    ledger.record(term, [odd, odd_hold], [policy(GARBAGE, GARBAGE, GARBAGE)])
    ledger.attempt(term, "c-1/mark", NOW)
    ledger.postpone(term, "c-1/mark", "\x00\ud800 went wrong")
    view = ledger.load()
    assert [row.decision for row in ledger.decisions()] == [odd, odd_hold]
    assert [row.decision for row in ledger.decisions(node=GARBAGE)] == [odd, odd_hold]
    assert view.requests == ()
    assert view.state.cases == fold(State(), [odd, odd_hold]).cases
    assert view.state.holds == fold(State(), [odd, odd_hold]).holds
    assert view.state.quarantined_at == ((NOW, "\x00\ud800\\"),)
    assert view.pending[0].last_error == "\x00\ud800 went wrong"
    assert isinstance(ledger.verify(), Sound)


def test_long_names_that_begin_alike_stay_apart(ledger: SqlLedger) -> None:
    names = ["n" * 5000 + "a", "n" * 5000 + "b"]
    decided = [replace(held(f"k{name}"), node=name) for name in names]
    ledger.record(ledger.take_term("pod-1"), decided)
    assert [row.decision for row in ledger.decisions(node=names[1])] == decided[1:]
    assert set(ledger.load().state.holds) == {f"k{name}" for name in names}


def test_no_value_and_no_number_are_kept_apart(ledger: SqlLedger) -> None:
    values = [None, math.nan, -math.inf, -0.0, 1e308]
    taken = [replace(quarantined(n), evidence=evidence(value)) for n, value in enumerate(values)]
    ledger.record(ledger.take_term("pod-1"), taken)
    read = [row.decision.evidence.value for row in ledger.decisions() if row.decision.evidence is not None]
    assert [repr(value) for value in read] == ["None", "nan", "-inf", "-0.0", "1e+308"]


def test_the_trail_is_read_in_pages_and_by_node_and_case(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "PAGE", 3)
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(n) for n in range(10)])
    ledger.record(term, [outcome(Effect.MARK, 4), outcome(Effect.MARK, 5)])
    assert [row.seq for row in ledger.decisions()] == list(range(1, 13))
    assert [row.seq for row in ledger.decisions(node="node-4")] == [5, 11]
    assert [row.seq for row in ledger.decisions(case="c-5")] == [6, 12]
    assert list(ledger.decisions(node="node-4", case="c-5")) == []
    assert isinstance(ledger.verify(), Sound)


def test_a_reader_that_stops_half_way_holds_nothing(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "PAGE", 2)
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(n) for n in range(5)])
    rows = ledger.decisions()
    assert next(rows).seq == 1
    ledger.record(term, [quarantined(9)])
    assert [row.seq for row in rows] == [2, 3, 4, 5, 6]


def test_a_decision_that_cannot_be_folded_is_not_recorded(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    with pytest.raises(ValueError, match="never opened"):
        ledger.record(term, [quarantined(1), outcome(Effect.MARK, 7)])
    with pytest.raises(ValueError, match="time zone"):
        ledger.record(term, [replace(held("x"), at=NOW.replace(tzinfo=None))])
    with pytest.raises(ValueError, match="time zone"):
        ledger.attempt(term, "c-1/mark", NOW.replace(tzinfo=None))
    assert ledger.load().state == State()
    assert list(ledger.decisions()) == []


def test_what_a_leader_remembers_is_not_used_after_another_has_written(ledger: SqlLedger, url: str) -> None:
    taken = [quarantined(1), held("a"), outcome(Effect.MARK, by_us=True), held("a", None), ended(1), held("b")]
    ledger.record(ledger.take_term("pod-1"), taken[:2])
    with open_ledger(url, CLUSTER, now=now) as other:
        other.record(other.take_term("pod-2"), taken[2:4])
        ledger.record(ledger.take_term("pod-1"), taken[4:5])
        other.record(other.take_term("pod-2"), taken[5:])
        assert ledger.load() == other.load()
    assert ledger.load().state == fold(State(), taken)
    assert [e.key for e in ledger.load().pending] == ["c-1/unmark"]


def test_what_failed_is_not_remembered(ledger: SqlLedger) -> None:
    """The commit of a write breaks: the leader must not go on from a state that was never stored."""
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])

    def broken(_: object) -> None:
        raise OperationalError("COMMIT", {}, OSError("connection reset"))

    event.listen(ledger._engine, "commit", broken)
    with pytest.raises(LedgerUnavailable):
        ledger.record(term, [ended(1)])
    event.remove(ledger._engine, "commit", broken)
    ledger.record(term, [held("x")])
    assert ledger.load().state == fold(State(), [quarantined(1), held("x")])
    assert len(ledger.load().pending) == 4


def test_a_batch_costs_a_fixed_number_of_statements(ledger: SqlLedger) -> None:
    """Speed by construction: 750 decisions are as many statements as 10."""
    term = ledger.take_term("pod-1")
    seen: list[str] = []
    event.listen(ledger._engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    counts = []
    for first, size in ((1000, 10), (2000, 750)):
        ledger.load()
        seen.clear()
        ledger.record(term, [quarantined(n) for n in range(first, first + size)])
        counts.append(len(seen))
    assert counts[1] <= counts[0] < 25, "the first one reads the state as well"
    assert len(ledger.load().pending) == 760 * 4


@pytest.mark.parametrize("name", ["", "x" * 254, "a\x00b", "a\ud800"])
def test_a_cluster_name_is_plain_text(sqlite: str, name: str) -> None:
    with pytest.raises(UsageError, match="cluster name"):
        open_ledger(sqlite, name, now=now)


def test_columns_say_what_the_record_says(ledger: SqlLedger, url: str) -> None:
    ledger.record(ledger.take_term("pod-1"), [quarantined(1)])
    expected = {
        "at": NOW,
        "kind": "decided",
        "action": "quarantine",
        "case_id": "c-1",
        "node": "node-1",
        "node_uid": "uid-1",
        "device": "gpu:GPU-00000001",
        "pool": "gpu",
        "policy": "gpu-hot",
        "verdict": "bad",
        "held_by": None,
        "actor": "controller 0.1.0",
    }
    rows = _table(url, select(*(decisions.c[name] for name in expected)))
    assert rows == [tuple(expected.values())]


def test_phases_move_in_the_table_too(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])
    ledger.record(term, [ended(1)])
    case = ledger.load().state.cases["c-1"]
    assert (case.phase, case.phase_since) == (Phase.RELEASED, NOW + 2 * SECOND)


def _table(url: str, statement: object) -> list[tuple[object, ...]]:
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            return [tuple(row) for row in connection.execute(statement).all()]  # type: ignore[call-overload]
    finally:
        engine.dispose()
