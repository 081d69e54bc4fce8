"""From a click in Slack to a request of the ledger, over HTTP with the stock SDK: each answered, none twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.adapters.slack.backlog import Backlog, Record
from quarantine.adapters.slack.backlog import Rest as Left
from quarantine.adapters.slack.buttons import actions
from quarantine.adapters.slack.commands import Views
from quarantine.adapters.slack.desk import Answers, Desk
from quarantine.adapters.slack.notifier import client_of
from quarantine.adapters.slack.people import Members
from quarantine.core.cards import Card
from quarantine.core.decision import Request, RequestKind
from quarantine.core.errors import LedgerUnavailable, SchemaMismatch
from quarantine.core.letters import CaseReport
from quarantine.sandbox.slack import Fault, FaultKind, Message, SlackServer
from tests.adapters.slack.conftest import APPROVERS, CHANNEL, TOKEN, Hands

CASE = "q-7f3a2b1c05"


class Rest:
    """What the desk is given of the rest: a ledger's requests, and what is known of cases."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.ended: dict[str, str] = {}
        self.lines: list[str] = ["GPU 3: 91.5 °C, above 78 °C for 5m"]
        self.away = False

    def ask(self, request: Request) -> None:
        if self.away:
            raise LedgerUnavailable("the database does not answer at postgresql://secret@db")
        self.requests.setdefault(request.id, request)

    def evidence(self, case: str) -> Sequence[str]:
        return list(self.lines) if case == CASE else []

    def no_say(self, case: str, groups: Collection[str]) -> str | None:
        return f"{APPROVERS} says it." if case == CASE and APPROVERS not in groups else None

    @property
    def asked(self) -> list[Request]:
        return list(self.requests.values())


def settle(desk: Desk, kind: str, payload: object, settled: Callable[[bool], None]) -> Left | None:
    """A payload until it is settled, as by the first worker: what is left then."""
    left = desk.take(kind, payload, settled)
    return left.write() if isinstance(left, Record) else left


def take(desk: Desk, kind: str, payload: object) -> bool:
    """All that is done with a payload: whether Slack is told that we have it."""
    told: list[bool] = []
    rest = settle(desk, kind, payload, told.append)
    (have,) = told
    if rest is not None:
        rest()
    assert len(told) == 1
    return have


@pytest.fixture
def rest() -> Rest:
    return Rest()


@pytest.fixture
def desk(slack: SlackServer, rest: Rest, clock: Hands) -> Desk:
    client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
    views = Views(status=lambda: ["1 node is out"], explain=lambda node: [f"{node} is hot"])
    answers = Answers(rest.ask, rest.ended.get, rest.evidence, views, rest.no_say)
    return Desk(client, Members(client, groups=lambda: (APPROVERS,), now=clock), answers, now=clock)


@pytest.fixture
def message(slack: SlackServer, make_report: Callable[..., CaseReport]) -> Message:
    client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
    card = Card(report=make_report(key=CASE), asks=True)
    client.chat_postMessage(channel=CHANNEL, text="gpu-017 suspect", blocks=actions(card))
    return slack.messages[-1]


Act = Callable[..., None]


@pytest.fixture
def click(slack: SlackServer, desk: Desk, message: Message) -> Act:
    """Click, delivered so often."""

    def act(user: str, button: str, times: int = 1) -> None:
        payload = slack.acts.click_payload(user, message, f"quarantine.{button}")
        for _ in range(times):
            take(desk, "interactive", json.loads(json.dumps(payload)))

    return act


@pytest.fixture
def submit(slack: SlackServer, desk: Desk) -> Act:
    """Answer the form that is open, delivered so often."""

    def act(times: int = 1, **values: str) -> None:
        payload = slack.acts.submit_payload(slack.acts.views[-1], {name.rstrip("_"): v for name, v in values.items()})
        for _ in range(times):
            take(desk, "interactive", payload)

    return act


def test_an_approval_is_a_request_with_the_persons_id_and_groups(
    slack: SlackServer, click: Act, rest: Rest, clock: Hands
) -> None:
    click("U0ANN", "approve")
    (asked,) = rest.asked
    assert (asked.kind, asked.node, asked.case) == (RequestKind.APPROVE, "gpu-017", CASE)
    assert (asked.actor, asked.channel, asked.groups, asked.at) == ("ann (U0ANN)", "slack", (APPROVERS,), clock())
    (shown,) = slack.ephemerals
    assert (shown.channel, shown.user) == (CHANNEL, "U0ANN")
    assert shown.text.startswith("Your word is with the controller: another machine may be asked for")


def test_a_member_outside_the_group_is_told_so_and_the_core_decides(
    slack: SlackServer, click: Act, submit: Act, rest: Rest
) -> None:
    """The word is on record, with its refusal."""
    click("U0BOB", "approve")
    assert [r.groups for r in rest.asked] == [()]
    assert slack.ephemerals[-1].text.startswith(f"Your word is recorded, and nothing is done by it: {APPROVERS} says")
    click("U0BOB", "defer")
    submit(for_="4h")
    assert [r.kind for r in rest.asked] == [RequestKind.APPROVE, RequestKind.DEFER]
    assert slack.ephemerals[-1].text.startswith("Your word is recorded, and nothing is done by it")


@pytest.mark.parametrize("user", ["U0FAR", "U0GUEST"])
@pytest.mark.parametrize("button", ["approve", "defer", "dismiss", "evidence"])
def test_an_outsider_is_refused_with_a_word(
    user: str, button: str, slack: SlackServer, click: Act, desk: Desk, rest: Rest
) -> None:
    click(user, button)
    (shown,) = slack.ephemerals
    assert shown.user == user
    assert shown.text.startswith("Nothing was done:")
    assert (rest.asked, slack.acts.views, desk.tally.refused) == ([], [], 1)


def test_not_now_asks_why_and_for_how_long(
    slack: SlackServer, click: Act, submit: Act, rest: Rest, clock: Hands
) -> None:
    click("U0ANN", "defer")
    assert (rest.asked, slack.ephemerals) == ([], [])
    submit(for_="24h", why="the job ends tomorrow")
    (asked,) = rest.asked
    assert (asked.kind, asked.reason, asked.until) == (
        RequestKind.DEFER,
        "the job ends tomorrow",
        clock() + timedelta(hours=24),
    )
    assert "for 1d, until 2026-" in slack.ephemerals[-1].text


def test_not_now_needs_no_reason_and_lasts_four_hours(click: Act, submit: Act, rest: Rest, clock: Hands) -> None:
    click("U0ANN", "defer")
    submit()
    assert [(r.reason, r.until) for r in rest.asked] == [("", clock() + timedelta(hours=4))]


def test_a_false_alarm_is_a_release_with_a_reason(click: Act, submit: Act, rest: Rest) -> None:
    click("U0ANN", "dismiss")
    with pytest.raises(ValueError, match="required"):
        submit()
    submit(why="the sensor is broken")
    said = "false alarm: the sensor is broken"
    assert [(r.kind, r.reason, r.case) for r in rest.asked] == [(RequestKind.RELEASE, said, CASE)]


def test_a_reason_of_blanks_is_none(slack: SlackServer, click: Act, submit: Act, rest: Rest) -> None:
    click("U0ANN", "dismiss")
    submit(why="    ")
    assert rest.asked == []
    assert "needs a reason" in slack.ephemerals[-1].text


def test_exactly_once_however_often_it_is_delivered(
    slack: SlackServer, click: Act, submit: Act, rest: Rest, desk: Desk
) -> None:
    click("U0ANN", "approve", times=3)
    assert (len(rest.asked), len(slack.ephemerals)) == (1, 1)
    click("U0ANN", "defer", times=2)
    assert len(slack.acts.views) == 1
    submit(times=2, why="later")
    assert (len(rest.asked), len(slack.ephemerals)) == (2, 2)


def test_exactly_once_also_by_two_replicas(
    slack: SlackServer, desk: Desk, rest: Rest, clock: Hands, message: Message
) -> None:
    client = client_of(TOKEN, slack.base_url, timedelta(seconds=5))
    answers = Answers(rest.ask, rest.ended.get, rest.evidence, Views(list, lambda _: []))
    other = Desk(client, Members(client, groups=lambda: (), now=clock), answers, now=clock)
    payload = slack.acts.click_payload("U0ANN", message, "quarantine.approve")
    for one in (desk, other):
        take(one, "interactive", payload)
    assert len(rest.asked) == 1


def test_a_click_on_an_earlier_case_is_refused_with_a_word(slack: SlackServer, click: Act, rest: Rest) -> None:
    rest.ended[CASE] = f"case {CASE} on gpu-017 has ended: the machine was replaced."
    for button in ("approve", "defer", "dismiss"):
        click("U0ANN", button)
        assert slack.ephemerals[-1].text == f"Nothing was done: {rest.ended[CASE]}"
    assert (rest.asked, slack.acts.views) == ([], [])


def test_a_case_that_ends_while_the_form_is_open(slack: SlackServer, click: Act, submit: Act, rest: Rest) -> None:
    click("U0ANN", "defer")
    rest.ended[CASE] = "it has ended."
    submit(why="later")
    assert rest.asked == []
    assert slack.ephemerals[-1].text == "Nothing was done: it has ended."


def test_evidence_is_shown_to_who_asks_even_of_a_case_that_ended(slack: SlackServer, click: Act, rest: Rest) -> None:
    rest.ended[CASE] = "it has ended."
    rest.lines = ["<!here> GPU 3: 91.5 °C", "query: a > 1 & b"]
    click("U0BOB", "evidence")
    (shown,) = slack.ephemerals
    assert (shown.user, shown.pings) == ("U0BOB", ())
    assert shown.blocks[0]["text"]["text"] == "&lt;!here&gt; GPU 3: 91.5 °C\nquery: a &gt; 1 &amp; b"


def test_without_evidence_it_says_so(slack: SlackServer, click: Act, rest: Rest) -> None:
    rest.lines = []
    click("U0ANN", "evidence")
    assert "no evidence" in slack.ephemerals[-1].text


def test_a_form_that_opens_too_late_is_told(slack: SlackServer, desk: Desk, message: Message, clock: Hands) -> None:
    payload = slack.acts.click_payload("U0ANN", message, "quarantine.dismiss")
    clock.advance(timedelta(seconds=4))
    take(desk, "interactive", payload)
    assert "Click again" in slack.ephemerals[-1].text


def test_a_record_that_cannot_be_written_is_told_without_its_secrets(
    slack: SlackServer, click: Act, rest: Rest, desk: Desk
) -> None:
    rest.away = True
    click("U0ANN", "approve")
    assert "It is not known whether this was taken" in slack.ephemerals[-1].text
    assert "secret" not in slack.ephemerals[-1].text
    rest.away = False
    click("U0ANN", "approve")
    assert (len(rest.asked), desk.tally.failed, desk.tally.taken) == (1, 1, 1)


def failing(rest: Rest, trouble: Exception, *, lost: bool) -> Callable[[Request], None]:
    """Asks, and raises. `lost`: only the answer is; the request is there."""

    def ask(request: Request) -> None:
        if lost:
            rest.ask(request)
        raise trouble

    return ask


DOUBT = "It is not known whether this was taken; /quarantine explain gpu-017 shows it. Asking again does no harm."


@pytest.mark.parametrize("lost", [True, False], ids=["its answer was lost", "it did not come there"])
def test_where_the_record_gives_no_answer_its_author_is_told_that_it_is_not_known(
    lost: bool, slack: SlackServer, desk: Desk, rest: Rest, message: Message, clock: Hands
) -> None:
    """By a click, a form and a command alike; once more, and it is taken."""
    well = desk._answers
    ill = replace(
        well, ask=failing(rest, LedgerUnavailable("the connection was lost at postgresql://secret@db"), lost=lost)
    )
    take(desk, "interactive", slack.acts.click_payload("U0ANN", message, "quarantine.dismiss"))
    payloads = (
        ("interactive", slack.acts.click_payload("U0ANN", message, "quarantine.approve")),
        ("interactive", slack.acts.submit_payload(slack.acts.views[-1], {"why": "the sensor is broken"})),
        ("slash_commands", slack.acts.command_payload("U0ANN", CHANNEL, "waive gpu-017 for 2h the run ends soon")),
    )
    for n, (kind, payload) in enumerate(payloads, 1):
        desk._answers = ill
        assert take(desk, kind, payload)
        assert [e.text for e in slack.ephemerals[-1:]] == [DOUBT]
        assert desk.tally.failed == n
        desk._answers = well
        assert take(desk, kind, payload)
        assert len(rest.requests) == n
        assert slack.ephemerals[-1].text.startswith("Your word is with the controller")


def test_a_refusal_of_the_record_leaves_no_doubt(slack: SlackServer, desk: Desk, rest: Rest, message: Message) -> None:
    desk._answers = replace(desk._answers, ask=failing(rest, SchemaMismatch("the schema is newer"), lost=False))
    take(desk, "interactive", slack.acts.click_payload("U0ANN", message, "quarantine.approve"))
    assert slack.ephemerals[-1].text.startswith("This could not be taken")


def test_what_failed_before_the_record_was_asked_was_not_taken(
    slack: SlackServer, desk: Desk, rest: Rest, message: Message
) -> None:
    def away(_: str) -> str | None:
        raise LedgerUnavailable("the database does not answer")

    desk._answers = replace(desk._answers, standing=away)
    take(desk, "interactive", slack.acts.click_payload("U0ANN", message, "quarantine.approve"))
    assert slack.ephemerals[-1].text.startswith("This could not be taken")
    assert rest.asked == []


def test_what_is_only_shown_waits_for_no_record(slack: SlackServer, desk: Desk, message: Message) -> None:
    """Not for its acknowledgement, and not for its answer: the trigger of a form is over in three seconds."""
    asking, release = threading.Event(), threading.Event()

    def ask(_: Request) -> None:
        asking.set()
        assert release.wait(20)

    desk._answers = replace(desk._answers, ask=ask)
    backlog = Backlog(desk.take, patience=0.01)  # whatever is not settled at once is not settled
    backlog.start()
    try:
        assert not backlog.offer("interactive", slack.acts.click_payload("U0ANN", message, "quarantine.approve"))
        assert asking.wait(10)
        assert backlog.offer("slash_commands", slack.acts.command_payload("U0ANN", CHANNEL, "status"))
        assert backlog.offer("interactive", slack.acts.click_payload("U0ANN", message, "quarantine.evidence"))
        assert backlog.offer("interactive", slack.acts.click_payload("U0ANN", message, "quarantine.dismiss"))
        pause = threading.Event()
        assert any(slack.acts.views or pause.wait(0.01) for _ in range(1000))
        assert len(slack.ephemerals) == 2
    finally:
        release.set()
        assert backlog.stop()


def settled(desk: Desk, kind: str, payload: object, seen: Callable[[], object]) -> list[object]:
    """What there was to be seen at the moment at which it was settled, and how it was."""
    found: list[object] = []
    settle(desk, kind, payload, lambda have: found.extend((have, seen())))
    return found


def test_slack_is_told_that_we_have_it_once_it_is_on_record(
    slack: SlackServer, desk: Desk, rest: Rest, message: Message
) -> None:
    """And before anybody is told, which may take long."""
    seen = lambda: (len(rest.requests), len(slack.ephemerals))  # noqa: E731
    click = slack.acts.click_payload("U0ANN", message, "quarantine.approve")
    assert settled(desk, "interactive", click, seen) == [True, (1, 0)]
    command = slack.acts.command_payload("U0ANN", CHANNEL, "waive gpu-017 for 2h the run ends soon")
    assert settled(desk, "slash_commands", command, seen) == [True, (2, 0)]
    take(desk, "interactive", slack.acts.click_payload("U0ANN", message, "quarantine.dismiss"))
    form = slack.acts.submit_payload(slack.acts.views[-1], {"why": "the sensor is broken"})
    assert settled(desk, "interactive", form, seen) == [True, (3, 0)]


def test_what_is_only_shown_keeps_slack_waiting_for_nothing(slack: SlackServer, desk: Desk, message: Message) -> None:
    click = slack.acts.click_payload("U0ANN", message, "quarantine.evidence")
    assert settled(desk, "interactive", click, lambda: list(slack.requests)) == [True, ["chat.postMessage"]]
    command = slack.acts.command_payload("U0ANN", CHANNEL, "status")
    assert settled(desk, "slash_commands", command, lambda: list(slack.requests)) == [True, ["chat.postMessage"]]


def test_what_is_not_on_record_is_kept_only_once_its_author_knows(
    slack: SlackServer, desk: Desk, rest: Rest, message: Message
) -> None:
    rest.away = True
    click = slack.acts.click_payload("U0ANN", message, "quarantine.approve")
    assert settled(desk, "interactive", click, lambda: len(slack.ephemerals)) == [True, 1]
    slack.fail(Fault(FaultKind.SERVER_ERROR, method="chat.postEphemeral"))
    again = slack.acts.click_payload("U0ANN", message, "quarantine.approve")
    assert not take(desk, "interactive", again), "Slack itself tells them that nothing came of it"
    rest.away = False
    assert take(desk, "interactive", again), "and where it sends it again, it is a word like any"
    assert len(rest.requests) == 1
    assert slack.ephemerals[-1].text.startswith("Your word is with the controller")
    stranger = slack.acts.click_payload("U0FAR", message, "quarantine.approve")
    assert settled(desk, "interactive", stranger, lambda: slack.ephemerals[-1].user) == [True, "U0FAR"]
    slack.fail(Fault(FaultKind.SERVER_ERROR, method="chat.postEphemeral"))
    unheard = slack.acts.click_payload("U0FAR", message, "quarantine.approve")
    assert not take(desk, "interactive", unheard)
    assert take(desk, "interactive", unheard)
    assert len(slack.ephemerals) == 4


@pytest.mark.parametrize("step", ["standing", "ask"])
def test_a_defect_while_it_is_recorded_is_told_too(
    step: str, slack: SlackServer, desk: Desk, rest: Rest, message: Message
) -> None:
    """And where the record was asked by then, that it is not known what came of it."""

    def fails(_: object) -> None:
        raise ZeroDivisionError

    well, told = desk._answers, list[bool]()
    desk._answers = replace(well, **{step: fails})  # type: ignore[arg-type]
    click = slack.acts.click_payload("U0ANN", message, "quarantine.approve")
    with pytest.raises(ZeroDivisionError):
        settle(desk, "interactive", click, told.append)
    assert told == [True]
    shown = slack.ephemerals[-1].text
    assert shown == DOUBT if step == "ask" else "by a defect of the controller's" in shown
    desk._answers = well
    assert take(desk, "interactive", click)
    assert len(rest.requests) == 1


def test_who_is_in_the_group_is_not_known_so_an_approval_waits(slack: SlackServer, click: Act, rest: Rest) -> None:
    slack.fail(Fault(FaultKind.SERVER_ERROR, method="usergroups.users.list"))
    click("U0ANN", "approve")
    assert rest.asked == []
    assert APPROVERS in slack.ephemerals[-1].text
    click("U0ANN", "approve")
    assert len(rest.asked) == 1


def test_an_answer_that_cannot_be_given_undoes_nothing(slack: SlackServer, click: Act, rest: Rest, desk: Desk) -> None:
    slack.fail(Fault(FaultKind.SERVER_ERROR, method="chat.postEphemeral"))
    click("U0ANN", "approve")
    assert (len(rest.asked), slack.ephemerals, desk.tally.failed) == (1, [], 1)


def test_a_defect_is_told_and_goes_on_to_the_log(
    slack: SlackServer, click: Act, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "lines", None)
    with pytest.raises(TypeError):
        click("U0ANN", "evidence")
    assert "by a defect of the controller's" in slack.ephemerals[-1].text


def test_an_answer_at_a_url_that_is_over_is_counted(slack: SlackServer, desk: Desk, clock: Hands) -> None:
    payload = slack.acts.command_payload("U0ANN", CHANNEL, "status")
    clock.advance(timedelta(minutes=31))
    take(desk, "slash_commands", payload)
    assert (slack.ephemerals, desk.tally.failed) == ([], 1)


def test_garbage_is_counted_and_answered_by_nothing(slack: SlackServer, desk: Desk) -> None:
    garbage: tuple[object, ...] = (None, {}, {"type": "block_actions"}, [])
    for payload in garbage:
        take(desk, "interactive", payload)
    assert (desk.tally.garbled, slack.requests) == (4, [])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("status", "1 node is out"),
        ("explain gpu-017", "gpu-017 is hot"),
        ("", "/quarantine status"),
        ("explode <!here>", "This was not understood"),
    ],
)
def test_a_command_is_answered_to_who_typed_it(text: str, told: str, slack: SlackServer, desk: Desk) -> None:
    take(desk, "slash_commands", slack.acts.command_payload("U0BOB", CHANNEL, text))
    (shown,) = slack.ephemerals
    assert (shown.user, shown.pings) == ("U0BOB", ())
    assert told in shown.text


def test_a_waiver_by_command_is_a_request(slack: SlackServer, desk: Desk, rest: Rest, clock: Hands) -> None:
    payload = slack.acts.command_payload("U0ANN", CHANNEL, "waive gpu-017 for 2h the run ends soon")
    for _ in range(2):
        take(desk, "slash_commands", payload)
    (asked,) = rest.asked
    assert (asked.kind, asked.node, asked.reason) == (RequestKind.WAIVE, "gpu-017", "the run ends soon")
    assert (asked.until, asked.actor) == (clock() + timedelta(hours=2), "ann (U0ANN)")
    assert "stays in service for 2h" in slack.ephemerals[-1].text


@pytest.mark.parametrize(
    "url", ["https://evil.example/x", "http://hooks.slack.com/x", "https://hooks.slack.com@evil/x"]
)
def test_an_answer_goes_to_slack_alone(
    url: str, slack: SlackServer, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    take(desk, "slash_commands", slack.acts.command_payload("U0ANN", CHANNEL, "status") | {"response_url": url})
    assert (slack.ephemerals, desk.tally.failed) == ([], 1)
    assert "evil" not in capsys.readouterr().out


def test_an_answer_goes_to_no_other_name_of_the_same_server(slack: SlackServer, desk: Desk) -> None:
    payload = slack.acts.command_payload("U0ANN", CHANNEL, "status")
    payload["response_url"] = payload["response_url"].replace("127.0.0.1", "localhost")
    take(desk, "slash_commands", payload)
    assert (slack.ephemerals, desk.tally.failed) == ([], 1)


def test_a_stranger_gets_no_answer_of_a_command(slack: SlackServer, desk: Desk, rest: Rest) -> None:
    for text in ("status", "waive gpu-017 because"):
        take(desk, "slash_commands", slack.acts.command_payload("U0FAR", CHANNEL, text))
    assert [e.text.startswith("Nothing was done") for e in slack.ephemerals] == [True, True]
    assert rest.asked == []
