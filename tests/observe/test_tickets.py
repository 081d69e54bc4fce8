"""How ticket systems are asked about the tickets of open cases: seldom, briefly, and never twice for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core.case import Case, Phase
from quarantine.core.decision import State
from quarantine.core.errors import TicketsRefused, TicketsUnavailable
from quarantine.core.model import Failed, Machine
from quarantine.core.tickets import Answerable, Filing, Heard, Ticket
from quarantine.observe.tickets import AT_ONCE, EVERY, Follower
from quarantine.ports import Tickets
from tests.core.world import NOW


@dataclass
class Hands:
    at: datetime = NOW + timedelta(days=1)

    def now(self) -> datetime:
        return self.at


@dataclass
class Desk:
    """Counts what it is asked; each question takes `takes`."""

    clock: Hands
    tickets: dict[str, Ticket] = field(default_factory=dict)
    answerable: Answerable = Answerable.SEARCHABLE
    settles: timedelta = timedelta(0)
    trouble: Exception | None = None
    takes: timedelta = timedelta(0)
    read_: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def of(self, provider: str) -> tuple[str, Tickets] | None:
        raise NotImplementedError

    def named(self, target: str) -> Tickets:
        if target != "desk":
            raise TicketsRefused(f"there is no target {target} any more")
        return self  # type: ignore[return-value]

    def read(self, ref: str) -> Ticket | None:
        self.clock.at += self.takes
        self.read_.append(ref)
        if self.trouble is not None:
            raise self.trouble
        return self.tickets.get(ref)

    def find(self, key: str) -> tuple[Ticket, ...]:
        self.found.append(key)
        return tuple(ticket for ticket in self.tickets.values() if ticket.key == key)


def filing(ref: str, target: str = "desk", at: datetime = NOW) -> Filing:
    return Filing(ref, f"key-{ref}", target, "report", at)


def state(*filings: Filing, phase: Phase = Phase.QUARANTINED) -> State:
    machine = Machine("uid")
    case = Case("q-1", "node-3", machine, phase, NOW, NOW, (), "controller", "hot", filings=filings)
    return State(cases={case.id: case})


def desk(*refs: str, **fields: object) -> tuple[Desk, Follower, Hands]:
    clock = Hands()
    made = Desk(clock, {ref: Ticket(ref, f"key-{ref}", "open") for ref in refs}, **fields)  # type: ignore[arg-type]
    return made, Follower(made, clock), clock


def test_each_ticket_is_asked_about_once_in_a_while_and_its_last_word_is_kept() -> None:
    made, follower, clock = desk("A", "B")
    given = state(filing("A"), filing("B"))
    first = follower.heard(given)
    assert first == {("desk", ref): Heard(made.tickets[ref]) for ref in "AB"}
    assert follower.heard(given) == first
    assert made.read_ == ["A", "B"]
    clock.at += EVERY
    follower.heard(given)
    assert made.read_ == ["A", "B", "A", "B"]


def test_a_case_that_ended_is_not_asked_about() -> None:
    made, follower, _ = desk("A")
    assert follower.heard(state(filing("A"), phase=Phase.RELEASED)) == {}
    assert made.read_ == []


def test_a_second_ticket_of_the_key_is_looked_for_while_the_first_is_young() -> None:
    made, follower, clock = desk("A")
    made.tickets["A-2"] = Ticket("A-2", "key-A", "open")
    made.tickets["A-3"] = Ticket("A-3", "key-A", "done", open=False)
    said = follower.heard(state(filing("A", at=clock.at)))
    assert said["desk", "A"] == Heard(made.tickets["A"], (made.tickets["A-2"],))
    clock.at += timedelta(hours=2)
    follower.heard(state(filing("A", at=NOW)))
    assert made.found == ["key-A"]


def test_a_system_that_is_down_is_left_alone_for_a_while_and_keeps_nobody_waiting() -> None:
    made, follower, clock = desk("A", "B", trouble=TicketsUnavailable("nobody answers"))
    given = state(filing("A"), filing("B"))
    assert isinstance(follower.heard(given)["desk", "A"], Failed)
    assert made.read_ == ["A"], "the second would only wait as long again"
    for _ in range(4):
        clock.at += timedelta(seconds=5)
        follower.heard(given)
    assert made.read_ == ["A"]
    clock.at += EVERY
    made.trouble = None
    said = follower.heard(given)
    assert said["desk", "B"] == Heard(made.tickets["B"])


def test_it_is_waited_for_as_long_as_it_says() -> None:
    made, follower, clock = desk("A", trouble=TicketsUnavailable("busy", retry_after=timedelta(hours=1)))
    follower.heard(state(filing("A")))
    clock.at += timedelta(minutes=59)
    follower.heard(state(filing("A")))
    assert made.read_ == ["A"]


def test_a_cycle_asks_for_a_short_time_and_the_next_one_goes_on() -> None:
    made, follower, clock = desk("A", "B", "C", takes=AT_ONCE / 2)
    given = state(filing("A"), filing("B"), filing("C"))
    follower.heard(given)
    assert made.read_ == ["A", "B"]
    clock.at += timedelta(seconds=30)
    follower.heard(given)
    assert made.read_ == ["A", "B", "C"]


def test_a_target_that_is_gone_is_no_answer_and_holds_no_other() -> None:
    made, follower, _ = desk("A")
    said = follower.heard(state(filing("X", "former"), filing("A")))
    assert isinstance(said["former", "X"], Failed)
    assert said["desk", "A"] == Heard(made.tickets["A"])


def test_nothing_is_heard_of_what_cannot_be_looked_up() -> None:
    made, follower, _ = desk("A", answerable=Answerable.BLIND)
    assert follower.heard(state(filing("A"))) == {}
    assert made.read_ == []


def test_a_ticket_that_is_not_found_is_looked_for_once_more_before_it_is_gone() -> None:
    made, follower, clock = desk("A")
    given = state(filing("A"))
    there = made.tickets.pop("A")
    assert isinstance(follower.heard(given)["desk", "A"], Failed)
    clock.at += EVERY
    assert follower.heard(given)["desk", "A"] == Heard(None)
    made.tickets["A"] = there
    clock.at += EVERY
    assert follower.heard(given)["desk", "A"] == Heard(there)
    made.tickets.clear()
    clock.at += EVERY
    assert isinstance(follower.heard(given)["desk", "A"], Failed)


def test_what_was_heard_long_ago_is_not_served_as_now() -> None:
    made, follower, clock = desk("A", "B", "C", takes=AT_ONCE)
    given = state(filing("A"), filing("B"), filing("C"))
    for _ in range(3):
        follower.heard(given)
    clock.at += timedelta(days=1)
    assert len(follower.heard(given)) == 1, "the others wait for the next cycles, and are unknown until then"
    assert len(made.read_) == 4


def test_a_defect_of_an_adapter_ends_no_cycle_and_is_not_repeated_at_once() -> None:
    made, follower, clock = desk("A", trouble=KeyError("fields"))
    assert isinstance(follower.heard(state(filing("A")))["desk", "A"], Failed)
    clock.at += timedelta(seconds=15)
    follower.heard(state(filing("A")))
    assert made.read_ == ["A"]


def test_a_call_from_outside_has_the_ticket_read_in_the_next_cycle() -> None:
    made, follower, _ = desk("A", "B")
    given = state(filing("A"), filing("B"))
    follower.heard(given)
    follower.nudge("desk", "B")
    follower.nudge("desk", "never filed")
    follower.heard(given)
    follower.heard(given)
    assert made.read_ == ["A", "B", "B"]
