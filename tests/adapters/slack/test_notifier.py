"""The notifier over HTTP with the stock SDK: once per case, and every failure in words without the token."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from slack_sdk import WebClient

from quarantine.adapters.slack.blocks import render
from quarantine.adapters.slack.notifier import SlackNotifier, connect
from quarantine.core.cards import Card
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, UsageError
from quarantine.core.letters import CaseReport
from quarantine.ports import Notifier
from quarantine.sandbox.slack import ALL_SCOPES, Fault, FaultKind, SlackServer, serve_slack

Make = Callable[..., SlackNotifier]
Maker = Callable[..., CaseReport]
Advance = Callable[[timedelta], None]
TOKEN = "xoxb-1-very-secret"
KEY = "gpu-017-a3"
CHANNEL = "C0GPUOPS"


def words(error: BaseException) -> str:
    """All that a log would show, one with local variables too: sentence, causes, traceback (not the test's frame)."""
    assert error.__traceback__ is not None
    told = traceback.TracebackException(type(error), error, error.__traceback__.tb_next, capture_locals=True)
    return "".join(told.format()) + repr(error)


def test_a_post_is_taken_and_found_again(slack: SlackServer, notifier: SlackNotifier, make_report: Maker) -> None:
    port: Notifier = notifier
    assert port.find(KEY) is None

    ref = port.post(Card(make_report(), ticket="R-1"))

    (message,) = slack.messages
    assert ref == f"{CHANNEL}:{message.ts}"
    assert message.blocks == render(Card(make_report(), ticket="R-1"))
    assert message.metadata == {"event_type": "quarantine_case", "event_payload": {"case": KEY, "cluster": "lab"}}
    assert message.text.startswith("gpu-017: GPU 3")
    assert message.options == {
        "unfurl_links": False,
        "unfurl_media": False,
        "link_names": False,
        "mrkdwn": False,
        "parse": "none",
    }
    assert message.pings == ()
    assert notifier.find(KEY) == ref


ROUTED = "C0NIGHT"


def test_a_route_says_where_it_is_posted_and_it_is_found_there(
    slack: SlackServer, notifier: SlackNotifier, make_report: Maker
) -> None:
    ref = notifier.post(Card(make_report(channel=ROUTED), ticket="R-1"))

    (message,) = slack.messages
    assert (message.channel, ref) == (ROUTED, f"{ROUTED}:{message.ts}")
    assert notifier.find(KEY, ROUTED) == ref
    assert notifier.find(KEY) is None


def test_one_that_was_posted_before_the_route_was_made_is_found_in_our_own_channel(
    notifier: SlackNotifier, make_report: Maker
) -> None:
    ref = notifier.post(Card(make_report()))

    assert notifier.find(KEY, ROUTED) == ref
    assert notifier.find("another", ROUTED) is None


@pytest.mark.parametrize("channel", ["#night-shift", "night-shift", "c0night", "C0NIGHT\n"])
def test_a_route_by_name_is_refused_in_words_before_anything_is_sent(
    channel: str, slack: SlackServer, notifier: SlackNotifier, make_report: Maker
) -> None:
    asked: tuple[Callable[[], object], ...] = (
        lambda: notifier.find(KEY, channel),
        lambda: notifier.post(Card(make_report(channel=channel))),
    )
    for ask in asked:
        with pytest.raises(NotifierRefused, match=r"a route of the fleet file names '.*', which is no channel id"):
            ask()
    assert slack.requests == []


def test_a_routes_channel_that_the_bot_is_not_in_is_named(notifier: SlackNotifier, make_report: Maker) -> None:
    with pytest.raises(NotifierRefused, match="invite the bot to the channel"):
        notifier.post(Card(make_report(channel="C0SHUT")))


def test_only_the_case_of_this_cluster_is_found(
    slack: SlackServer, notifier: SlackNotifier, notifier_of: Make, make_report: Maker
) -> None:
    other = notifier_of(cluster="other")
    other.post(Card(make_report()))
    notifier.post(Card(make_report(key="gpu-017-a")))
    client = WebClient(token=TOKEN, base_url=slack.base_url, retry_handlers=[])
    client.proxy = None
    payload = {"case": KEY, "cluster": "lab"}
    client.chat_postMessage(
        channel=CHANNEL, text=KEY, metadata={"event_type": "somebody_else", "event_payload": payload}
    )
    client.chat_postMessage(channel=CHANNEL, text=KEY)

    assert notifier.find(KEY) is None
    assert other.find(KEY) == f"{CHANNEL}:{slack.messages[0].ts}"


def test_it_is_found_behind_many_later_messages(
    slack: SlackServer, notifier: SlackNotifier, make_report: Maker, advance: Advance
) -> None:
    ref = notifier.post(Card(make_report()))
    chatter(slack, 450)

    assert notifier.find(KEY) == ref
    assert notifier.find("another") is None
    assert slack.requests.count("conversations.history") == 3, "one reading answers for all keys of a cycle"
    advance(timedelta(seconds=5))
    assert notifier.find("another") is None
    assert slack.requests.count("conversations.history") == 6, "and for no longer"


def test_a_channel_too_busy_to_look_through_is_never_taken_for_none(
    slack: SlackServer, clock: Callable[[], datetime], make_report: Maker
) -> None:
    client = WebClient(token=TOKEN, base_url=slack.base_url, retry_handlers=[])
    client.proxy = None
    notifier = SlackNotifier(client, CHANNEL, cluster="lab", now=clock, pages=2)
    notifier.post(Card(make_report()))
    chatter(slack, 400)

    with pytest.raises(NotifierUnavailable, match=f"could not look through Slack channel {CHANNEL}"):
        notifier.find(KEY)


def chatter(slack: SlackServer, count: int) -> None:
    """Other people's messages; put there directly, since 450 HTTP requests would say no more."""
    for n in range(count):
        slack.workspace.call("chat.postMessage", TOKEN, {"channel": CHANNEL, "text": f"lunch {n}?"})


def test_messages_older_than_the_look_back_are_not_looked_at(
    notifier_of: Make, make_report: Maker, advance: Advance
) -> None:
    notifier = notifier_of(look_back=timedelta(days=3))
    ref = notifier.post(Card(make_report()))
    advance(timedelta(days=2, hours=23))
    assert notifier.find(KEY) == ref
    advance(timedelta(hours=2))
    assert notifier.find(KEY) is None


@pytest.mark.parametrize(
    "kind", [FaultKind.CUT_OFF, FaultKind.HANG, FaultKind.SERVER_ERROR, FaultKind.BAD_GATEWAY, FaultKind.NOT_SLACK]
)
@pytest.mark.parametrize("stored", [True, False])
def test_exactly_once_when_the_answer_is_lost(
    kind: FaultKind, stored: bool, slack: SlackServer, notifier_of: Make, make_report: Maker
) -> None:
    notifier = notifier_of(timeout=timedelta(seconds=1))
    slack.fail(Fault(kind, method="chat.postMessage", stored=stored))
    with pytest.raises(NotifierUnavailable):
        notifier.post(Card(make_report(), ticket="R-1"))

    # What the executor does after an ambiguous failure: look, and post only where there is none.
    found = notifier.find(KEY)
    assert (found is not None) == stored
    ref = found or notifier.post(Card(make_report(), ticket="R-1"))

    (message,) = slack.messages
    assert ref == f"{CHANNEL}:{message.ts}"


def test_a_rate_limit_carries_its_wait(slack: SlackServer, notifier: SlackNotifier, make_report: Maker) -> None:
    slack.fail(Fault(FaultKind.RATE_LIMITED, retry_after="17"))
    with pytest.raises(NotifierUnavailable, match=r"is busy .* asks to wait 17 s") as caught:
        notifier.post(Card(make_report()))
    assert caught.value.retry_after == timedelta(seconds=17)
    assert slack.requests == ["chat.postMessage"]


@pytest.mark.parametrize(("said", "wait"), [("soon", None), ("-5", None), ("99999999", timedelta(days=1))])
def test_a_rate_limit_with_a_strange_wait(
    said: str, wait: timedelta | None, slack: SlackServer, notifier: SlackNotifier
) -> None:
    slack.fail(Fault(FaultKind.RATE_LIMITED, retry_after=said))
    with pytest.raises(NotifierUnavailable) as caught:
        notifier.find(KEY)
    assert caught.value.retry_after == wait


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (FaultKind.SERVER_ERROR, "internal_error"),
        (FaultKind.BAD_GATEWAY, "answered status 502 without Slack's JSON"),
        (FaultKind.HTML, "answered status 200 without Slack's JSON"),
        (FaultKind.NOT_SLACK, "could not get an answer from Slack"),
        (FaultKind.CUT_OFF, "IncompleteRead"),
        (FaultKind.HANG, "timed out"),
    ],
)
@pytest.mark.parametrize("verb", ["find", "post", "check"])
def test_what_may_pass_is_unavailable_in_one_sentence(
    kind: FaultKind, sentence: str, verb: str, slack: SlackServer, notifier_of: Make, make_report: Maker
) -> None:
    notifier = notifier_of(timeout=timedelta(seconds=1))
    slack.fail(Fault(kind))
    with pytest.raises(NotifierUnavailable, match=sentence) as caught:
        {
            "find": lambda: notifier.find(KEY),
            "post": lambda: notifier.post(Card(make_report())),
            "check": notifier.check,
        }[verb]()

    assert slack.base_url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "sign in" not in str(caught.value)
    assert TOKEN not in words(caught.value)
    assert len(slack.requests) == 1, "the SDK must not repeat by itself"


def test_nobody_listens(notifier_of: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    notifier = notifier_of(base_url=f"http://user:hidden@127.0.0.1:{port}/api/")

    with pytest.raises(
        NotifierUnavailable, match=f"Slack at http://127.0.0.1:{port}/api/conversations.history"
    ) as caught:
        notifier.find(KEY)
    assert "hidden" not in str(caught.value)
    assert TOKEN not in words(caught.value)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that gives one connection these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as request:
                request.readline()
                headers = http.client.parse_headers(request)
                request.read(int(headers.get("Content-Length", 0)))  # unread, it would make the closing a reset
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/api/"
        thread.join(10)


HTTP = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        HTTP + b"\r\n\r\n",
        HTTP + b"\r\n\r\n{}",
        HTTP + b"\r\n\r\nnull",
        HTTP + b"\r\n\r\n\xff\xfe\xff",
        HTTP + b"; charset=nonsense\r\n\r\n{}",
        HTTP + b'\r\n\r\n{"ok": true}',
        HTTP + b'\r\n\r\n{"ok": true, "ts": "../etc"}',
        HTTP + b'\r\n\r\n{"ok": false, "error": ["ratelimited"], "response_metadata": 5}',
        HTTP.replace(b"json", b"gzip") + b"\r\n\r\nxx",
        HTTP.replace(b"200 OK", b"500 Oops") + b"\r\n\r\n\xff\xfe",
        HTTP.replace(b"200 OK", b"404 Not Found") + b"\r\n\r\nno such page",
    ],
)
def test_answers_that_are_not_slacks(answer: bytes, notifier_of: Make, make_report: Maker) -> None:
    with answering(answer) as url, pytest.raises(NotifierUnavailable, match="Slack at") as caught:
        notifier_of(base_url=url).post(Card(make_report()))
    assert "\n" not in str(caught.value)
    assert TOKEN not in words(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b'{"ok": true}',
        b'{"ok": true, "messages": 5}',
        b'{"ok": true, "messages": [], "has_more": true}',
        b'{"ok": true, "messages": [], "response_metadata": 5, "has_more": true}',
        b'{"ok": true, "messages": [], "response_metadata": {"next_cursor": 5}}',
        b'{"ok": false, "error": "invalid_cursor"}',
    ],
)
def test_a_history_that_is_none_is_never_taken_for_an_empty_one(body: bytes, notifier_of: Make) -> None:
    with answering(HTTP + b"\r\n\r\n" + body) as url, pytest.raises(NotifierUnavailable, match="Slack"):
        notifier_of(base_url=url).find(KEY)


@pytest.mark.parametrize("junk", [b"null", b"5", b"[]", b'{"metadata": 5}', b'{"metadata": {"event_payload": []}}'])
def test_strange_messages_are_passed_over(junk: bytes, notifier_of: Make) -> None:
    body = b'{"ok": true, "messages": [' + junk + b'], "has_more": false}'
    with answering(HTTP + b"\r\n\r\n" + body) as url:
        assert notifier_of(base_url=url).find(KEY) is None


@pytest.mark.parametrize(
    ("changes", "code", "advice"),
    [
        ({"token": "xoxb-wrong-secret"}, "invalid_auth", "give the controller a valid bot token"),
        ({"channel": "C0NONE"}, "channel_not_found", "check the channel's id"),
        ({"channel": "C0SHUT"}, "not_in_channel", "invite the bot"),
        ({"channel": "C0OLD"}, "is_archived", "unarchive"),
    ],
)
def test_what_will_not_pass_is_refused_with_what_to_do(
    changes: dict[str, str], code: str, advice: str, notifier_of: Make, make_report: Maker
) -> None:
    with pytest.raises(NotifierRefused, match=f"answered {code}: {advice}") as caught:
        notifier_of(**changes).post(Card(make_report()))
    assert "secret" not in words(caught.value)


def test_a_missing_scope_is_named(clock: Callable[[], datetime]) -> None:
    with serve_slack(token=TOKEN, channels=[CHANNEL], scopes=ALL_SCOPES - {"channels:history"}) as slack:
        notifier = connect(TOKEN, CHANNEL, cluster="lab", now=clock, base_url=slack.base_url)
        with pytest.raises(NotifierRefused, match=r"missing_scope \(needs channels:history\): grant the scope"):
            notifier.find(KEY)


def test_start_up_can_check_token_and_channel(notifier_of: Make, slack: SlackServer) -> None:
    notifier_of().check()
    assert slack.requests == ["auth.test", "conversations.history"]
    with pytest.raises(NotifierRefused, match="channel_not_found"):
        notifier_of(channel="C0NONE").check()


@pytest.mark.parametrize("channel", ["#gpu-ops", "gpu-ops", "", "c0gpuops", "D0DIRECT", "C0\n"])
def test_a_channel_that_is_no_id_is_told_at_once(channel: str, notifier_of: Make) -> None:
    with pytest.raises(UsageError, match="is no channel id of Slack: give the id"):
        notifier_of(channel=channel)


@pytest.mark.parametrize("token", ["", "  ", "xoxb-very\nsecret", "xoxb-sécret"])
def test_what_cannot_be_a_token_is_refused_without_being_shown(token: str, notifier_of: Make) -> None:
    with pytest.raises(NotifierRefused, match="give a bot token") as caught:
        notifier_of(token=token)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "slack.com/api", "file:///etc/passwd", "http://[::1/api/", "https://a b/"])
def test_what_is_no_url_is_told_at_once(url: str, notifier_of: Make) -> None:
    with pytest.raises(UsageError, match=re.escape("must look like https://slack.com/api/")):
        notifier_of(base_url=url)


def test_a_client_that_repeats_by_itself_is_not_taken(clock: Callable[[], datetime]) -> None:
    with pytest.raises(ValueError, match="would repeat a post"):
        SlackNotifier(WebClient(token=TOKEN), CHANNEL, cluster="lab", now=clock)


def test_the_sdk_says_nothing_beside_our_one_sentence(
    slack: SlackServer, notifier: SlackNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    slack.fail(Fault(FaultKind.HTML))
    with pytest.raises(NotifierUnavailable):
        notifier.find(KEY)
    assert [r for r in caplog.records if "slack" in r.name] == []
    assert TOKEN not in caplog.text


def test_a_proxy_of_the_environment_is_left_out_for_hosts_in_no_proxy(
    slack: SlackServer, notifier_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(urllib.request, "_opener", None)  # it remembers the environment of the first request
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert notifier_of().find(KEY) is None
    monkeypatch.setenv("no_proxy", "example.org")
    with pytest.raises(NotifierUnavailable):
        notifier_of().find(KEY)
