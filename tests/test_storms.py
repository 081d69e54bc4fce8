"""Many machines at once are one message, and no case is lost in it: a line, a story, and buttons where a yes is due."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from quarantine.adapters.slack.folded import MOST_ASKING, MOST_LINES
from quarantine.core.cards import MOST_ALONE, TOGETHER
from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action
from quarantine.core.model import Severity
from quarantine.sandbox.slack import SlackServer, serve_slack
from tests.boards import CHANNEL, PROVIDERS, TOKEN, Clock, Office, buttons, said
from tests.core import world


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def running(clock: Clock) -> Iterator[SlackServer]:
    with serve_slack(token=TOKEN, channels=[CHANNEL, PROVIDERS], now=clock.now) as server:
        yield server


@pytest.fixture
def office(running: SlackServer, clock: Clock) -> Office:
    running.reset()
    clock.at = Clock().at
    return Office(running, clock)


MANY = range(1, MOST_ALONE + 2)


def test_as_many_as_may_stand_alone_do(office: Office) -> None:
    office.opens(*list(MANY)[:-1])
    office.cycle(2)
    assert len(office.messages) == MOST_ALONE


def test_more_of_them_are_one_message_with_a_line_each(office: Office) -> None:
    office.opens(*MANY)
    office.cycle(2)
    (message,) = office.messages
    assert message.metadata == {
        "event_type": "quarantine_case",
        "event_payload": {"case": "storm-20261129T1200", "cluster": "lab"},
    }
    assert said(message).startswith(f"{len(MANY)} machines suspect in cluster lab\n")
    for n in MANY:
        assert f"• `node-{n}`: `GPU {n % 8} (GPU-{n:08x})` `91.5 °C`; is out of service" in said(message)
    assert office.slack.requests.count("conversations.history") == 1, "one reading answers for all"
    told = " ".join(office.story)
    assert all(f"UTC node-{n}: " in told for n in MANY)
    assert len(office.replies) == 1


def test_each_goes_its_own_way_in_it(office: Office) -> None:
    office.opens(*MANY)
    office.cycle(2)
    office.decides(Action.DRAIN, "node-2 is empty", 2, phase=Phase.DRAINED)
    office.ends(1)
    office.cycle()
    text = said(office.messages[0])
    assert "`node-2`: `GPU 2 (GPU-00000002)` `91.5 °C`; is drained since" in text
    assert "`node-1`: `GPU 1 (GPU-00000001)` `91.5 °C`; is back in service since" in text
    assert text.startswith(f"{len(MANY)} machines suspect in cluster lab: {len(MANY) - 1} still open")
    assert office.story[-2].endswith("node-2: node-2 is empty")
    for n in list(MANY)[1:]:
        office.ends(n)
    office.cycle(2)
    assert "all cases have ended" in said(office.messages[0])


def test_those_that_come_after_the_first_ones_are_folded_and_the_first_ones_stay(office: Office) -> None:
    for n in range(1, MOST_ALONE + 4):
        office.opens(n)
        assert office.cycle() == []
    assert len(office.messages) == MOST_ALONE + 1
    refs = [office.case(n).effects[Effect.NOTIFY].ref for n in range(1, MOST_ALONE + 4)]
    assert len(set(refs[:MOST_ALONE])) == MOST_ALONE
    assert len(set(refs[MOST_ALONE:])) == 1
    assert said(office.messages[-1]).startswith("3 machines suspect in cluster lab")


def test_ten_minutes_later_they_stand_alone_again(office: Office) -> None:
    office.opens(*MANY)
    office.cycle(2)
    office.clock.at += TOGETHER
    office.opens(50)
    office.cycle(2)
    assert len(office.messages) == 2


def test_after_a_restart_in_the_middle_they_come_together_all_the_same(office: Office) -> None:
    office.opens(*MANY)
    office.cycle(2)
    office.restart()
    office.clock.at += timedelta(seconds=30)
    office.opens(60, 61)
    office.cycle(3)
    (message,) = office.messages
    assert said(message).startswith(f"{len(MANY) + 2} machines suspect")


def test_channels_are_counted_apart(office: Office) -> None:
    office.rules = world.rules(routes=[{"severity": "fatal", "channel": PROVIDERS}])
    office.opens(*MANY)
    moved = office.trail[0]
    office.trail[0] = type(moved)(**{f: getattr(moved, f) for f in moved.__slots__} | {"severity": Severity.FATAL})
    office.cycle(2)
    assert sorted(m.channel for m in office.messages) == sorted([PROVIDERS, *[CHANNEL] * MOST_ALONE])


def test_those_that_wait_for_a_yes_come_first_and_have_their_buttons(office: Office) -> None:
    office.opens(*MANY)
    office.holds("a yes is waited for", 5)
    office.holds("a yes is waited for", 3)
    office.cycle(2)
    (message,) = office.messages
    lines = [line for line in said(message).splitlines() if line.startswith("•")]
    assert [line.partition("`")[0] for line in lines[:3]] == [
        "• *asks for your yes:* ",
        "• *asks for your yes:* ",
        "• ",
    ]
    assert buttons(message) == [
        (action, f'{{"case":"c-{n}","node":"node-{n}"}}') for n in (3, 5) for action in ("approve", "defer")
    ]


def test_of_sixty_the_rest_is_counted_and_slack_takes_it(office: Office) -> None:
    office.opens(*range(1, 61))
    for n in range(1, 61):
        office.holds("a yes is waited for", n)
    assert office.cycle() == []
    (message,) = office.messages
    lines = [line for line in said(message).splitlines() if line.startswith("•")]
    assert len(lines) == MOST_LINES
    assert f"… and {60 - MOST_LINES} more" in said(message)
    assert len(buttons(message)) == 2 * MOST_ASKING
    assert office.cycle(12) == []
    assert all(office.case(n).effects[Effect.NOTIFY].ref for n in range(1, 61))
    marked = [key for m in office.replies for key in m.metadata["event_payload"] if key.startswith("case/")]  # type: ignore[index]
    assert sorted(marked) == sorted(f"case/c-{n}" for n in range(1, 61)), "each story is told once"
