"""A far side that flaps, clones, counts or refuses: nothing untrue is said, nothing too often, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import Effect, HeldBy
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.filings import unsaid
from quarantine.core.model import Mode
from quarantine.core.state import evolve
from quarantine.core.tickets import Heard, Ticket, TicketState
from tests.core.treatment.test_followup import agreed, filed


def test_what_the_provider_made_of_a_ticket_is_followed_and_left_alone() -> None:
    """A clone carries the label too, and somebody works on it."""
    life = filed()
    said = life.tickets["desk", "T-1"]
    assert isinstance(said, Heard)
    clone = Ticket("T-9", life.case.id, "in progress", state=TicketState.IN_PROGRESS)
    life.tickets["desk", "T-1"] = replace(said, others=(clone,))
    life.cycles(3)
    assert life.case.remarks == ()
    assert [filing.ref for filing in life.case.filings] == ["T-1", "T-9"]


def test_a_far_side_that_flaps_or_counts_fills_no_trail() -> None:
    life = filed()
    before = len(life.trail)
    for number in range(120):
        up = number % 2 == 0
        life.says("T-1", open=up, state=TicketState.FILED if up else TicketState.CLOSED, status=f"place {number}" * 99)
        life.cycle()
    assert len(life.trail) - before < 40, "two hours"
    assert len(life.case.filings[0].status) <= 80


def test_a_fault_that_comes_and_goes_is_told_once() -> None:
    life = filed()
    for number in range(40):
        life.hot, life.cool = number % 2 == 1, number % 2 == 0
        life.cycle()
    assert life.case.remarks == ()


def test_a_reminder_that_has_become_untrue_is_not_said() -> None:
    life = filed(agreed(acknowledge="4h"))
    life.at += timedelta(hours=5)
    life.plan()
    assert life.case.is_pending(Effect.COMMENT)
    life.says("T-1", state=TicketState.ACKNOWLEDGED)
    life.plan()
    assert unsaid(life.case) == ()
    assert not life.case.is_pending(Effect.COMMENT)


def test_while_the_installation_observes_nothing_is_said_and_all_of_it_once_it_enforces() -> None:
    """A reminder that is due, and a ticket that was filed twice; people are told all the same."""
    life = filed(agreed(acknowledge="4h"))
    said = life.tickets["desk", "T-1"]
    assert isinstance(said, Heard)
    life.tickets["desk", "T-1"] = replace(said, others=(Ticket("T-9", life.case.id, "open"),))
    life.mode = Mode.OBSERVE
    made = life.wait(timedelta(hours=5)) + life.cycles(2)
    assert [decision.action for decision in made if decision.effects] == []
    assert HeldBy.PROVIDER in life.held
    life.mode = Mode.ENFORCE
    life.cycles(3)
    assert sorted(remark.key.split("-")[0] for remark in life.case.remarks) == ["duplicate", "remind"]
    assert all(remark.said for remark in life.case.remarks)


def test_several_remarks_are_said_one_at_a_time_and_what_cannot_be_said_is_told_people() -> None:
    life = filed(agreed(acknowledge="4h", replace="5h"))
    life.at += timedelta(hours=6)
    life.cycle()
    assert [bool(remark.said) for remark in life.case.remarks] == [True, False]
    life.plan()
    assert life.case.is_pending(Effect.COMMENT)
    (left,) = unsaid(life.case)
    given_up = replace(left, said=True, given_up=True)
    refused = Decision(life.at, Kind.FAILED, Action.COMMENT, "no", "t", case=life.case.id, effect=Effect.COMMENT)
    life.state = evolve(life.state, replace(refused, remark=given_up))
    life.cycle()
    assert any(key.split("/")[-1].startswith("untold-") for key in life.state.holds)
