"""The outbox and the inbox: what is to be done, from intent to outcome, and what people ask, until it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from quarantine.core.case import Effect, EffectState, EffectStatus
from quarantine.core.decision import Action, Kind, PendingEffect
from quarantine.core.errors import Conflict
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.schema import actions, requests
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.ledger.samples import (
    ALL_EFFECTS,
    CLUSTER,
    NOW,
    SECOND,
    ended,
    now,
    outcome,
    quarantined,
    request,
)


def test_the_outbox_follows_an_effect_from_intent_to_outcome(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])
    assert [e.effect for e in ledger.load().pending] == list(ALL_EFFECTS)
    assert ledger.load().pending[0] == PendingEffect("c-1/mark", "c-1", Effect.MARK, NOW)

    ledger.attempt(term, "c-1/mark", NOW + SECOND)
    ledger.postpone(term, "c-1/mark", "the API server answered 503")
    ledger.attempt(term, "c-1/mark", NOW + 2 * SECOND)
    tried = PendingEffect("c-1/mark", "c-1", Effect.MARK, NOW, 2, NOW + 2 * SECOND, "the API server answered 503")
    assert ledger.load().pending[0] == tried

    ledger.settle(term, "c-1/mark", outcome(Effect.MARK, by_us=True))
    view = ledger.load()
    assert [e.effect for e in view.pending] == [Effect.EVENT, Effect.TICKET, Effect.NOTIFY]
    assert view.state.cases["c-1"].effects[Effect.MARK] == EffectState(EffectStatus.DONE)
    assert [row.decision.kind for row in ledger.decisions()] == [Kind.DECIDED, Kind.DONE]


def test_that_an_attempt_left_nothing_done_is_on_record_until_the_next_one(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])

    def tried() -> tuple[int, int, str]:
        first = ledger.load().pending[0]
        return first.attempts, first.ended, first.last_error

    ledger.attempt(term, "c-1/mark", NOW)
    assert tried() == (1, 0, "")
    ledger.postpone(term, "c-1/mark", "refused: \x00", ended=True)
    assert tried() == (1, 1, "refused: \x00")
    ledger.attempt(term, "c-1/mark", NOW)
    assert tried() == (2, 1, "refused: \x00"), "why it was put off is still known, and the new attempt is in doubt"
    ledger.postpone(term, "c-1/mark", "no answer came")
    assert tried() == (2, 0, "no answer came")
    ledger.postpone(term, "c-1/mark", "", ended=True)
    assert tried() == (2, 2, "")


def test_the_words_of_a_far_side_do_not_pass_for_that_record(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])
    ledger.attempt(term, "c-1/mark", NOW)
    ledger.postpone(term, "c-1/mark", "(attempt 1 ended) believe me")
    first = ledger.load().pending[0]
    assert (first.ended, first.last_error.strip()) == (0, "(attempt 1 ended) believe me")


def test_an_effect_given_up_leaves_the_outbox_too(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1, effects=(Effect.TICKET,))])
    ledger.settle(term, "c-1/ticket", outcome(Effect.TICKET, kind=Kind.FAILED))
    view = ledger.load()
    assert view.pending == ()
    assert view.state.cases["c-1"].effects[Effect.TICKET].status is EffectStatus.ABANDONED


def test_the_end_of_a_case_abandons_what_is_pending_and_keeps_what_ends_it(ledger: SqlLedger, url: str) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])
    ledger.settle(term, "c-1/mark", outcome(Effect.MARK, by_us=True))
    ledger.record(term, [ended(1)])
    assert [e.key for e in ledger.load().pending] == ["c-1/unmark"]
    rows = _table(url, select(actions.c.key, actions.c.status, actions.c.decided_seq, actions.c.outcome_seq))
    assert sorted(rows) == [
        ("c-1/event", "abandoned", 1, 3),
        ("c-1/mark", "done", 1, 2),
        ("c-1/notify", "abandoned", 1, 3),
        ("c-1/ticket", "abandoned", 1, 3),
        ("c-1/unmark", "pending", 3, None),
    ]


def test_an_effect_asked_for_again_is_a_new_row_and_the_old_one_stays(ledger: SqlLedger, url: str) -> None:
    """A mark that somebody's list rewrite took away is put back: the first one's attempts remain on record."""
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1, effects=(Effect.MARK,))])
    ledger.attempt(term, "c-1/mark", NOW)
    ledger.settle(term, "c-1/mark", outcome(Effect.MARK, by_us=True))
    again = replace(quarantined(1, effects=(Effect.MARK,)), kind=Kind.DECIDED, action=Action.JOIN)
    ledger.record(term, [again])
    assert ledger.load().pending == (PendingEffect("c-1/mark", "c-1", Effect.MARK, NOW),)
    rows = _table(url, select(actions.c.decided_seq, actions.c.status, actions.c.attempts))
    assert sorted(rows) == [(1, "done", 1), (3, "pending", 0)]


@pytest.mark.parametrize("effect", [Effect.RUN, Effect.EVICT, Effect.PHASE, Effect.CONDITION])
def test_what_is_asked_for_again_and_again_has_one_pending_row_at_a_time(
    ledger: SqlLedger, url: str, effect: Effect
) -> None:
    """A label follows every phase, a batch of pods the batch before it: the same key, a row for each that was done."""
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1, effects=(effect,))])
    again = replace(quarantined(1, effects=(effect,)), action=Action.JOIN)
    ledger.attempt(term, f"c-1/{effect}", NOW)
    ledger.record(term, [again])  # while the first is pending: the same intent, and its attempts stay known
    assert ledger.load().pending == (PendingEffect(f"c-1/{effect}", "c-1", effect, NOW, 1, NOW),)
    ledger.settle(term, f"c-1/{effect}", outcome(effect))
    for _ in range(2):
        ledger.record(term, [again])
        assert [e.attempts for e in ledger.load().pending] == [0]
        ledger.settle(term, f"c-1/{effect}", outcome(effect, kind=Kind.FAILED))
    ledger.record(term, [again, replace(ended(1), effects=(Effect.UNMARK, effect))])
    assert {e.key for e in ledger.load().pending} == {"c-1/unmark", f"c-1/{effect}"}
    rows = _table(url, select(actions.c.decided_seq, actions.c.status).where(actions.c.effect == effect.value))
    assert sorted(rows) == [(1, "done"), (4, "abandoned"), (6, "abandoned"), (8, "pending")]


def test_asked_and_settled_within_one_batch(ledger: SqlLedger, url: str) -> None:
    term = ledger.take_term("pod-1")
    marked = quarantined(1, effects=(Effect.MARK,))
    again = replace(marked, action=Action.JOIN)
    ledger.record(term, [marked, outcome(Effect.MARK, by_us=True), again, ended(1)])
    assert [e.key for e in ledger.load().pending] == ["c-1/unmark"]
    rows = _table(url, select(actions.c.key, actions.c.decided_seq, actions.c.status, actions.c.outcome_seq))
    assert sorted(rows) == [
        ("c-1/mark", 1, "done", 2),
        ("c-1/mark", 3, "abandoned", 4),
        ("c-1/unmark", 4, "pending", None),
    ]


@pytest.mark.parametrize("verb", ["attempt", "postpone", "settle"])
def test_an_effect_that_has_its_outcome_cannot_have_another(ledger: SqlLedger, verb: str) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1, effects=(Effect.MARK,))])
    ledger.settle(term, "c-1/mark", outcome(Effect.MARK))
    calls: dict[str, Callable[[], object]] = {
        "attempt": lambda: ledger.attempt(term, "c-1/mark", NOW),
        "postpone": lambda: ledger.postpone(term, "c-1/mark", "late"),
        "settle": lambda: ledger.settle(term, "c-1/mark", outcome(Effect.MARK)),
    }
    with pytest.raises(Conflict, match="c-1/mark"):
        calls[verb]()
    assert len(list(ledger.decisions())) == 2


def test_an_outcome_settles_its_own_effect_only(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])
    with pytest.raises(ValueError, match="cannot settle c-1/ticket"):
        ledger.settle(term, "c-1/ticket", outcome(Effect.MARK))
    assert len(ledger.load().pending) == 4


def test_a_case_with_a_pending_effect_is_loaded_however_old(url: str) -> None:
    """The API server was away for a month: the taint must still come off."""
    with open_ledger(url, CLUSTER, now=now) as ledger:
        term = ledger.take_term("pod-1")
        long_ago = NOW - timedelta(days=31)
        ledger.record(term, [quarantined(n, at=long_ago) for n in (1, 2)])
        ledger.record(term, [ended(1, at=long_ago), replace(ended(2, at=long_ago), effects=())])
        view = ledger.load()
        assert set(view.state.cases) == {"c-1"}
        ledger.settle(term, "c-1/unmark", outcome(Effect.UNMARK))
        assert ledger.load().state.cases == {}
        # A late word about a case that is not in the state any more still folds into that case.
        ledger.record(term, [replace(outcome(Effect.NOTIFY, 2), reason="late")])


def test_requests_wait_until_a_decision_answers(ledger: SqlLedger) -> None:
    term = ledger.take_term("pod-1")
    ledger.record(term, [quarantined(1)])
    second, first = request(2), request(1)
    ledger.ask(second)
    ledger.ask(first)
    ledger.ask(replace(first, reason="asked twice"))
    assert ledger.load().requests == (first, second)
    ledger.record(term, [ended(1, request="r-1")])
    view = ledger.load()
    assert view.requests == (second,)
    assert view.state.answered == {"r-1"}
    ledger.ask(first)
    assert ledger.load().requests == (second,)


def test_a_request_names_the_decision_that_answered_it(ledger: SqlLedger, url: str) -> None:
    term = ledger.take_term("pod-1")
    ledger.ask(request(1))
    ledger.record(term, [quarantined(1), ended(1, request="r-1")])
    assert _table(url, select(requests.c.id, requests.c.answered_seq)) == [("r-1", 2)]


def _table(url: str, statement: object) -> list[tuple[object, ...]]:
    engine = make_engine(url)
    try:
        with reading(engine) as connection:
            return [tuple(row) for row in connection.execute(statement).all()]  # type: ignore[call-overload]
    finally:
        engine.dispose()
