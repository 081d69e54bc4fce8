"""All of it: a click in Slack, over a real WebSocket, to a row of a real ledger, and an answer to who clicked."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from quarantine.adapters.slack.backlog import Backlog
from quarantine.adapters.slack.buttons import actions
from quarantine.adapters.slack.desk import Answers, Desk
from quarantine.adapters.slack.inbound import Inbound, connect_inbound
from quarantine.adapters.slack.notifier import client_of
from quarantine.adapters.slack.people import Members
from quarantine.adapters.slack.signature import Door
from quarantine.adapters.slack.socketmode import Listener
from quarantine.adapters.slack.telling import answers
from quarantine.core.cards import Card
from quarantine.core.case import Case, Phase
from quarantine.core.decision import Request, RequestKind, State
from quarantine.core.errors import NotifierRefused
from quarantine.core.letters import CaseReport
from quarantine.core.planner import plan
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import SqlLedger, open_ledger
from quarantine.sandbox.slack import Message, SlackServer, View, signed
from tests.adapters.slack.conftest import APP_TOKEN, APPROVERS, CHANNEL, TOKEN, Hands
from tests.core.world import NOW, fleet, hot, rules, snapshot

SIGNING = "8f742231b10e8888abcd99yyyzzz85a5"


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("migrated") / "ledger.db"
    upgrade(f"sqlite:///{made}")
    return made


@pytest.fixture
def opened(migrated: Path, tmp_path: Path, clock: Hands) -> Callable[[], SqlLedger]:
    """Opens the ledger of this test, in which node-3 was taken out."""
    shutil.copy(migrated, tmp_path / "ledger.db")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with open_ledger(url, "lab", now=clock) as ledger:
        ledger.record(ledger.take_term("test"), plan(snapshot(fleet(), hot("node-3")), rules()).decisions)
    return lambda: open_ledger(url, "lab", now=clock)


@pytest.fixture
def case(opened: Callable[[], SqlLedger]) -> Case:
    with opened() as ledger:
        (found,) = ledger.load().state.cases.values()
    return found


@pytest.fixture
def inbound(slack: SlackServer, opened: Callable[[], SqlLedger], clock: Hands) -> Iterator[Inbound]:
    made = connect_inbound(
        TOKEN,
        answers(opened),
        app_token=APP_TOKEN,
        signing_secret=lambda: SIGNING,
        groups=lambda: (APPROVERS,),
        now=clock,
        base_url=slack.base_url,
    )
    made.start()
    slack.sockets.wait_connected(2)
    yield made
    assert made.stop()
    slack.sockets.wait_connected(0)


@pytest.fixture
def message(slack: SlackServer, make_report: Callable[..., CaseReport], case: Case) -> Message:
    card = Card(report=make_report(key=case.id, node=case.node), asks=True)
    client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
    client.chat_postMessage(channel=CHANNEL, text="suspect", blocks=actions(card))
    return slack.messages[-1]


def test_start_up_looks_at_both_tokens(slack: SlackServer, opened: Callable[[], SqlLedger], clock: Hands) -> None:
    def checked(token: str, app_token: str) -> None:
        said = answers(opened)
        connect_inbound(token, said, app_token=app_token, groups=tuple, now=clock, base_url=slack.base_url).check()

    checked(TOKEN, APP_TOKEN)
    for token, app_token in (("xoxb-wrong", APP_TOKEN), (TOKEN, "xapp-wrong")):
        with pytest.raises(NotifierRefused, match="invalid_auth"):
            checked(token, app_token)


def lost_again(slack: SlackServer, attempt: int) -> bool:
    return slack.sockets.lost == attempt


def until(found: Callable[[], bool]) -> None:
    pause = threading.Event()
    assert any(found() or pause.wait(0.01) for _ in range(1000))


def view_of(slack: SlackServer, inbound: Inbound) -> View:
    assert inbound.stop()  # what was taken is worked off then
    return slack.acts.views[-1]


def test_exactly_once_a_click_becomes_a_row_however_it_is_delivered(
    slack: SlackServer, inbound: Inbound, message: Message, case: Case, opened: Callable[[], SqlLedger], clock: Hands
) -> None:
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve").wait()
    assert slack.sockets.deliver("interactive", delivery.payload).wait().acknowledged  # again, over another connection
    assert inbound.door is not None
    assert inbound.door(*signed(delivery.payload, SIGNING, clock()))[0] == 200  # and the other way
    assert inbound.stop()
    with opened() as ledger:
        (asked,) = ledger.load().requests
    assert (asked.kind, asked.case, asked.node, asked.groups) == (RequestKind.APPROVE, case.id, "node-3", (APPROVERS,))
    assert (asked.actor, asked.channel) == ("ann (U0ANN)", "slack")
    assert [e.user for e in slack.ephemerals] == ["U0ANN"]
    assert inbound.tally.taken == 1
    assert inbound.link is not None
    assert inbound.link.received == 2


def test_exactly_once_though_acknowledgements_are_lost(
    slack: SlackServer, inbound: Inbound, message: Message, opened: Callable[[], SqlLedger], clock: Hands
) -> None:
    slack.sockets.lose(2)
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
    for attempt in (1, 2):
        until(partial(lost_again, slack, attempt))
        clock.advance(timedelta(seconds=3))
    delivery.wait()
    assert (delivery.acknowledged, delivery.attempts) == (True, 3)
    assert inbound.stop()
    with opened() as ledger:
        assert len(ledger.load().requests) == 1
    assert len(slack.ephemerals) == 1


def test_exactly_once_after_the_process_was_started_again(
    slack: SlackServer, inbound: Inbound, message: Message, opened: Callable[[], SqlLedger], clock: Hands
) -> None:
    payload = slack.acts.click("U0ANN", message, "quarantine.approve").wait().payload
    assert inbound.stop()
    again = connect_inbound(
        TOKEN,
        answers(opened),
        signing_secret=lambda: SIGNING,
        groups=lambda: (APPROVERS,),
        now=clock,
        base_url=slack.base_url,
    )
    assert again.link is None
    again.start()
    clock.advance(timedelta(minutes=1))
    assert again.door is not None
    assert again.door(*signed(payload, SIGNING, clock()))[0] == 200
    assert again.stop()
    with opened() as ledger:
        assert len(ledger.load().requests) == 1


def test_what_is_shown_comes_from_the_ledger(
    slack: SlackServer, inbound: Inbound, message: Message, case: Case
) -> None:
    slack.acts.click("U0ANN", message, "quarantine.evidence").wait()
    slack.acts.run("U0ANN", CHANNEL, "status").wait()
    slack.acts.run("U0ANN", CHANNEL, "explain node-3").wait()
    assert inbound.stop()
    evidence, status, explained = (e.blocks[0]["text"]["text"] for e in slack.ephemerals)
    assert "query " in evidence
    assert f"(case {case.id})" in status
    assert explained.startswith("node-3 is quarantined")


def test_a_false_alarm_is_asked_of_the_leader_by_a_form(
    slack: SlackServer, inbound: Inbound, message: Message, case: Case, opened: Callable[[], SqlLedger]
) -> None:
    slack.acts.click("U0ANN", message, "quarantine.dismiss").wait()
    view = view_of(slack, inbound)
    later = connect_inbound(
        TOKEN, answers(opened), app_token=APP_TOKEN, groups=tuple, now=inbound.desk._now, base_url=slack.base_url
    )
    later.start()
    slack.sockets.wait_connected(2)
    slack.acts.submit(view, {"why": "the sensor is broken"}).wait()
    assert later.stop()
    with opened() as ledger:
        (asked,) = ledger.load().requests
    assert (asked.kind, asked.reason, asked.case) == (RequestKind.RELEASE, "false alarm: the sensor is broken", case.id)
    # The core decides of it as of the command line's.
    with opened() as ledger:
        made = plan(snapshot(fleet(), state=ledger.load().state, requests=(asked,), now=NOW), rules())
    assert [(d.phase, d.case, d.actor) for d in made.decisions if d.request == asked.id] == [
        (Phase.RELEASED, case.id, "ann (U0ANN) (slack)")
    ]


def test_nothing_of_a_stranger_reaches_the_ledger(
    slack: SlackServer, inbound: Inbound, message: Message, opened: Callable[[], SqlLedger]
) -> None:
    slack.acts.click("U0FAR", message, "quarantine.approve").wait()
    assert inbound.stop()
    with opened() as ledger:
        assert ledger.load().requests == ()
        assert ledger.load().state != State()
    assert slack.ephemerals[-1].text.startswith("Nothing was done")


# --- Killed, wherever it is -------------------------------------------------------------------------------------------


def test_killed_between_receipt_and_record_slack_has_no_acknowledgement_and_the_next_process_takes_it(
    slack: SlackServer, message: Message, opened: Callable[[], SqlLedger], clock: Hands
) -> None:
    first = Process(slack, answers(opened), clock, patience=BRIEF)
    first.hangs_before_the_record()
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
    until(lambda: first.listener.link.turned_away == 1)
    assert not delivery.acknowledged
    first.kill()
    slack.sockets.wait_connected(0)
    second = Process(slack, answers(opened), clock)
    clock.advance(timedelta(seconds=3))
    assert delivery.wait().acknowledged
    second.stop()
    assert recorded(opened) == 1
    first.ends()  # it was only slow: what it records late is the same request
    assert recorded(opened) == 1


def test_killed_between_record_and_acknowledgement_it_is_taken_once(
    slack: SlackServer, message: Message, opened: Callable[[], SqlLedger], clock: Hands
) -> None:
    first = Process(slack, answers(opened), clock, patience=BRIEF)
    first.hangs_after_the_record()
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
    until(lambda: first.listener.link.turned_away == 1 and recorded(opened) == 1)
    assert not delivery.acknowledged
    first.kill()
    slack.sockets.wait_connected(0)
    second = Process(slack, answers(opened), clock)
    clock.advance(timedelta(seconds=3))
    assert delivery.wait().acknowledged
    second.stop()
    first.ends()
    assert recorded(opened) == 1
    assert [e.user for e in slack.ephemerals][:1] == ["U0ANN"]


def test_at_the_door_slack_is_told_no_where_the_record_hangs(
    slack: SlackServer, message: Message, opened: Callable[[], SqlLedger], clock: Hands
) -> None:
    first = Process(slack, answers(opened), clock, patience=BRIEF)
    second = Process(slack, answers(opened), clock)
    payload = slack.acts.click_payload("U0ANN", message, "quarantine.approve")
    first.hangs_before_the_record()
    assert Door(lambda: SIGNING, first.backlog.offer, now=clock)(*signed(payload, SIGNING, clock())) == (503, b"busy")
    assert recorded(opened) == 0
    assert Door(lambda: SIGNING, second.backlog.offer, now=clock)(*signed(payload, SIGNING, clock())) == (200, b"")
    assert recorded(opened) == 1
    for one in (first, second):
        one.stop()
    assert recorded(opened) == 1


BRIEF = 0.1  # seconds that Slack is kept waiting


def recorded(opened: Callable[[], SqlLedger]) -> int:
    with opened() as ledger:
        return len(ledger.load().requests)


class Process:
    """One life of what listens: it may hang at the record, and be gone from one moment to the next."""

    def __init__(self, slack: SlackServer, given: Answers, clock: Hands, *, patience: float = 30.0) -> None:
        """`patience`: seconds; as long as it takes here, where nothing hangs."""
        self._before, self._after = threading.Event(), threading.Event()
        self._before.set()
        self._after.set()
        client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
        members = Members(client, groups=lambda: (APPROVERS,), now=clock)
        desk = Desk(client, members, replace(given, ask=partial(self._ask, given.ask)), now=clock)
        self.backlog = Backlog(desk.take, patience=patience)
        self.listener = Listener(APP_TOKEN, self.backlog.offer, base_url=slack.base_url, connections=1)
        self.backlog.start()
        self.listener.start()
        until(lambda: self.listener.link.connected == 1)

    def _ask(self, ask: Callable[[Request], None], request: Request) -> None:
        assert self._before.wait(10)
        ask(request)
        assert self._after.wait(10)

    def hangs_before_the_record(self) -> None:
        self._before.clear()

    def hangs_after_the_record(self) -> None:
        self._after.clear()

    def goes_on(self) -> None:
        self._before.set()
        self._after.set()

    def kill(self) -> None:
        """Its connections are gone; what it had in memory says nothing any more."""
        assert self.listener.stop()

    def ends(self) -> None:
        """What it had in memory is worked off after all."""
        self.goes_on()
        assert self.backlog.stop()

    def stop(self) -> None:
        self.kill()
        self.ends()
