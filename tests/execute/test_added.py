"""What is added to tickets, and their closing: each by itself, once, whatever is refused for a moment."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quarantine.adapters.tickets.targets import ManyDesks, only
from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Filing, Remark, Ticket, Update
from tests.execute.lab import Lab


class Far:
    """A far side that knows a ticket by its reference; `troubles` are raised by the next updates, one after the other.

    None among them: that one is taken.
    """

    def __init__(self, answerable: Answerable = Answerable.SEARCHABLE) -> None:
        self.answerable = answerable
        self.settles = timedelta(0)
        self.there: dict[str, Ticket] = {}
        self.troubles: list[Exception | None] = []
        self.told: list[tuple[str, str]] = []  # reference and key of each update that reached it
        self.asked: list[str] = []  # the key of each that was tried

    def find(self, key: str) -> tuple[Ticket, ...]:
        blind = self.answerable is Answerable.BLIND
        return () if blind else tuple(ticket for ticket in self.there.values() if ticket.key == key)

    def read(self, ref: str) -> Ticket | None:
        return None if self.answerable is Answerable.BLIND else self.there.get(ref)

    def open(self, report: CaseReport, *_: object) -> Ticket:
        made = Ticket(f"F-{report.key}", report.key, "open")
        self.there[made.ref] = made
        return made

    def update(self, ref: str, update: Update) -> None:
        self.asked.append(update.key)
        trouble = self.troubles.pop(0) if self.troubles else None
        if trouble is not None:
            raise trouble
        self.told.append((ref, update.key))
        if update.close:
            self.there.pop(ref, None)


class Down(Far):
    """It never answers."""

    def find(self, key: str) -> tuple[Ticket, ...]:
        raise TicketsUnavailable(f"nobody answers who was asked for {key}")

    def update(self, ref: str, update: Update) -> None:
        raise TicketsUnavailable(f"nobody answers who was to tell {ref} {update.key}")


def desks(here: Lab, **targets: Far) -> None:
    """Several targets; the first one is for every provider."""
    here.executor.desks = ManyDesks(targets, {}, next(iter(targets)))


def remark(here: Lab, ref: str, number: int = 1, *, target: str = "mail") -> None:
    said = Remark(f"found-{number}", ref, target, "more was found", here.clock.at)
    here.decide(Action.COMMENT, remark=said, effects=(Effect.COMMENT,))


def on_record(here: Lab, ref: str, target: str) -> None:
    here.decide(Action.HEAR, ticket=Filing(ref, "another", target, "replace", here.clock.at))


def end(here: Lab) -> None:
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))


def cycles(here: Lab, count: int = 5) -> None:
    for _ in range(count):
        here.act()
        here.later(minutes=6)


def attempted(here: Lab, effect: Effect) -> None:
    """A process is killed in the middle of an attempt."""
    (pending,) = [pending for pending in here.ledger.load().pending if pending.effect is effect]
    here.ledger.attempt(here.term, pending.key, here.clock.at)
    here.restart()


# --- Remarks ----------------------------------------------------------------------------------------------------------


def test_a_remark_that_is_refused_for_a_moment_is_added_later(here: Lab) -> None:
    far = Far()
    far.there["F-1"] = Ticket("F-1", "k", "open")
    far.troubles = [TicketsRefused("401: the token has expired")] * 2
    desks(here, mail=far)
    remark(here, "F-1")
    cycles(here)
    assert far.told == [("F-1", "found-1")]
    assert here.status(Effect.COMMENT) == "done"


def test_a_remark_is_given_up_where_its_ticket_is_gone_and_the_others_are_told(here: Lab) -> None:
    far = Far()
    far.there["F-2"] = Ticket("F-2", "k", "open")
    far.troubles = [TicketsRefused("404: there is no such ticket")]
    desks(here, mail=far)
    remark(here, "F-1", 1)
    remark(here, "F-2", 2)
    here.act()
    assert [(said.said, said.given_up) for said in here.case.remarks] == [(True, True), (True, None)]


def test_a_ticket_that_has_ended_has_an_hour_to_take_a_remark(here: Lab) -> None:
    """What refuses it may be the moment, or the end."""
    far = Far()
    far.there["F-1"] = Ticket("F-1", "k", "closed", open=False)
    far.troubles = [TicketsRefused("a closed ticket takes no comment")] * 100
    desks(here, mail=far)
    remark(here, "F-1")
    cycles(here, 10)
    assert here.status(Effect.COMMENT) == "pending"
    cycles(here, 2)
    assert here.status(Effect.COMMENT) == "abandoned"


@pytest.mark.parametrize("order", [("mail", "jira"), ("jira", "mail")])
def test_a_letter_is_sent_once_though_another_desk_is_down(here: Lab, order: tuple[str, str]) -> None:
    mail = Far(Answerable.BLIND)
    desks(here, mail=mail, jira=Down())
    for number, target in enumerate(order, start=1):
        remark(here, f"{target}-1", number, target=target)
    cycles(here, 6)
    assert [ref for ref, _ in mail.told] == ["mail-1"]
    assert here.status(Effect.COMMENT) == "pending"


def test_of_two_letters_the_one_that_is_put_off_is_sent_again_and_no_other(here: Lab) -> None:
    mail = Far(Answerable.BLIND)
    mail.troubles = [None, TicketsUnavailable("451: try again later"), TicketsUnavailable("451: try again later")]
    desks(here, mail=mail)
    remark(here, "M-1", 1)
    remark(here, "M-2", 2)
    cycles(here)
    assert mail.told == [("M-1", "found-1"), ("M-2", "found-2")]
    assert here.status(Effect.COMMENT) == "done"


def test_what_came_up_after_an_attempt_in_doubt_is_told(here: Lab) -> None:
    remark(here, "M-1", 1)
    attempted(here, Effect.COMMENT)
    mail = Far(Answerable.BLIND)
    desks(here, mail=mail)
    here.later(minutes=1)
    remark(here, "M-1", 2)
    cycles(here)
    assert mail.told == [("M-1", "found-2")]
    assert [said.given_up for said in here.case.remarks] == [True, None]


def test_remarks_are_told_in_their_order_so_only_the_oldest_of_them_is_in_doubt(here: Lab) -> None:
    remark(here, "M-1", 1)
    remark(here, "M-1", 2)
    attempted(here, Effect.COMMENT)
    mail = Far(Answerable.BLIND)
    desks(here, mail=mail)
    cycles(here)
    assert mail.told == [("M-1", "found-2")]


def test_where_one_was_put_off_before_all_of_that_time_are_in_doubt(here: Lab) -> None:
    """The first was refused, so that the second was perhaps being sent when the process was killed."""
    remark(here, "M-1", 1)
    remark(here, "M-2", 2)
    mail = Far(Answerable.BLIND)
    mail.troubles = [TicketsUnavailable("451"), KeyboardInterrupt()]  # type: ignore[list-item]
    desks(here, mail=mail)
    with pytest.raises(KeyboardInterrupt):
        here.act()
    here.restart()
    desks(here, mail=mail)
    here.later(hours=1)
    cycles(here)
    assert mail.told == []
    assert [said.given_up for said in here.case.remarks] == [True, True]


def test_a_defect_at_one_target_puts_no_remark_of_another_in_doubt(here: Lab) -> None:
    mail, jira = Far(Answerable.BLIND), Far()
    jira.troubles = [ZeroDivisionError("a defect")] * 2
    desks(here, mail=mail, jira=jira)
    remark(here, "J-1", 1, target="jira")
    remark(here, "M-1", 2)
    cycles(here)
    assert mail.told == [("M-1", "found-2")]
    assert jira.told == [("J-1", "found-1")]


def test_who_leads_no_more_tells_no_further_remark(here: Lab) -> None:
    class Deposing(Far):
        def update(self, ref: str, update: Update) -> None:
            super().update(ref, update)
            leading.clear()

    leading, far = [True], Deposing(Answerable.IDEMPOTENT)
    desks(here, mail=far)
    here.executor.leads = lambda: bool(leading)
    for number in range(5):
        remark(here, "F-1", number)
    assert any("another process may lead" in said for said in here.act().postponed)
    assert far.asked == ["found-0"]
    leading.append(True)
    far.update = super(Deposing, far).update  # type: ignore[method-assign]
    cycles(here)
    assert far.asked == [f"found-{number}" for number in range(5)]


# --- The end ----------------------------------------------------------------------------------------------------------


def test_a_closing_that_is_refused_for_a_moment_is_done_later(here: Lab) -> None:
    far = Far()
    far.troubles = [TicketsRefused("401: the token has expired")] * 3
    desks(here, jira=far)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    end(here)
    assert any("the token has expired" in said for said in here.act().postponed)
    cycles(here)
    assert far.there == {}, "an open ticket asks for a machine that is in service"
    assert here.status(Effect.CLOSE) == "done"


def test_a_letter_that_says_the_end_is_sent_once_though_another_desk_is_down(here: Lab) -> None:
    mail = Far(Answerable.BLIND)
    desks(here, mail=mail, jira=Down())
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    on_record(here, "J-1", "jira")
    end(here)
    cycles(here)
    assert [key for _, key in mail.told] == [f"{here.case.id}-ended"]
    assert here.status(Effect.CLOSE) == "pending"
    jira = Far()
    jira.there["J-1"] = Ticket("J-1", "another", "open")
    desks(here, mail=mail, jira=jira)
    cycles(here)
    assert len(mail.told) == 1
    assert jira.there == {}
    assert here.status(Effect.CLOSE) == "done"


def test_whether_a_closing_is_tried_again_is_for_the_target_that_did_not_answer(here: Lab) -> None:
    mail, jira = Far(Answerable.BLIND), Far()
    jira.there["J-1"] = Ticket("J-1", "another", "open")
    jira.troubles = [TicketsUncertain("no answer came")]
    desks(here, mail=mail, jira=jira)
    on_record(here, "J-1", "jira")
    end(here)
    cycles(here)
    assert jira.told == [("J-1", f"{here.case.id}-ended")]


def test_a_letter_whose_end_was_perhaps_sent_is_left_to_a_person_and_others_are_closed(here: Lab) -> None:
    mail, jira = Far(Answerable.BLIND), Far()
    mail.troubles = [TicketsUncertain("the connection broke after the letter was sent")]
    jira.there["J-1"] = Ticket("J-1", "another", "open")
    jira.troubles = [TicketsUnavailable("nobody answers")]
    desks(here, mail=mail, jira=jira)
    on_record(here, "M-1", "mail")
    on_record(here, "J-1", "jira")
    end(here)
    cycles(here)
    assert jira.there == {}
    assert mail.asked == [f"{here.case.id}-ended"]
    assert here.status(Effect.CLOSE) == "abandoned"
    assert "tell its provider" in list(here.ledger.decisions())[-1].decision.reason


def test_what_one_ticket_refuses_does_not_keep_another_of_its_target_open(here: Lab) -> None:
    far = Far()
    far.there = {ref: Ticket(ref, ref, "open") for ref in ("J-1", "J-2")}
    far.troubles = [TicketsRefused("somebody edits it")]
    desks(here, jira=far)
    for ref in ("J-1", "J-2"):
        on_record(here, ref, "jira")
    end(here)
    here.act()
    assert [*far.there] == ["J-1"]
    cycles(here)
    assert far.there == {}


def test_with_one_target_alone(here: Lab) -> None:
    far = Far(Answerable.IDEMPOTENT)
    here.executor.desks = only("desk", far)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    end(here)
    here.act()
    assert far.there == {}
