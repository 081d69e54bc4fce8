"""How ticket systems are asked about the tickets of open cases: seldom, briefly, and never twice for nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import Case, Phase
from quarantine.core.decision import State
from quarantine.core.errors import TicketsRefused, TicketsUnavailable
from quarantine.core.model import Failed, Machine
from quarantine.core.tickets import Answerable, Filing, Heard, Remark, Ticket, TicketState
from quarantine.observe.tickets import AT_ONCE, EVERY, FRESH, Follower
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


def test_what_was_heard_before_another_process_led_is_no_news_after_it() -> None:
    """The other one heard the ticket, and answered it: the older word would be taken for one to that answer."""
    made, follower, clock = desk("A")
    follower.heard(state(filing("A")))
    made.tickets["A"] = Ticket("A", "key-A", "open again")
    clock.at += timedelta(minutes=1)
    follower.forget()
    assert follower.heard(state(filing("A"))) == {("desk", "A"): Heard(made.tickets["A"])}
    assert made.read_ == ["A", "A"]


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


# --- One that does not answer in time ---------------------------------------------------------------------------------

BRIEF = timedelta(milliseconds=30)  # where nothing answers in time
AMPLE = timedelta(seconds=1)  # where something does


@dataclass
class Two:
    """Two ticket systems: `desk` answers at once, `slow` once it is let."""

    desk: Desk
    slow: Desk
    gate: threading.Event = field(default_factory=threading.Event)

    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def of(self, provider: str) -> tuple[str, Tickets] | None:
        raise NotImplementedError

    def named(self, target: str) -> Tickets:
        return self.desk if target == "desk" else Gated(self.slow, self.gate)  # type: ignore[return-value]


@dataclass
class Gated:
    """Hangs at each question until its gate is opened; as it was when it was asked is how it answers."""

    behind: Desk
    gate: threading.Event
    answerable: Answerable = Answerable.SEARCHABLE
    settles: timedelta = timedelta(0)

    def read(self, ref: str) -> Ticket | None:
        said = self.behind.read(ref)
        self.gate.wait(20)
        return said

    def find(self, _: str) -> tuple[Ticket, ...]:
        return ()


class Unawaited(threading.Event):
    """What is not waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        raise AssertionError(f"it is waited for, for {timeout} s")


@pytest.fixture
def two() -> Iterator[tuple[Two, Follower, Hands]]:
    clock = Hands()
    tickets = {ref: Ticket(ref, f"key-{ref}", "open") for ref in ("A", "B", "S", "T")}
    desks = Two(Desk(clock, dict(tickets)), Desk(clock, dict(tickets)))
    yield desks, Follower(desks, clock, patience=AMPLE), clock
    desks.gate.set()
    for thread in asking():  # none is taken for one of the next test
        thread.join(10)


GIVEN = state(filing("S", "slow"), filing("T", "slow"), filing("A"), filing("B"))


ASKS = "ticket-slow"  # the thread of a question to it


def asking() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == ASKS]


def answered(follower: Follower) -> None:
    """Whatever is out there has come back, and its thread has ended."""
    for question in follower._out.values():
        assert question.done.wait(10)
    for thread in asking():
        thread.join(10)


def test_a_slow_system_holds_no_cycle_and_no_other_system_and_its_answer_comes_later(
    two: tuple[Two, Follower, Hands],
) -> None:
    desks, follower, clock = two
    began = time.monotonic()
    said = follower.heard(GIVEN)
    assert time.monotonic() - began < 5
    assert set(said) == {("desk", "A"), ("desk", "B")}
    for _ in range(20):
        assert set(follower.heard(GIVEN)) == {("desk", "A"), ("desk", "B")}
    assert desks.slow.read_ == ["S"], "one question at a time"
    assert len(asking()) == 1
    desks.gate.set()
    answered(follower)
    assert follower.heard(GIVEN)["slow", "S"] == Heard(desks.slow.tickets["S"])
    answered(follower)
    assert follower.heard(GIVEN)["slow", "T"] == Heard(desks.slow.tickets["T"])
    assert asking() == []
    clock.at += EVERY
    assert set(follower.heard(GIVEN)) == {
        (t, r) for t, r in (("desk", "A"), ("desk", "B"), ("slow", "S"), ("slow", "T"))
    }


def test_a_slow_system_is_waited_for_once_and_again_when_it_was_quick(two: tuple[Two, Follower, Hands]) -> None:
    desks, follower, clock = two
    follower.patience = timedelta(milliseconds=300)
    only_slow = state(filing("S", "slow"))
    began = time.monotonic()
    follower.heard(only_slow)
    assert time.monotonic() - began >= 0.3
    out = follower._out["slow"]
    waited, out.done = out.done, Unawaited()
    for _ in range(2):
        follower.heard(only_slow)
    out.done = waited
    desks.gate.set()
    answered(follower)
    assert out.seconds >= 0.3
    assert follower.heard(only_slow)["slow", "S"] == Heard(desks.slow.tickets["S"])
    assert "slow" in follower._slow
    follower.patience = timedelta(seconds=10)
    clock.at += EVERY
    follower.heard(only_slow)  # is asked, and not waited for
    answered(follower)
    follower.heard(only_slow)
    clock.at += EVERY
    desks.slow.tickets["S"] = replace(desks.slow.tickets["S"], status="done")
    said = follower.heard(only_slow)["slow", "S"]
    assert isinstance(said, Heard)
    assert said.ticket == desks.slow.tickets["S"], "it is waited for again"


@pytest.mark.parametrize("what", ["filing", "remark"])
def test_an_answer_from_before_our_own_word_is_not_taken_for_one_to_it(
    what: str, two: tuple[Two, Follower, Hands]
) -> None:
    desks, follower, _ = two
    follower.patience = BRIEF
    told = filing("S", "slow")
    follower.heard(state(told))
    desks.slow.tickets["S"] = replace(desks.slow.tickets["S"], status="closed", open=False)
    if what == "filing":
        after = state(replace(told, state=TicketState.CLOSED, open=False))
    else:
        after = state(told)
        (case,) = after.cases.values()
        remark = Remark("k", "S", "slow", "it is good again", NOW, close=True, said=True)
        after = State(cases={case.id: replace(case, remarks=(remark,))})
    desks.gate.set()
    answered(follower)
    assert ("slow", "S") not in follower.heard(after), "it is asked anew"
    answered(follower)
    said = follower.heard(after)["slow", "S"]
    assert isinstance(said, Heard)
    assert said.ticket == desks.slow.tickets["S"]


def test_a_call_from_outside_while_a_question_is_out_has_it_asked_again(two: tuple[Two, Follower, Hands]) -> None:
    desks, follower, _ = two
    follower.patience = BRIEF
    given = state(filing("S", "slow"))
    follower.heard(given)
    follower.nudge("slow", "S")
    follower.heard(given)
    desks.gate.set()
    answered(follower)
    follower.heard(given)
    answered(follower)
    assert desks.slow.read_ == ["S", "S"]


def test_a_system_that_hangs_for_ever_is_said_to_be_silent(two: tuple[Two, Follower, Hands]) -> None:
    _, follower, clock = two
    follower.heard(GIVEN)
    clock.at += FRESH * EVERY
    said = follower.heard(GIVEN)
    for ref in ("S", "T"):
        failed = said["slow", ref]
        assert isinstance(failed, Failed)
        assert "slow has not answered since 2026-" in failed.detail
    assert isinstance(said["desk", "A"], Heard)


def test_what_comes_late_and_is_an_error_lets_it_rest(two: tuple[Two, Follower, Hands]) -> None:
    desks, follower, clock = two
    follower.patience = BRIEF
    desks.slow.trouble = TicketsUnavailable("nobody answers")
    given = state(filing("S", "slow"))
    follower.heard(given)
    answered(follower)
    assert isinstance(follower.heard(given)["slow", "S"], Failed)
    clock.at += timedelta(seconds=20)
    follower.heard(given)
    assert desks.slow.read_ == ["S"]
