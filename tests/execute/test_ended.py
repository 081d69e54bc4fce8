"""What is certain of an attempt's end is on record, so the next process does what was not done, and nothing twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from quarantine.core.case import Effect, Phase, Purpose, Run
from quarantine.core.decision import Action, PendingEffect
from quarantine.core.errors import ClusterRefused, TicketsRefused, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Answerable, Ticket, Update
from quarantine.execute import Executor
from quarantine.ports import Order
from tests.execute.lab import Lab
from tests.execute.test_added import Far, cycles, desks
from tests.execute.test_machines import order
from tests.execute.test_people import remark


class Killed(BaseException):
    """The process is no more."""


class Mail(Far):
    """It can look nothing up. `sent`: the keys of what reached it."""

    def __init__(self) -> None:
        super().__init__(Answerable.BLIND)
        self.sent: list[str] = []

    def open(self, report: CaseReport, *rest: object) -> Ticket:
        if self.troubles and (trouble := self.troubles.pop(0)) is not None:
            raise trouble
        self.sent.append(report.key)
        return super().open(report, *rest)


class Stopping:
    """A port; once `name` was called, the process is asked to stop, or dies."""

    def __init__(self, inner: object, name: str, executor: Executor, *, killed: bool = False) -> None:
        self._inner, self._name, self._executor, self._killed = inner, name, executor, killed

    def __getattr__(self, name: str) -> object:
        inner = getattr(self._inner, name)
        if name != self._name:
            return inner

        def call(*given: object, **named: object) -> object:
            made = inner(*given, **named)
            if self._killed:
                raise Killed
            self._executor.stopping = lambda: True
            return made

        return call


def mailed(here: Lab) -> Mail:
    mail = Mail()
    desks(here, mail=mail)
    return mail


def next_process(here: Lab, mail: Mail | None = None) -> None:
    here.restart()
    if mail is not None:
        desks(here, mail=mail)
    here.later(minutes=6)
    here.act()


def waiting(here: Lab, effect: Effect) -> PendingEffect:
    return next(one for one in here.ledger.load().pending if one.effect is effect)


def test_a_letter_before_which_the_process_was_asked_to_stop_is_sent_by_the_next(here: Lab) -> None:
    mail = mailed(here)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    executor = here.executor

    def draw(_: object) -> bytes:
        executor.stopping = lambda: True
        return b"png"

    executor.draw = draw
    assert any("asked to stop" in said for said in here.act().postponed)
    assert mail.sent == []
    next_process(here, mail)
    assert mail.sent == [here.case.id]


def test_a_command_before_which_the_process_was_asked_to_stop_is_begun_by_the_next(here: Lab) -> None:
    run = order(here, Purpose.RESET, "reset")
    here.executor.cluster = Stopping(here.kube, "workloads", here.executor)  # type: ignore[assignment]
    here.act()
    assert here.runner.begun == {}
    next_process(here)
    assert list(here.runner.begun) == [run.name]


def test_a_letter_that_was_refused_is_sent_after_a_restart(here: Lab) -> None:
    mail = mailed(here)
    mail.troubles = [TicketsRefused("nobody there takes it")]
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    assert any("nobody there takes it" in said for said in here.act().postponed)
    assert waiting(here, Effect.TICKET).last_error == "nobody there takes it"
    next_process(here, mail)
    assert mail.sent == [here.case.id]


def with_remarks(here: Lab, count: int) -> Mail:
    mail = mailed(here)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    for number in range(count):
        remark(here, here.case.filings[0].ref, number, target="mail")
    return mail


def test_remarks_before_which_the_process_was_asked_to_stop_are_all_told_by_the_next(here: Lab) -> None:
    mail = with_remarks(here, 3)
    here.executor.ledger = Stopping(here.ledger, "attempt", here.executor)  # type: ignore[assignment]
    here.act()
    assert mail.told == []
    next_process(here, mail)
    assert [key for _, key in mail.told] == ["found-0", "found-1", "found-2"]


def test_of_remarks_between_which_the_process_ended_the_rest_is_told_by_the_next(here: Lab) -> None:
    mail = with_remarks(here, 3)
    here.executor.ledger = Stopping(here.ledger, "settle", here.executor)  # type: ignore[assignment]
    here.act()
    assert [key for _, key in mail.told] == ["found-0"]
    next_process(here, mail)
    assert [key for _, key in mail.told] == ["found-0", "found-1", "found-2"]


def killed_at_next(here: Lab, mail: Mail) -> None:
    """The process dies while it tells the next remark."""

    def killed(ref: str, update: Update) -> None:
        assert ref
        mail.asked.append(update.key)
        raise Killed

    mail.update = killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        here.act()
    del mail.update


def test_exactly_once_remarks_that_are_in_doubt_stay_so_where_the_next_process_begins_none(here: Lab) -> None:
    mail = with_remarks(here, 3)
    mail.troubles = [TicketsRefused("not now")] * 3
    here.act()
    here.later(minutes=6)
    killed_at_next(here, mail)
    here.restart()
    desks(here, mail=mail)
    here.later(minutes=6)
    here.executor.ledger = Stopping(here.ledger, "attempt", here.executor)  # type: ignore[assignment]
    here.act()
    next_process(here, mail)
    assert mail.told == [], "which of them was told is not known"
    assert here.status(Effect.COMMENT) != "pending"


def test_exactly_once_of_remarks_the_one_at_which_a_process_was_killed_stays_in_doubt(here: Lab) -> None:
    """The next one tells the others, is refused at one of them, and is ended: the first is told by nobody again."""
    mail = with_remarks(here, 3)

    killed_at_next(here, mail)
    mail.troubles = [TicketsRefused("not now")] * 2
    next_process(here, mail)
    assert mail.told == []
    next_process(here, mail)
    cycles(here)
    assert [key for _, key in mail.told] == ["found-1", "found-2"]
    assert mail.asked.count("found-0") == 1


@pytest.mark.parametrize("error", [TicketsUncertain("no answer came"), ValueError("a bug")])
def test_what_may_have_been_done_stays_in_doubt_on_record(here: Lab, error: Exception) -> None:
    far = Far()

    def open_(report: CaseReport, *_: object) -> Ticket:
        assert report.key
        raise error

    far.open = open_  # type: ignore[method-assign]
    desks(here, far=far)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    with capture_logs():  # a traceback takes long to be drawn
        here.act()
    tried = waiting(here, Effect.TICKET)
    assert (tried.attempts, tried.ended) == (1, 0)
    error = TicketsRefused("not now")
    here.later(minutes=6)
    here.act()
    tried = waiting(here, Effect.TICKET)
    assert (tried.attempts, tried.ended, tried.last_error) == (2, 0, "not now"), "that this one was not says nothing"


@pytest.mark.parametrize("tenures", [0, 1])
def test_exactly_once_what_was_seen_of_one_asking_says_nothing_of_the_next(here: Lab, tenures: int) -> None:
    """This process saw one refused twice. Another did it, was asked for a second one, and was killed in it."""
    order(here, Purpose.RESET, "reset")
    here.runner.trouble = ClusterRefused("not now")
    for _ in range(2):
        here.act()
        here.later(minutes=6)
    first, here.runner.trouble = here.executor, None
    here.restart()
    here.act()
    run = Run(f"{here.case.id}-reset-2", Purpose.RESET, "reset", here.clock.at, here.clock.at + timedelta(hours=1))
    here.decide(Action.RUN, run=run, effects=(Effect.RUN,), phase=Phase.REMEDY)
    begun: list[str] = []

    def start(order: Order) -> None:
        begun.append(order.run.name)
        raise Killed

    here.runner.start = start  # type: ignore[method-assign]
    with pytest.raises(Killed):
        here.act()
    first.tenure += tenures
    here.term, here.executor = here.ledger.take_term("the first again", here.kube.uid), first
    here.later(minutes=6)
    here.act()
    assert begun == [run.name]


def test_exactly_once_an_attempt_after_one_whose_end_is_on_record_is_in_doubt(here: Lab) -> None:
    mail = mailed(here)
    mail.troubles = [TicketsRefused("not now")]
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    here.later(minutes=6)
    here.executor.ledger = Stopping(here.ledger, "attempt", here.executor, killed=True)  # type: ignore[assignment]
    with pytest.raises(Killed):
        here.act()
    next_process(here, mail)
    assert mail.sent == [], "it may have been: a person looks"
    assert here.status(Effect.TICKET) != "pending"


def test_what_this_process_alone_has_seen_is_forgotten_where_another_may_have_led(here: Lab) -> None:
    far = Far()
    far.settles = timedelta(minutes=5)
    asked: list[str] = []

    def find(key: str) -> tuple[Ticket, ...]:
        asked.append(key)
        raise TicketsUncertain("no answer came")

    far.find = find  # type: ignore[method-assign]
    desks(here, far=far)
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    here.act()
    assert here.executor._memory.ended
    here.executor.tenure += 1
    here.act()
    assert not here.executor._memory.ended
