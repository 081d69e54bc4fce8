"""Each message, each line of its story and each chart is there once, whatever fails in between and however often."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from quarantine.board import LONGEST_REST
from quarantine.core.cards import MOST_ALONE
from quarantine.core.case import Effect, EffectStatus, Phase
from quarantine.core.decision import Action
from quarantine.sandbox.slack import Fault, FaultKind, SlackServer, serve_slack
from tests.boards import CHANNEL, PNG, TOKEN, Clock, Office, said

KINDS = [FaultKind.RATE_LIMITED, FaultKind.SERVER_ERROR, FaultKind.BAD_GATEWAY, FaultKind.CUT_OFF]
AGAIN = pytest.mark.parametrize("restarts", [False, True], ids=["goes-on", "restarts"])
STORED = pytest.mark.parametrize("stored", [False, True], ids=["before", "after"])


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def running(clock: Clock) -> Iterator[SlackServer]:
    with serve_slack(token=TOKEN, channels=[CHANNEL], now=clock.now) as server:
        yield server


@pytest.fixture
def office(running: SlackServer, clock: Clock) -> Office:
    running.reset()
    clock.at = Clock().at
    made = Office(running, clock, timeout=timedelta(seconds=1), draw=lambda _: PNG)
    made.opens(1)
    return made


def settle(office: Office, *, restarts: bool) -> None:
    """Whatever was put off is tried again until nothing is."""
    if restarts:
        office.restart()
    for _ in range(8):
        office.clock.at += LONGEST_REST
        office.cycle()
    assert office.cycle() == []


def check(office: Office, lines: int) -> None:
    (message,) = office.messages
    assert office.case().effects[Effect.NOTIFY].status is EffectStatus.DONE
    assert office.case().effects[Effect.NOTIFY].ref == f"{CHANNEL}:{message.ts}"
    assert len(office.story) == len(set(office.story)) == lines
    assert [upload.filename for upload in office.slack.files.uploads if upload.complete] == ["c-1.png"]


@AGAIN
@STORED
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_once_when_the_post_fails(kind: FaultKind, stored: bool, restarts: bool, office: Office) -> None:
    office.slack.fail(Fault(kind, method="chat.postMessage", stored=stored))
    assert office.cycle() != []
    assert len(office.messages) == int(stored)
    settle(office, restarts=restarts)
    check(office, 1)


@AGAIN
@STORED
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_once_when_a_reply_fails(kind: FaultKind, stored: bool, restarts: bool, office: Office) -> None:
    office.cycle(3)
    office.decides(Action.DRAIN, "node-1 is emptied", phase=Phase.DRAINING)
    office.slack.fail(Fault(kind, method="chat.postMessage", stored=stored))
    assert office.cycle() != []
    assert len(office.replies) == 1 + int(stored)
    office.decides(Action.DRAIN, "node-1 is empty", phase=Phase.DRAINED)
    settle(office, restarts=restarts)
    check(office, 3)
    assert "is drained" in said(office.messages[0])


@AGAIN
@STORED
@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_once_when_a_chart_fails(
    kind: FaultKind, method: str, stored: bool, restarts: bool, office: Office
) -> None:
    office.slack.fail(Fault(kind, method=method, stored=stored))
    office.cycle(3)
    settle(office, restarts=restarts)
    check(office, 1)


@AGAIN
@STORED
@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update", "conversations.replies"])
def test_exactly_once_when_there_is_no_answer_in_time(
    method: str, stored: bool, restarts: bool, office: Office
) -> None:
    office.slack.fail(Fault(FaultKind.HANG, method=method, stored=stored))
    office.cycle(2)
    settle(office, restarts=restarts)
    check(office, 1)


@pytest.mark.parametrize("at", range(1, 10))
@STORED
def test_exactly_once_wherever_the_process_dies(at: int, stored: bool, office: Office) -> None:
    """The n-th request to Slack fails, and the process is another one afterwards."""
    passed = _Nth(office, at, stored)
    office.decides(Action.DRAIN, "node-1 is emptied", phase=Phase.DRAINING)
    for _ in range(4):
        office.cycle()
        passed.strike()
    settle(office, restarts=True)
    office.ends()
    settle(office, restarts=True)
    check(office, 3)
    assert "is back in service" in said(office.messages[0])


class _Nth:
    """Lets one request fail, by its number."""

    def __init__(self, office: Office, at: int, stored: bool) -> None:
        self._office, self._at, self._stored = office, at, stored
        real = office.slack._arrived

        def arrived(method: str) -> Fault | None:
            fault = real(method)
            self._at -= 1
            return Fault(FaultKind.CUT_OFF, stored=self._stored) if self._at == 0 else fault

        office.slack._arrived = arrived  # type: ignore[method-assign]
        self._real = real

    def strike(self) -> None:
        """A process that met the fault is gone."""
        if self._at <= 0:
            self._office.slack._arrived = self._real  # type: ignore[method-assign]
            self._office.restart()
            self._at = 1 << 30


@AGAIN
@STORED
def test_exactly_once_of_a_storm(stored: bool, restarts: bool, office: Office) -> None:
    many = range(1, MOST_ALONE + 8)
    office.opens(*list(many)[1:])
    office.slack.fail(Fault(FaultKind.CUT_OFF, method="chat.postMessage", stored=stored))
    office.cycle()
    settle(office, restarts=restarts)
    (message,) = office.messages
    assert {office.case(n).effects[Effect.NOTIFY].ref for n in many} == {f"{CHANNEL}:{message.ts}"}
    assert len(office.replies) >= 1
    told = [n for n in many if f"`node-{n}`" in said(message)]
    assert told == list(many)
