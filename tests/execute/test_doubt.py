"""A ticket whose answer was lost: it is found wherever it was filed, once it can be, and is closed with its case."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quarantine.adapters.tickets.targets import ManyDesks, only
from quarantine.core.case import Effect, Phase, Rung, Step
from quarantine.core.decision import Action
from quarantine.core.errors import Superseded, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Ticket, Update
from quarantine.execute import Executor
from tests.execute.lab import Lab


class Far:
    """A far side whose search is late, and that loses the answers to `lost` openings. `wait`: what it asks for then."""

    answerable = Answerable.SEARCHABLE

    def __init__(self, here: Lab, *, settles: float = 0, lost: int = 0, wait: float | None = None) -> None:
        self.here = here
        self.settles = timedelta(minutes=settles)
        self.lost = lost
        self.wait = timedelta(minutes=wait) if wait is not None else None
        self.filed: list[tuple[str, datetime]] = []  # each by its key
        self.closed: set[str] = set()

    def find(self, key: str) -> tuple[Ticket, ...]:
        there = [(f"F-{n}", known, at) for n, (known, at) in enumerate(self.filed)]
        found = [ref for ref, known, at in there if known == key and self.here.clock.at >= at + self.settles]
        return tuple(Ticket(ref, key, "open", open=ref not in self.closed) for ref in found)

    def read(self, ref: str) -> Ticket | None:
        key = self.filed[int(ref.removeprefix("F-"))][0]
        return Ticket(ref, key, "open", open=ref not in self.closed)

    def open(self, report: CaseReport, *_: object) -> Ticket:
        self.filed.append((report.key, self.here.clock.at))
        if self.lost:
            self.lost -= 1
            raise TicketsUncertain("no answer came", retry_after=self.wait)
        return Ticket(f"F-{len(self.filed) - 1}", report.key, "open")

    def update(self, ref: str, update: Update) -> None:
        assert update.close
        self.closed.add(ref)

    @property
    def left_open(self) -> list[str]:
        return [f"F-{number}" for number in range(len(self.filed)) if f"F-{number}" not in self.closed]


def ask(here: Lab, effect: Effect) -> None:
    if effect is Effect.REPLACE:
        rung = Rung(Step.REPLACE, 0, here.clock.at)
        here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, rung=rung, effects=(effect,))
    else:
        here.decide(Action.TICKET, effects=(effect,))


def end(here: Lab) -> None:
    here.decide(Action.RELEASE, phase=Phase.RELEASED, effects=(Effect.UNMARK, Effect.CLOSE))


BOTH = pytest.mark.parametrize("effect", [Effect.TICKET, Effect.REPLACE])


@BOTH
def test_exactly_once_though_the_adapter_asks_for_no_wait(here: Lab, effect: Effect) -> None:
    far = Far(here, settles=5, lost=1)
    here.executor.desks = only("third-party", far)
    ask(here, effect)
    for _ in range(20):
        here.act()
        here.later(seconds=30)
    assert len(far.filed) == 1
    assert here.status(effect) == "done"


@BOTH
def test_a_ticket_whose_answer_was_lost_is_closed_with_a_case_that_ends_before_it_can_be_found(
    here: Lab, effect: Effect
) -> None:
    far = Far(here, settles=5, lost=1, wait=5)
    here.executor.desks = only("jira", far)
    ask(here, effect)
    here.act()
    here.later(minutes=1)
    end(here)
    assert any("looked up at jira in a while" in said for said in here.act().postponed)
    here.later(minutes=4)
    here.restart()
    here.executor.desks = only("jira", far)
    here.act()
    assert here.status(Effect.CLOSE) == "pending"
    here.later(minutes=1)
    here.act()
    assert far.left_open == [], "it asks for a machine that is in service, for ever"
    assert here.status(Effect.CLOSE) == "done"


def test_a_case_whose_tickets_are_known_waits_for_nothing(here: Lab) -> None:
    far = Far(here, settles=5)
    here.executor.desks = only("jira", far)
    ask(here, Effect.TICKET)
    here.act()
    end(here)
    here.act()
    assert here.status(Effect.CLOSE) == "done"
    assert far.left_open == []


@BOTH
def test_who_leads_no_more_files_nothing_it_had_begun_to_look_up(here: Lab, effect: Effect) -> None:
    """It is paused between its look and its filing, and the case ends meanwhile."""

    class Pausing(Far):
        def find(self, key: str) -> tuple[Ticket, ...]:
            found = super().find(key)
            if not self.slept:
                self.slept = True
                term = here.term
                here.restart()
                here.executor = Executor(here.kube, here.ledger, desk, here.chat, here.clock, here.rules, here.runner)
                here.later(hours=2)
                here.act()
                end(here)
                here.act()
                here.term = term
            return found

        slept = False

    far = Pausing(here)
    desk = only("jira", far)
    here.executor.desks = desk
    ask(here, effect)
    with pytest.raises(Superseded):
        here.act()
    assert len(far.filed) == 1, "by the one that leads"
    assert far.left_open == []


@pytest.mark.parametrize("restarted", [False, True])
def test_exactly_once_though_the_provider_has_another_target_at_the_second_attempt(
    here: Lab, *, restarted: bool
) -> None:
    a, b = Far(here, lost=1), Far(here)
    here.executor.desks = ManyDesks({"a": a, "b": b}, {}, "a")
    ask(here, Effect.TICKET)
    here.act()
    if restarted:
        here.restart()
    here.executor.desks = ManyDesks({"a": a, "b": b}, {}, "b")
    here.later(minutes=10)
    here.act()
    assert (len(a.filed), len(b.filed)) == (1, 0)
    assert [filing.target for filing in here.case.filings] == ["a"]
    end(here)
    here.act()
    assert a.left_open == []


def test_a_ticket_of_a_target_that_nobody_has_any_more_is_closed_though_it_was_never_heard_of(here: Lab) -> None:
    a, b = Far(here, lost=1), Far(here)
    here.executor.desks = ManyDesks({"a": a, "b": b}, {}, "a")
    ask(here, Effect.TICKET)
    here.act()
    end(here)
    here.executor.desks = ManyDesks({"a": a, "b": b}, {}, "b")
    here.act()
    assert a.left_open == []


def test_a_first_attempt_asks_its_own_target_alone(here: Lab) -> None:
    class Down(Far):
        def find(self, key: str) -> tuple[Ticket, ...]:
            raise TicketsUnavailable(f"nobody answers who was asked for {key}")

    far = Far(here)
    here.executor.desks = ManyDesks({"a": far, "b": Down(here)}, {}, "a")
    ask(here, Effect.TICKET)
    here.act()
    assert here.status(Effect.TICKET) == "done"
