"""What could not be done and is not tried again is told, once, for as long as it matters."""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.case import Effect, HeldBy
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Hold, RequestKind
from quarantine.core.givenup import CLOSE_LATE, TOLD_FOR
from tests.core.treatment.life import ON_PROOF, REPORT, Life, asked, law


def test_a_machine_that_could_not_be_marked_is_told_as_in_service() -> None:
    life = Life(law())
    life.plan()
    life.gave_up(Effect.MARK)
    life.cycle()
    (told,) = (hold for hold in life.state.holds.values() if hold.held_by is HeldBy.GIVEN_UP)
    assert "it is in service although" in told.reason
    assert life.cycles(60) == []
    life.cycle(asked(RequestKind.RELEASE))
    assert not any(hold.held_by is HeldBy.GIVEN_UP for hold in life.state.holds.values())


def test_a_ticket_that_could_not_be_filed_is_told_until_the_machine_is_repaired() -> None:
    life = Life(law(ladder=[REPORT], release=ON_PROOF))
    life.plan()
    life.gave_up(Effect.TICKET)
    life.cycles(3)
    (told,) = (hold for hold in life.state.holds.values() if hold.held_by is HeldBy.GIVEN_UP)
    assert "report it by hand" in told.reason
    life.hot = False
    life.cycle(asked(RequestKind.REPAIRED))
    assert HeldBy.GIVEN_UP not in life.held


def test_what_was_done_is_not_told() -> None:
    life = Life(law(ladder=[REPORT]))
    life.cycles(5)
    assert HeldBy.GIVEN_UP not in life.held


# --- The tickets of a case that has ended -----------------------------------------------------------------------------


def ended() -> Life:
    """A life whose machine is back in service by a person's word; its ticket is to be closed."""
    life = Life(law(ladder=[REPORT]))
    life.cycles(3)
    life.plan(asked(RequestKind.RELEASE))
    assert life.case.is_pending(Effect.CLOSE)
    return life


def holds(life: Life) -> list[Hold]:
    return [hold for key, hold in life.state.holds.items() if key.startswith("given-up/")]


def test_a_ticket_that_could_not_be_closed_is_told_for_a_day() -> None:
    life = ended()
    life.gave_up(Effect.CLOSE)
    life.plan()
    (told,) = holds(life)
    assert told.held_by is HeldBy.GIVEN_UP
    assert "tell the provider of node-3" in told.reason
    life.at += TOLD_FOR - timedelta(minutes=1)
    assert life.plan() == []
    life.at += timedelta(minutes=1)
    assert [d.node for d in life.plan() if d.hold_key == told.key] == ["node-3"]
    assert holds(life) == []


def test_a_ticket_that_is_not_closed_for_an_hour_is_told_until_it_is() -> None:
    life = ended()
    before = life.case
    life.at += CLOSE_LATE - timedelta(minutes=1)
    life.plan()
    assert holds(life) == []
    life.at += timedelta(minutes=1)
    life.plan()
    (told,) = holds(life)
    assert told.held_by is HeldBy.PROVIDER
    assert "it is tried again" in told.reason
    assert life.state.cases[before.id] == before, "a case that has ended does not change"
    life.carry_out()
    life.plan()
    assert holds(life) == []


def test_when_that_is_told_is_announced() -> None:
    life = ended()
    ends = life.case.phase_since
    assert {ends + CLOSE_LATE, ends + TOLD_FOR} <= deadlines(life.state, life.law)
