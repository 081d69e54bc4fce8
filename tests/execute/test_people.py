"""Tickets and messages: exactly one of each, however often the process dies in between."""

from __future__ import annotations

from quarantine.core.case import Effect, Phase, Rung, Step
from quarantine.core.decision import Action
from quarantine.core.errors import TicketsUnavailable
from quarantine.ports import Ticket
from tests.execute.lab import Lab


def ask_for_another(here: Lab, number: int = 0) -> None:
    rung = Rung(Step.REPLACE, number, here.clock.at)
    here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, rung=rung, effects=(Effect.REPLACE,))


def test_the_request_for_another_machine_is_a_ticket_of_its_own(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    ask_for_another(here)
    here.act()
    case = here.case
    report, request = here.tickets.find(case.id), here.tickets.find(f"{case.id}-replace")
    assert report is not None
    assert request is not None
    assert report.ref != request.ref
    assert case.effects[Effect.REPLACE].ref == request.ref


def test_one_whose_answer_was_lost_is_found_again(here: Lab) -> None:
    ask_for_another(here)
    inner = here.tickets

    class Lossy:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def open(self, report: object) -> Ticket:
            opened.append(inner.open(report))  # type: ignore[arg-type]
            raise TicketsUnavailable("the answer was lost")

    opened: list[Ticket] = []
    here.executor.tickets = Lossy()  # type: ignore[assignment]
    assert here.act().postponed != ()
    here.restart()
    here.executor.tickets = Lossy()  # type: ignore[assignment]
    here.later(minutes=1)
    here.act()
    assert len(opened) == 1, "a far side that would file it twice is not asked to"
    assert here.status(Effect.REPLACE) == "done"


def test_asking_a_second_time_in_one_case_is_another_ticket(here: Lab) -> None:
    for number in range(2):
        ask_for_another(here, number)
        here.act()
    assert here.case.effects[Effect.REPLACE].ref.endswith("-replace-2")


def test_another_machine_that_is_reported_in_one_case_has_its_own_ticket(here: Lab) -> None:
    """The one before has its ticket already, which may be open still."""
    refs = []
    for number in range(2):
        rung = Rung(Step.REPORT, number, here.clock.at)
        here.decide(Action.TICKET, rung=rung, effects=(Effect.TICKET,))
        here.act()
        refs.append(here.case.effects[Effect.TICKET].ref)
    assert [ref.partition("q-")[2] for ref in refs] == [here.case.id[2:], f"{here.case.id[2:]}-report-2"]
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    here.act()
    read = [here.tickets.read(ref) for ref in refs]
    assert [ticket.status for ticket in read if ticket is not None] == ["closed", "closed"]


def test_the_message_waits_for_the_ticket_and_names_the_weightier_one(here: Lab) -> None:
    ask_for_another(here)
    here.decide(Action.NOTIFY, effects=(Effect.NOTIFY,))
    here.act()
    assert here.chat.posted == {here.case.id: here.case.effects[Effect.REPLACE].ref}


def test_every_ticket_of_a_case_is_closed_with_it(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    for number in range(2):
        ask_for_another(here, number)
        here.act()
    refs = [here.case.effects[Effect.TICKET].ref, here.case.effects[Effect.REPLACE].ref]
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    here.act()
    for ref in refs:
        ticket = here.tickets.read(ref)
        assert ticket is not None
        assert ticket.status == "closed"
    assert here.tickets.find(f"{here.case.id}-replace") is None


def test_what_the_provider_closed_needs_no_closing(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    here.tickets.close(here.case.effects[Effect.TICKET].ref, "replaced")
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    assert any("is open any more" in said for said in here.act().done)


def test_without_a_ticket_system_nothing_waits(here: Lab) -> None:
    here.executor.tickets = None
    ask_for_another(here)
    here.act()
    assert here.status(Effect.REPLACE) == "abandoned"
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    here.act()
    assert here.status(Effect.CLOSE) == "abandoned"
    assert here.status(Effect.UNMARK) == "done"
