"""What is done to a message that is there: shown anew, told on in its thread, a picture attached. Over real HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quarantine.adapters.slack.blocks import render
from quarantine.adapters.slack.notifier import SlackNotifier
from quarantine.core.cards import Card, Fold, Reply, Thread
from quarantine.core.case import Phase
from quarantine.core.errors import NotifierRefused, NotifierUnavailable
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Attachment
from quarantine.sandbox.slack import ALL_SCOPES, Fault, FaultKind, SlackServer, serve_slack
from tests.adapters.slack.conftest import CHANNEL, TOKEN, Hands

Maker = Callable[..., CaseReport]
Make = Callable[..., SlackNotifier]
PICTURE = Attachment("gpu-017-a3.png", "image/png", b"\x89PNG picture")


@pytest.fixture
def ref(notifier: SlackNotifier, make_report: Maker) -> str:
    return notifier.post(Card(make_report()))


def test_it_says_something_else_and_is_found_as_before(
    slack: SlackServer, notifier: SlackNotifier, ref: str, make_report: Maker
) -> None:
    card = Card(make_report(), Phase.RELEASED)
    for _ in range(2):
        notifier.show(ref, card)
    (message,) = slack.messages
    assert message.blocks == render(card)
    assert message.edited
    assert message.text.startswith("gpu-017 is back in service")
    assert notifier.find("gpu-017-a3") == ref


def test_one_case_is_shown_as_several_and_back(slack: SlackServer, notifier: SlackNotifier, make_report: Maker) -> None:
    cards = (Card(make_report()), Card(make_report(key="gpu-018-b4", node="gpu-018")))
    ref = notifier.fold(Fold("storm-1", "lab", "", cards))
    assert notifier.find("storm-1") == ref
    assert notifier.find("gpu-017-a3") is None
    notifier.show(ref, cards[0])
    assert slack.messages[0].blocks == render(cards[0])
    assert notifier.find("storm-1") == ref, "its metadata is that of the storm for good"


def test_what_was_told_is_read_in_the_thread(
    slack: SlackServer, notifier: SlackNotifier, notifier_of: Make, ref: str
) -> None:
    assert notifier.thread(ref) == Thread()
    notifier.tell(ref, Reply(("emptied",), {"gpu-017-a3": "3|ab|x"}))
    notifier.tell(ref, Reply(("empty",), {"gpu-017-a3": "4|cd|y", "q-2": "1|ef|z"}))
    notifier_of(cluster="another").tell(ref, Reply(("theirs",), {"gpu-017-a3": "9|gh|w"}))
    assert notifier.thread(ref) == Thread({"gpu-017-a3": "4|cd|y", "q-2": "1|ef|z"})
    replies = slack.messages[1:]
    assert [m.thread_ts for m in replies] == [ref.partition(":")[2]] * 3
    assert notifier.find("gpu-017-a3") == ref, "a reply is not taken for the message"


def test_it_is_read_behind_what_people_say_there(slack: SlackServer, notifier: SlackNotifier, ref: str) -> None:
    channel, ts = ref.split(":")
    for n in range(450):
        slack.workspace.call(
            "chat.postMessage", TOKEN, {"channel": channel, "thread_ts": ts, "text": f"who is on it {n}"}
        )
    notifier.tell(ref, Reply(("empty",), {"q-1": "4|cd|y"}))
    assert notifier.thread(ref).told == {"q-1": "4|cd|y"}
    assert slack.requests.count("conversations.replies") == 3


def test_a_thread_too_long_to_be_read_is_never_taken_for_an_empty_one(
    slack: SlackServer, notifier: SlackNotifier, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarantine.adapters.slack.notifier._THREAD_PAGES", 1)
    channel, ts = ref.split(":")
    for n in range(200):
        slack.workspace.call("chat.postMessage", TOKEN, {"channel": channel, "thread_ts": ts, "text": f"{n}"})
    with pytest.raises(NotifierUnavailable, match="too many replies"):
        notifier.thread(ref)


def test_what_it_quotes_neither_pings_nor_links(slack: SlackServer, notifier: SlackNotifier, ref: str) -> None:
    notifier.tell(ref, Reply(("<!channel> @here <https://evil|x> *b* `c` & \x00\u202e",) * 30, {}))
    reply = slack.messages[-1]
    assert reply.pings == ()
    text = reply.blocks[0]["text"]
    assert text["type"] == "plain_text"
    assert not {"<", ">", "\x00", "\u202e"} & set(text["text"] + reply.text)


@pytest.mark.parametrize("verb", ["show", "thread"])
def test_a_message_that_is_gone_is_refused(verb: str, notifier: SlackNotifier, make_report: Maker) -> None:
    with pytest.raises(NotifierRefused, match="_not_found"):
        calls_of(notifier, f"{CHANNEL}:1.000001", make_report)[verb]()


@pytest.mark.parametrize("bad", ["", "C0GPUOPS", "C0GPUOPS:x", "#gpu:1.5", "C0GPUOPS:1.5\n"])
def test_what_is_no_reference_is_refused_before_anything_is_sent(
    bad: str, slack: SlackServer, notifier: SlackNotifier, make_report: Maker
) -> None:
    for call in calls_of(notifier, bad, make_report).values():
        with pytest.raises(NotifierRefused, match="is no reference of a Slack message"):
            call()
    assert slack.requests == []


@pytest.mark.parametrize("verb", ["show", "tell", "thread", "attach"])
@pytest.mark.parametrize("kind", [FaultKind.SERVER_ERROR, FaultKind.BAD_GATEWAY, FaultKind.CUT_OFF, FaultKind.HTML])
def test_what_may_pass_is_unavailable(
    kind: FaultKind, verb: str, slack: SlackServer, notifier: SlackNotifier, ref: str, make_report: Maker
) -> None:
    slack.fail(Fault(kind))
    with pytest.raises(NotifierUnavailable, match="Slack") as caught:
        calls_of(notifier, ref, make_report)[verb]()
    assert TOKEN not in repr(caught.value)
    assert "\n" not in str(caught.value)


def calls_of(notifier: SlackNotifier, ref: str, make_report: Maker) -> dict[str, Callable[[], Any]]:
    return {
        "show": lambda: notifier.show(ref, Card(make_report())),
        "tell": lambda: notifier.tell(ref, Reply(("x",), {})),
        "thread": lambda: notifier.thread(ref),
        "attach": lambda: notifier.attach(ref, PICTURE, "a picture"),
    }


# --- Pictures ---------------------------------------------------------------------------------------------------------


def test_a_picture_is_attached_and_found_in_the_thread(slack: SlackServer, notifier: SlackNotifier, ref: str) -> None:
    notifier.attach(ref, PICTURE, "GPU 3 was at 91.5 °C")
    (upload,) = slack.files.uploads
    assert (upload.content, upload.complete, upload.title) == (PICTURE.content, True, PICTURE.name)
    assert f"{upload.channel}:{upload.thread_ts}" == ref
    assert PICTURE.name in notifier.thread(ref).files


def test_without_the_scope_it_is_said_which(clock: Hands, notifier_of: Make, make_report: Maker) -> None:
    with serve_slack(token=TOKEN, channels=[CHANNEL], scopes=ALL_SCOPES - {"files:write"}, now=clock) as slack:
        notifier = notifier_of(base_url=slack.base_url)
        ref = notifier.post(Card(make_report()))
        with pytest.raises(NotifierRefused, match=r"missing_scope \(needs files:write\)"):
            notifier.attach(ref, PICTURE, "")


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, NotifierRefused), (413, NotifierRefused), (429, NotifierUnavailable), (500, NotifierUnavailable)],
)
def test_where_the_bytes_are_not_taken(
    status: int,
    error: type[Exception],
    slack: SlackServer,
    notifier: SlackNotifier,
    ref: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slack.files, "put", lambda *_: (status, "no"))
    with pytest.raises(error, match=rf"took no file at http://127.0.0.1 \(status {status}\)") as caught:
        notifier.attach(ref, PICTURE, "")
    assert "upload/v1" not in str(caught.value), "the URL is a secret by itself"
    assert slack.requests[-1] == "files.getUploadURLExternal"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "https://elsewhere.example/x"])
def test_the_bytes_go_where_the_api_is_and_nowhere_else(
    url: str, slack: SlackServer, notifier: SlackNotifier, ref: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack.files, "base_url", url)
    with pytest.raises(NotifierRefused, match="which is not where files are put"):
        notifier.attach(ref, PICTURE, "")
