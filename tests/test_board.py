"""One message a case, kept as the case stands, its story in the thread: against the stand-in, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from quarantine.board import LONGEST_REST, MOST_SHOWN, MOST_TOLD
from quarantine.core.cards import TOGETHER, Card, Fold
from quarantine.core.case import Effect, HeldBy, Phase, PodRef
from quarantine.core.decision import Action, Kind
from quarantine.core.errors import LedgerUnavailable, UsageError
from quarantine.core.tickets import Filing, TicketState
from quarantine.core.workload import Class, Pod, Workloads
from quarantine.posted import KEPT
from quarantine.sandbox.slack import ALL_SCOPES, Fault, FaultKind, SlackServer, serve_slack
from tests.boards import CHANNEL, PNG, PROVIDERS, TOKEN, Clock, Office, buttons, said
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


def test_a_case_is_one_message_that_says_how_it_stands(office: Office) -> None:
    office.opens(1)
    assert office.cycle(2) == []
    (message,) = office.messages
    assert "*Now:* `node-1` is out of service since 2026-11-29 12:00 UTC" in said(message)
    office.decides(Action.DRAIN, "node-1 is emptied", phase=Phase.DRAINING)
    assert office.cycle() == []
    (message,) = office.messages
    assert "*Now:* `node-1` is being drained" in said(message)
    assert message.metadata == {"event_type": "quarantine_case", "event_payload": {"case": "c-1", "cluster": "lab"}}


def test_what_did_not_change_is_not_sent_again(office: Office) -> None:
    office.opens(1)
    office.cycle(3)
    before = len(office.slack.requests)
    assert office.cycle(5) == []
    assert len(office.slack.requests) == before


def test_a_case_that_ended_is_summed_up_in_place_and_has_no_buttons(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    assert [action for action, _ in buttons(office.messages[0])] == ["dismiss", "evidence"]
    office.ends()
    office.cycle()
    (message,) = office.messages
    assert said(message).startswith("node-1 is back in service")
    assert "*Asked:* nothing any more." in said(message)
    assert buttons(message) == []


def test_the_story_is_told_in_the_thread_once(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    assert office.story == ["• 2026-11-29 12:00 UTC node-1: GPU 1 is at 91.5 °C, above 78 °C for 5m"]
    office.decides(Action.DRAIN, "node-1 is emptied", phase=Phase.DRAINING)
    office.decides(Action.DRAIN, "node-1 is empty", phase=Phase.DRAINED)
    office.cycle(3)
    assert [line.partition("UTC ")[2] for line in office.story[1:]] == ["node-1 is emptied", "node-1 is empty"]
    assert len(office.replies) == 2, "what one cycle brought is one reply"
    assert {m.thread_ts for m in office.replies} == {office.messages[0].ts}


def test_what_a_node_is_shown_and_what_is_looked_up_is_no_part_of_the_story(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    office.decides(Action.SHOW, "the label follows", kind=Kind.DONE, effect=Effect.PHASE)
    office.decides(Action.JUDGE, "a hold is lifted", hold_key="drain/c-1")
    office.cycle(2)
    assert len(office.replies) == 1


def test_a_yes_that_is_waited_for_has_buttons(office: Office) -> None:
    office.opens(1)
    office.holds("another machine for node-1 is asked for once a person approves it")
    office.cycle(2)
    (message,) = office.messages
    assert [action for action, _ in buttons(message)] == ["approve", "defer", "dismiss", "evidence"]
    assert {value for _, value in buttons(message)} == {'{"case":"c-1","node":"node-1"}'}
    assert "*Asked:* please say whether another machine may be asked for" in said(message)
    assert "Waits: another machine for node-1 is asked for once a person approves it" in said(message)
    office.decides(Action.APPROVE, "alice approves", actor="alice", hold_key="approval/c-1")
    office.cycle()
    assert [action for action, _ in buttons(office.messages[0])] == ["dismiss", "evidence"]
    assert office.story[-1].endswith("alice approves")


def test_what_a_person_put_off_can_be_approved_all_the_same_and_says_until_when(office: Office) -> None:
    office.opens(1)
    office.holds("a yes is waited for")
    office.cycle(2)
    until = office.clock.at + timedelta(hours=4)
    office.decides(Action.DEFER, "alice: not now", actor="alice", until=until, hold_key="approval/c-1")
    office.cycle()
    (message,) = office.messages
    assert [action for action, _ in buttons(message)] == ["approve", "defer", "dismiss", "evidence"]
    assert f"Waits: no other machine is asked for before {until:%Y-%m-%d %H:%M} UTC" in said(message)
    office.clock.at = until
    office.cycle()
    assert "Waits:" not in said(office.messages[0])


def test_without_a_listener_there_is_no_button(office: Office) -> None:
    office.buttons = False
    office.restart()
    office.opens(1)
    office.holds("a yes is waited for")
    office.cycle(2)
    assert buttons(office.messages[0]) == []


def test_it_says_who_is_affected_and_what_the_tickets_have_come_to(office: Office) -> None:
    office.opens(1)
    pods = [Pod(PodRef("ml", f"w-{n}", f"u{n}"), "node-1", Class.TRAINING, gang="JobSet ml/llama") for n in range(2)]
    office.workloads = Workloads({"node-1": (*pods, Pod(PodRef("ml", "web", "u9"), "node-1", Class.SERVICE))})
    filing = Filing(
        "R-1", "c-1", "jira", "report", office.clock.at, TicketState.ACKNOWLEDGED, url="https://t.example/1"
    )
    office.decides(Action.TICKET, "R-1 is filed", kind=Kind.DONE, effect=Effect.TICKET, ref="R-1", ticket=filing)
    office.cycle(2)
    text = said(office.messages[0])
    assert "Affected: there runs training: JobSet ml/llama (2 pods there), and 1 pod of other kinds" in text
    assert "*Tickets:* `R-1` is acknowledged <https://t.example/1|open>" in text
    office.nodes = {"node-1": world.node("node-1", gpus=8)}
    office.workloads = Workloads({"node-1": ()})
    office.cycle()
    assert "Affected: nothing runs there, and its 8 GPUs are idle" in said(office.messages[0])


def test_after_a_restart_every_message_is_shown_once_and_no_line_is_told_again(office: Office) -> None:
    office.opens(1, 2)
    office.cycle(3)
    told = office.story
    office.restart()
    office.slack.fail()
    before = office.slack.requests.count("chat.update")
    office.cycle(4)
    assert office.slack.requests.count("chat.update") == before + 2
    assert office.story == told
    assert len(office.messages) == 2


def test_what_happened_while_the_process_was_away_is_one_reply(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    for n in range(30):
        office.decides(Action.DRAIN, f"step {n}")
    office.restart()
    office.cycle(3)
    assert len(office.replies) == 2
    assert office.story[-2].endswith("step 29")
    assert office.story[-1] == "… and 20 more: see quarantine explain"


def test_a_case_that_ended_long_ago_is_left_alone(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    office.ends()
    office.cycle(2)
    office.clock.at += KEPT
    office.restart()
    before = len(office.slack.requests)
    office.cycle(2)
    assert len(office.slack.requests) == before


def test_while_slack_is_away_it_is_asked_ever_more_rarely_and_then_told_the_newest_alone(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    office.slack.fail(*[Fault(FaultKind.SERVER_ERROR)] * 100)
    asked = len(office.slack.requests)
    for n in range(40):
        office.decides(Action.DRAIN, f"step {n}", phase=Phase.DRAINING if n < 39 else Phase.DRAINED)
        office.cycle()
    assert len(office.slack.requests) - asked < 12
    office.slack._faults.clear()
    office.clock.at += LONGEST_REST
    updates, replies = office.slack.requests.count("chat.update"), len(office.replies)
    assert office.cycle(2) == []
    assert office.slack.requests.count("chat.update") == updates + 1
    assert len(office.replies) == replies + 1
    assert "is drained" in said(office.messages[0])


def test_who_asks_to_wait_is_waited_for(office: Office) -> None:
    office.opens(1)
    office.cycle(2)
    office.ends()
    office.slack.fail(Fault(FaultKind.RATE_LIMITED, method="chat.update", retry_after="120"))
    (sentence,) = office.cycle()
    assert sentence.startswith("what Slack says of case c-1 on node-1 is put off: Slack at ")
    asked = len(office.slack.requests)
    office.cycle(7)
    assert len(office.slack.requests) == asked
    office.cycle(2)
    assert "is back in service" in said(office.messages[0])


def test_a_message_that_is_gone_keeps_no_other_from_being_shown(office: Office) -> None:
    office.opens(1, 2)
    office.cycle(2)
    gone = next(m for m in office.messages if "node-1" in m.text)
    office.slack.workspace._messages.remove(gone)
    office.ends(1)
    office.ends(2)
    put_off = office.cycle()
    assert any("message_not_found" in sentence for sentence in put_off)
    assert "node-2 is back in service" in said(office.messages[0])


def test_a_ledger_that_fails_meanwhile_puts_the_story_off_and_nothing_else(office: Office) -> None:
    office.opens(1)
    office.ledger_trouble = LedgerUnavailable("the database is away")
    office.cycle()
    put_off = office.cycle()
    assert put_off == ["the story of case c-1 on node-1 on Slack is put off: the database is away"]
    office.ledger_trouble = None
    assert office.cycle(2) == []
    assert len(office.story) == 1


def test_many_cases_are_shown_a_few_at_a_time(office: Office) -> None:
    for n in range(1, 26):
        office.opens(n)
        office.posts()
        office.clock.at += TOGETHER
    assert len(office.messages) == 25
    for _ in range(5):
        before = len(office.slack.requests)
        assert office.cycle() == []
        asked = office.slack.requests[before:]
        assert asked.count("chat.update") <= MOST_SHOWN
        assert asked.count("chat.postMessage") <= MOST_TOLD
    assert office.cycle(4) == []
    assert len(office.story) == 25
    assert all("is out of service since" in said(m) for m in office.messages)


def test_a_chart_is_attached_once(office: Office) -> None:
    drawn: list[object] = []

    def draw(data: object) -> bytes:
        drawn.append(data)
        return PNG

    office.draw = draw
    office.restart()
    office.opens(1)
    office.cycle(3)
    (upload,) = office.slack.files.uploads
    assert (upload.filename, upload.content, upload.complete) == ("c-1.png", PNG, True)
    assert (upload.channel, upload.thread_ts) == (CHANNEL, office.messages[0].ts)
    office.restart()
    office.cycle(4)
    assert len(office.slack.files.uploads) == 1
    assert len(drawn) == 1


def test_where_the_scope_for_files_is_missing_it_is_said_ever_more_rarely(clock: Clock) -> None:
    clock.at = Clock().at
    with serve_slack(token=TOKEN, channels=[CHANNEL], scopes=ALL_SCOPES - {"files:write"}, now=clock.now) as slack:
        office = Office(slack, clock, draw=lambda _: PNG)
        office.opens(1, 2, 3, 4)
        put_off = [sentence for _ in range(40) for sentence in office.cycle()]
        assert all("needs files:write" in sentence for sentence in put_off)
        assert 3 < len(put_off) < 12, "for all cases together"
        assert len(office.story) == 4


def test_without_the_library_the_chart_is_left_out_and_nothing_else(office: Office) -> None:
    def draw(data: object) -> bytes:
        raise UsageError("charts need matplotlib")

    office.draw = draw
    office.restart()
    office.opens(1)
    assert office.cycle(4) == []
    assert office.slack.files.uploads == []
    assert len(office.story) == 1


def test_a_providers_channel_gets_the_request_without_internal_detail(office: Office) -> None:
    office.rules = world.rules(routes=[{"provider": "acme", "channel": PROVIDERS, "shared": True}])
    office.draw = lambda _: PNG
    office.restart()
    office.opens(1)
    office.trail[-1] = office.trail[-1].__class__(
        **{**{f: getattr(office.trail[-1], f) for f in office.trail[-1].__slots__}, "provider": "acme", "pool": "gpu"}
    )
    pod = Pod(PodRef("ml", "w-1", "u1"), "node-1", Class.TRAINING, gang="JobSet ml/secret-model")
    office.workloads = Workloads({"node-1": (pod,)})
    office.holds("alice or bob have to approve it", held_by=HeldBy.BUDGET, key="case")
    office.cycle(2)
    office.decides(Action.DRAIN, "JobSet ml/secret-model left", phase=Phase.DRAINED)
    office.cycle(2)
    (message,) = office.messages
    assert message.channel == PROVIDERS
    text = said(message) + message.text + "".join(office.story)
    for inside in ("gpu-hot", "max_over_time", "secret-model", "alice", "controller", "budget", "`gpu`"):
        assert inside not in text
    assert "91.5 °C" in text
    assert "above 78 °C" in text
    assert [line.partition("UTC ")[2] for line in office.story] == [
        "the machine is out of service",
        "what ran there has left",
    ]
    assert office.slack.files.uploads == []
    assert buttons(message) == []


@pytest.mark.parametrize("routes", [[], [{"severity": "fatal", "channel": PROVIDERS}]], ids=["gone", "ours-alone"])
def test_where_the_message_is_counts_and_not_where_a_route_sends_it_now(routes: list[object], office: Office) -> None:
    office.rules = world.rules(routes=[{"severity": "critical", "channel": PROVIDERS, "shared": True}])
    office.opens(1)
    office.cycle(2)
    assert "gpu-hot" not in said(office.messages[0])
    office.rules = world.rules(routes=routes)
    office.holds("alice has to approve it")
    office.cycle()
    shown = said(office.messages[0])
    assert ("alice" in shown) == ("gpu-hot" in shown) == bool(routes), "unless a route says that it is ours alone"


def test_a_defect_in_one_message_is_said_and_stops_no_other(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.opens(1, 2)
    office.cycle()
    real = office.notifier.show

    def show(ref: str, what: Card | Fold) -> None:
        if isinstance(what, Card) and what.report.node == "node-1":
            raise ZeroDivisionError
        real(ref, what)

    monkeypatch.setattr(office.notifier, "show", show)
    office.ends(1)
    office.ends(2)
    with capture_logs() as logs:
        put_off = office.cycle()
    assert put_off == ["what Slack says of case c-1 on node-1 is put off by a defect (ZeroDivisionError)"]
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert any("node-2 is back" in said(m) for m in office.messages)


def test_without_slack_nothing_is_done(office: Office) -> None:
    office.board.notifier = None
    office.trail.clear()
    assert office.cycle() == []
    assert office.slack.requests == []
