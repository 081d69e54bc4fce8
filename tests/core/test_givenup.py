"""What could not be done and is not tried again is told, once, for as long as it matters."""

from __future__ import annotations

from quarantine.core.case import Effect, HeldBy
from quarantine.core.decision import RequestKind
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
