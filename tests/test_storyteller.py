"""What is still to be told after a mark: nothing twice, nothing left out, and what a restored trail has anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.state import fold
from quarantine.core.storyline import line
from quarantine.core.tickets import Filing, TicketState
from quarantine.pacing import Pace, Tries
from quarantine.ports import TrailRow
from quarantine.storyteller import MOST_LINES, Read, after, mark
from tests.ledger.samples import NOW, quarantined

FIRST = quarantined(1)
CASE = fold(State(), [FIRST]).cases["c-1"]


def rows(count: int, *, salt: str = "a", start: int = 1) -> list[TrailRow]:
    made = [
        replace(FIRST, action=Action.DRAIN, reason=f"{salt}{n}", at=NOW + timedelta(seconds=n)) for n in range(count)
    ]
    return [TrailRow(start + n, d, f"{salt}{start + n:063x}") for n, d in enumerate(made)]


def test_after_a_mark_comes_what_is_younger() -> None:
    trail = rows(5)
    assert after(trail, "") == trail
    assert after(trail, mark(trail[1])) == trail[2:]
    assert after(trail, mark(trail[-1])) == []


def test_a_row_of_the_same_number_in_a_restored_trail_is_another_one() -> None:
    told, restored = rows(5), [*rows(3), *rows(4, salt="b", start=4)]
    restored[3:] = [replace(r, decision=replace(r.decision, at=NOW + timedelta(minutes=1))) for r in restored[3:]]
    assert after(restored, mark(told[-1])) == restored[3:], "it was decided after what was told"


@given(st.one_of(st.text(max_size=40), st.from_regex(r"\d{1,3}\|[0-9a-f]{0,12}\|[0-9T:+-]{0,30}", fullmatch=True)))
def test_a_mark_that_somebody_else_wrote_never_raises(told: str) -> None:
    trail = rows(3)
    assert all(row in trail for row in after(trail, told))


@given(st.lists(st.integers(0, 3), max_size=30))
def test_told_piece_by_piece_it_is_all_told_and_nothing_twice(pieces: list[int]) -> None:
    trail = rows(sum(pieces))
    told: dict[str, str] = {}
    heard: list[str] = []
    there = 0
    for more in pieces:
        there += more
        reply = Read({"c-1": trail[:there]}).untold((CASE,), told, shared=False)
        assert (reply is None) == (more == 0)
        if reply is not None:
            told.update(reply.told)
            heard += [text.rpartition(" ")[2] for text in reply.lines]
            assert reply.left_out == 0
    assert heard == [row.decision.reason for row in trail]


def test_of_many_lines_the_newest_are_told_and_the_rest_is_counted() -> None:
    trail = rows(MOST_LINES + 7)
    reply = Read({"c-1": trail}).untold((CASE,), {}, shared=False)
    assert reply is not None
    assert (len(reply.lines), reply.left_out) == (MOST_LINES, 7)
    assert reply.lines[-1].endswith(trail[-1].decision.reason)
    assert Read({"c-1": trail}).untold((CASE,), reply.told, shared=False) is None


# --- Which decisions are told -----------------------------------------------------------------------------------------


def decided(action: Action, **fields: object) -> Decision:
    made = Decision(NOW, Kind.DECIDED, action, "alice and gpu-hot say why", "alice", node="node-1", case="c-1")
    return replace(made, **fields)  # type: ignore[arg-type]


def test_every_hold_and_everything_given_up_is_told() -> None:
    for action in Action:
        assert line(decided(action, kind=Kind.HELD)).startswith("held: ")
        assert line(decided(action, kind=Kind.FAILED)).startswith("given up: ")


@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("kind", list(Kind))
def test_others_are_told_no_reason_of_anything(action: Action, kind: Kind) -> None:
    for phase in (None, *Phase):
        text = line(decided(action, kind=kind, phase=phase, effect=Effect.TICKET, ref="R-1"), shared=True)
        assert "alice" not in text
        assert "gpu-hot" not in text


@pytest.mark.parametrize("state", list(TicketState))
def test_others_are_told_how_far_a_ticket_has_come(state: TicketState) -> None:
    heard = decided(Action.HEAR, ticket=Filing("R-1", "c-1", "desk", "report", NOW, state))
    assert line(heard, shared=True).startswith("ticket R-1 ")


# --- Pace -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), max_size=60))
def test_never_more_than_the_pace_allows(steps: list[int]) -> None:
    pace, now, done = Pace(5, timedelta(minutes=1)), NOW, []
    for step in steps:
        now += timedelta(seconds=step)
        if pace.free(now):
            pace.spend(now)
            done.append(now)
    for at in done:
        assert sum(1 for other in done if at <= other < at + timedelta(minutes=1)) <= 5


def test_a_clock_that_was_set_back_stops_nothing() -> None:
    pace = Pace(1, timedelta(minutes=1))
    pace.spend(NOW)
    assert not pace.free(NOW)
    assert pace.free(NOW - timedelta(hours=1))


def test_who_asks_to_wait_is_waited_for_and_success_forgets() -> None:
    tries = Tries()
    tries.failed(NOW, at_least=timedelta(minutes=3))
    assert not tries.due(NOW + timedelta(minutes=2))
    assert tries.due(NOW + timedelta(minutes=3))
    for _ in range(50):
        tries.failed(NOW, timedelta(minutes=5))
    assert tries.due(NOW + timedelta(minutes=5))
    tries.done()
    assert tries.due(NOW)
