"""Tickets and messages: exactly one of each, however often the process dies in between."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.targets import ManyDesks, only
from quarantine.core.case import Effect, Phase, Rung, Step
from quarantine.core.decision import Action
from quarantine.core.errors import TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.record.chart import ChartData
from quarantine.core.tickets import Answerable, Remark, Ticket, Update
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
    (report,), (request,) = here.tickets.find(case.id), here.tickets.find(f"{case.id}-replace")
    assert report.ref != request.ref
    assert case.effects[Effect.REPLACE].ref == request.ref


def test_one_whose_answer_was_lost_is_found_again(here: Lab) -> None:
    ask_for_another(here)
    inner = here.tickets

    class Lossy:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def open(self, report: object, *_: object) -> Ticket:
            opened.append(inner.open(report))  # type: ignore[arg-type]
            raise TicketsUnavailable("the answer was lost")

    opened: list[Ticket] = []
    here.executor.desks = only("lossy", Lossy())  # type: ignore[arg-type]
    assert here.act().postponed != ()
    here.restart()
    here.executor.desks = only("lossy", Lossy())  # type: ignore[arg-type]
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
    assert not any(ticket.open for ticket in here.tickets.find(f"{here.case.id}-replace"))


def test_what_the_provider_closed_needs_no_closing(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    here.tickets.update(here.case.effects[Effect.TICKET].ref, Update("theirs", "replaced", close=True))
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    assert any("is open any more" in said for said in here.act().done)


def test_without_a_ticket_system_nothing_waits(here: Lab) -> None:
    here.executor.desks = None
    ask_for_another(here)
    here.act()
    assert here.status(Effect.REPLACE) == "abandoned"
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    here.act()
    assert here.status(Effect.CLOSE) == "abandoned"
    assert here.status(Effect.UNMARK) == "done"


class Mailbox:
    """A far side that tells nothing: what was sent is known to those who read it."""

    answerable = Answerable.BLIND
    settles = timedelta(0)

    def __init__(self, *, answers: bool) -> None:
        self.sent: list[str] = []
        self.answers = answers

    def find(self, key: str) -> tuple[Ticket, ...]:  # noqa: ARG002
        return ()

    def open(self, report: CaseReport, *_: object) -> Ticket:
        self.sent.append(report.key)
        if not self.answers:
            raise TicketsUncertain("the connection broke after the letter was sent")
        return Ticket(f"mail-{report.key}", report.key, "sent")


def test_exactly_once_what_cannot_be_looked_up_is_not_sent_twice_but_left_to_a_person(here: Lab) -> None:
    box = Mailbox(answers=False)
    here.executor.desks = only("mail", box)  # type: ignore[arg-type]
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    here.later(hours=1)
    here.act()
    assert box.sent == [here.case.id]
    assert here.status(Effect.TICKET) == "abandoned"
    assert "perhaps told" in list(here.ledger.decisions())[-1].decision.reason


def test_exactly_once_a_letter_during_which_the_process_was_killed_is_left_to_a_person(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    (pending,) = here.ledger.load().pending
    here.ledger.attempt(here.term, pending.key, here.clock.at)
    here.restart()
    box = Mailbox(answers=True)
    here.executor.desks = only("mail", box)  # type: ignore[arg-type]
    here.later(hours=1)
    here.act()
    assert box.sent == []
    assert here.status(Effect.TICKET) == "abandoned"


def test_a_letter_that_was_not_sent_is_sent_later(here: Lab) -> None:
    box = Mailbox(answers=True)

    class Down(Mailbox):
        def open(self, report: CaseReport, *_: object) -> Ticket:  # noqa: ARG002
            raise TicketsUnavailable("nobody answers at the mail server")

    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.executor.desks = only("mail", Down(answers=True))  # type: ignore[arg-type]
    here.act()
    here.executor.desks = only("mail", box)  # type: ignore[arg-type]
    here.later(hours=1)
    here.act()
    assert box.sent == [here.case.id]
    assert here.status(Effect.TICKET) == "done"


def test_of_a_ticket_and_its_double_the_one_that_is_open_counts_and_both_are_closed_at_the_end(here: Lab) -> None:
    closed: list[str] = []
    key = here.case.id

    class Doubled:
        answerable = Answerable.SEARCHABLE

        def find(self, wanted: str) -> tuple[Ticket, ...]:
            there = (Ticket("A-1", key, "done", open=False), Ticket("A-2", key, "open"), Ticket("A-3", key, "open"))
            return tuple(one for one in there if wanted == key and one.ref not in closed)

        def update(self, ref: str, update: Update) -> None:
            assert update.close
            closed.append(ref)

    here.executor.desks = only("doubled", Doubled())  # type: ignore[arg-type]
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    assert here.case.effects[Effect.TICKET].ref == "A-2"
    here.decide(Action.WITHDRAW, effects=(Effect.CLOSE,))
    here.act()
    assert closed == ["A-2", "A-3"]


# --- What is on record, and what is added -----------------------------------------------------------------------------


def remark(here: Lab, ref: str, number: int = 1, *, target: str = "lab", close: bool = False) -> None:
    said = Remark(f"found-{number}", ref, target, "more was found", here.clock.at, close=close)
    here.decide(Action.COMMENT, remark=said, effects=(Effect.COMMENT,))


def filed(here: Lab) -> str:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    (filing,) = here.case.filings
    assert filing.at == here.clock.at
    assert (filing.key, filing.target, filing.ask) == (here.case.id, "lab", "report")
    return filing.ref


def test_a_comment_is_added_once_though_its_answer_is_lost(here: Lab) -> None:
    """Exactly once, by the key of the update."""
    ref, inner = filed(here), here.tickets

    class Lossy:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def update(self, ref: str, update: Update) -> None:
            inner.update(ref, update)
            raise TicketsUncertain("the answer was lost")

    remark(here, ref)
    here.executor.desks = only("lab", Lossy())  # type: ignore[arg-type]
    assert here.act().postponed
    here.restart()
    here.later(minutes=1)
    assert here.act().done == (f"ticket {ref} of node-3 was told what is new",)
    assert [said.said for said in here.case.remarks] == [True]
    remark(here, ref, 2)
    here.later(minutes=1)
    here.act()
    page = next(here.folder.glob("*.md")).read_text()
    assert page.count("more was found") == 2


def test_what_one_ticket_refuses_keeps_nothing_from_another(here: Lab) -> None:
    ref = filed(here)
    remark(here, "X-1", 1, target="former")
    remark(here, ref, 2)
    assert any("there is no ticket target 'former' any more" in said for said in here.act().postponed)
    assert "more was found" in next(here.folder.glob("*.md")).read_text()
    assert [(said.ref, said.said) for said in here.case.remarks] == [("X-1", None), (ref, True)]
    assert here.status(Effect.COMMENT) == "pending", "the target may be written back into the settings"


def test_a_letter_that_was_perhaps_added_is_not_added_again(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    box = Mailbox(answers=True)
    here.executor.desks = only("mail", box)  # type: ignore[arg-type]
    here.act()
    remark(here, here.case.filings[0].ref, target="mail")
    (pending,) = here.ledger.load().pending
    here.ledger.attempt(here.term, pending.key, here.clock.at)
    here.restart()
    here.executor.desks = only("mail", box)  # type: ignore[arg-type]
    here.later(hours=1)
    here.act()
    assert here.status(Effect.COMMENT) == "abandoned"
    assert "perhaps told already" in list(here.ledger.decisions())[-1].decision.reason


def test_a_ticket_is_closed_where_it_was_filed_though_its_provider_has_another_desk_now(here: Lab) -> None:
    ref = filed(here)
    other = DirectoryTickets(here.folder.parent / "other", here.clock.now)
    here.executor.desks = ManyDesks({"lab": here.tickets, "new": other}, {}, "new")
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    here.act()
    ticket = here.tickets.read(ref)
    assert ticket is not None
    assert not ticket.open
    assert here.status(Effect.CLOSE) == "done"


def test_a_letter_on_record_is_taken_back_by_another(here: Lab) -> None:
    class Answering(Mailbox):
        def update(self, ref: str, update: Update) -> None:
            assert update.close
            self.sent.append(f"{ref} is over")

    box = Answering(answers=True)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.executor.desks = only("mail", box)  # type: ignore[arg-type]
    here.act()
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))
    here.act()
    assert box.sent == [here.case.id, f"mail-{here.case.id} is over"]


def test_the_chart_goes_with_the_ticket(here: Lab) -> None:
    drawn: list[ChartData] = []

    def draw(data: ChartData) -> bytes:
        drawn.append(data)
        return b"\x89PNG\r\n\x1a\n"

    here.executor.draw = draw
    filed(here)
    assert [data.case for data in drawn] == [here.case.id]
    assert [file.name for file in here.folder.rglob("*.png")] != []
    here.act()
    assert len(drawn) == 1, "drawn where a ticket is filed, and not when it is looked up"


def test_a_chart_that_cannot_be_drawn_keeps_no_ticket(here: Lab) -> None:
    def draw(_: ChartData) -> bytes:
        raise ZeroDivisionError

    here.executor.draw = draw
    filed(here)
    assert here.status(Effect.TICKET) == "done"
    assert list(here.folder.rglob("*.png")) == []


# --- What is found only after a while ---------------------------------------------------------------------------------


class Slow:
    """A far side whose search knows a new ticket only `settles` after it was filed."""

    answerable = Answerable.SEARCHABLE
    settles = timedelta(minutes=5)

    def __init__(self, here: Lab) -> None:
        self.here = here
        self.filed: list[tuple[str, datetime]] = []
        self.answers = True

    def find(self, key: str) -> tuple[Ticket, ...]:
        known = [(k, at) for k, at in self.filed if k == key and self.here.clock.at >= at + self.settles]
        return tuple(Ticket(f"S-{k}", k, "open") for k, _ in known)

    def open(self, report: CaseReport, *_: object) -> Ticket:
        self.filed.append((report.key, self.here.clock.at))
        if not self.answers:
            raise KeyboardInterrupt  # killed before the answer was recorded
        return Ticket(f"S-{report.key}", report.key, "open")


@pytest.mark.parametrize("effect", [Effect.TICKET, Effect.REPLACE])
def test_exactly_once_what_a_killed_process_may_have_filed_is_not_filed_again_before_it_would_be_found(
    here: Lab, effect: Effect
) -> None:
    if effect is Effect.REPLACE:
        ask_for_another(here)
    else:
        here.decide(Action.TICKET, effects=(effect,))
    slow = Slow(here)
    slow.answers = False
    here.executor.desks = only("slow", slow)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        here.act()
    here.restart()
    slow.answers = True
    here.executor.desks = only("slow", slow)  # type: ignore[arg-type]
    for _ in range(4):  # each of them a restart, too: the ledger alone knows when it was tried
        here.later(minutes=1)
        assert any("looked up at slow in a while" in said for said in here.act().postponed)
        here.restart()
        here.executor.desks = only("slow", slow)  # type: ignore[arg-type]
    assert here.status(effect) == "pending"
    here.later(minutes=1)
    here.act()
    assert len(slow.filed) == 1
    assert here.status(effect) == "done"


def test_what_a_killed_process_has_not_filed_is_filed_once_that_is_known(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    (pending,) = here.ledger.load().pending
    here.ledger.attempt(here.term, pending.key, here.clock.at)
    here.restart()
    slow = Slow(here)
    here.executor.desks = only("slow", slow)  # type: ignore[arg-type]
    here.later(minutes=4)
    here.act()
    assert slow.filed == []
    here.later(minutes=1)
    here.act()
    assert len(slow.filed) == 1
    assert here.status(Effect.TICKET) == "done"
