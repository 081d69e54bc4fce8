"""The stand-in answers the stock WebClient as Slack does, and is as strict."""

from __future__ import annotations

import json
import socket
import threading
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from quarantine.sandbox.slack import Fault, FaultKind, SlackServer, serve_slack

TOKEN = "xoxb-1-sandbox"
AT = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
TEXT = {"type": "mrkdwn", "text": "hello"}
PLAIN = {"type": "plain_text", "text": "hello"}


@pytest.fixture(scope="module")
def running() -> Iterator[SlackServer]:
    with serve_slack(
        token=TOKEN,
        channels=["C0OPS", "C0OTHER", "C0SHUT", "C0OLD"],
        now=lambda: AT,
        not_in=["C0SHUT"],
        archived=["C0OLD"],
    ) as server:
        yield server


@pytest.fixture
def slack(running: SlackServer) -> SlackServer:
    running.reset()
    return running


Connect = Callable[..., WebClient]


@pytest.fixture
def connect(slack: SlackServer) -> Connect:
    def make(token: str = TOKEN, timeout: int = 5) -> WebClient:
        client = WebClient(token=token, base_url=slack.base_url, timeout=timeout, retry_handlers=[])
        client.proxy = None
        return client

    return make


def refused(call: Callable[[], object]) -> dict[str, Any]:
    with pytest.raises(SlackApiError) as caught:
        call()
    data: dict[str, Any] = caught.value.response.data
    return data


def test_a_posted_message_is_kept_as_sent(slack: SlackServer, connect: Connect) -> None:
    blocks = [{"type": "section", "text": TEXT}]
    metadata = {"event_type": "quarantine_case", "event_payload": {"case": "c1"}}

    answer = connect().chat_postMessage(
        channel="C0OPS", text="fallback", blocks=blocks, metadata=metadata, unfurl_links=False
    )

    (message,) = slack.messages
    assert (message.channel, message.text, message.blocks, message.metadata) == ("C0OPS", "fallback", blocks, metadata)
    assert message.options == {"unfurl_links": False}
    assert answer["channel"] == "C0OPS"
    assert answer["ts"] == message.ts
    assert message.ts.startswith(f"{int(AT.timestamp())}.")


def test_times_are_unique_and_increasing_though_the_clock_stands(slack: SlackServer, connect: Connect) -> None:
    client = connect()
    threads = [
        threading.Thread(target=lambda: client.chat_postMessage(channel="C0OPS", text="x"), daemon=True)
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    stamps = [m.ts for m in slack.messages]
    assert len(set(stamps)) == 8
    assert stamps == sorted(stamps)


@pytest.mark.parametrize(
    ("channel", "error"),
    [
        ("C0NONE", "channel_not_found"),
        ("C0SHUT", "not_in_channel"),
        ("C0OLD", "is_archived"),
        ("", "channel_not_found"),
    ],
)
def test_channels_that_cannot_be_posted_to(channel: str, error: str, slack: SlackServer, connect: Connect) -> None:
    assert refused(lambda: connect().chat_postMessage(channel=channel, text="x"))["error"] == error
    assert slack.messages == []


def test_who_may_not(slack: SlackServer, connect: Connect) -> None:
    assert refused(lambda: connect("xoxb-2-wrong").auth_test())["error"] == "invalid_auth"
    assert refused(lambda: connect("").chat_postMessage(channel="C0OPS", text="x"))["error"] == "not_authed"
    assert refused(lambda: connect().api_call("chat.sing"))["error"] == "unknown_method"
    assert connect().auth_test()["ok"]


def test_a_missing_scope_is_named() -> None:
    with serve_slack(token=TOKEN, channels=["C0OPS"], scopes=["chat:write"]) as slack:
        client = WebClient(token=TOKEN, base_url=slack.base_url, retry_handlers=[])
        client.proxy = None
        client.chat_postMessage(channel="C0OPS", text="x")
        told = refused(lambda: client.conversations_history(channel="C0OPS"))

    assert (told["error"], told["needed"], told["provided"]) == ("missing_scope", "channels:history", "chat:write")


def many(count: int, item: object) -> list[object]:
    return [item] * count


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        (many(51, {"type": "divider"}), "no more than 50 items allowed [json-pointer:/blocks]"),
        ([{"type": "poem"}], "unsupported type: poem [json-pointer:/blocks/0/type]"),
        (["x"], "unsupported type: None [json-pointer:/blocks/0/type]"),
        ([{"type": "divider", "text": "x"}], "invalid additional property: text [json-pointer:/blocks/0]"),
        ([{"type": "section"}], "missing required field: text or fields [json-pointer:/blocks/0]"),
        (
            [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}],
            "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
        ),
        (
            [{"type": "section", "text": {"type": "mrkdwn", "text": "😀" * 1501}}],
            "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
        ),
        (
            [{"type": "section", "text": {"type": "mrkdwn", "text": ""}}],
            "must be more than 0 characters [json-pointer:/blocks/0/text/text]",
        ),
        (
            [{"type": "section", "text": {"type": "plain_text", "text": "x", "verbatim": True}}],
            "invalid additional property: verbatim [json-pointer:/blocks/0/text]",
        ),
        ([{"type": "section", "fields": []}], "must be an array of at least 1 item [json-pointer:/blocks/0/fields]"),
        (
            [{"type": "section", "fields": many(11, TEXT)}],
            "no more than 10 items allowed [json-pointer:/blocks/0/fields]",
        ),
        (
            [{"type": "section", "fields": [{"type": "mrkdwn", "text": "x" * 2001}]}],
            "must be less than 2001 characters [json-pointer:/blocks/0/fields/0/text]",
        ),
        (
            [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}],
            "must be less than 151 characters [json-pointer:/blocks/0/text/text]",
        ),
        ([{"type": "header", "text": TEXT}], "must be an object of type plain_text [json-pointer:/blocks/0/text]"),
        (
            [{"type": "context", "elements": many(11, PLAIN)}],
            "no more than 10 items allowed [json-pointer:/blocks/0/elements]",
        ),
        (many(2, {"type": "divider", "block_id": "a"}), "block_id must be unique [json-pointer:/blocks]"),
        ([{"type": "divider", "block_id": "a" * 256}], "must be 1 to 255 characters [json-pointer:/blocks/0/block_id]"),
    ],
)
def test_blocks_that_slack_would_refuse(blocks: list[Any], problem: str, slack: SlackServer, connect: Connect) -> None:
    told = refused(lambda: connect().chat_postMessage(channel="C0OPS", text="x", blocks=blocks))

    assert told["error"] == "invalid_blocks"
    assert problem in told["errors"]
    assert f"[ERROR] {problem}" in told["response_metadata"]["messages"]
    assert slack.messages == []


def test_blocks_at_the_limits_are_taken(connect: Connect) -> None:
    blocks: list[Any] = [
        {"type": "header", "text": {"type": "plain_text", "text": "x" * 150, "emoji": False}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3000, "verbatim": True}},
        {"type": "section", "fields": [{"type": "mrkdwn", "text": "x" * 2000}, *many(9, PLAIN)]},
        {"type": "context", "elements": many(10, TEXT)},
        *many(46, {"type": "divider"}),
    ]

    assert connect().chat_postMessage(channel="C0OPS", text="x" * 40_000, blocks=blocks)["ok"]


def test_messages_too_long_or_empty(connect: Connect) -> None:
    client = connect()
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3000}}

    assert refused(lambda: client.chat_postMessage(channel="C0OPS", text="x" * 40_001))["error"] == "msg_too_long"
    too_long = refused(lambda: client.chat_postMessage(channel="C0OPS", text="x", blocks=many(5, section)))  # type: ignore[arg-type]
    assert too_long["error"] == "msg_blocks_too_long"
    assert refused(lambda: client.api_call("chat.postMessage", json={"channel": "C0OPS"}))["error"] == "no_text"


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"event_type": "x"}, "invalid_metadata_format"),
        ({"event_type": "a b", "event_payload": {}}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": "y"}, "invalid_metadata_schema"),
        ({"event_type": "x", "event_payload": {"y": "z" * 9000}}, "metadata_too_large"),
    ],
)
def test_metadata_that_slack_would_refuse(metadata: dict[str, Any], error: str, connect: Connect) -> None:
    told = refused(lambda: connect().chat_postMessage(channel="C0OPS", text="x", metadata=metadata))
    assert told["error"] == error


def test_form_encoded_calls_carry_structures_as_json_text(slack: SlackServer, connect: Connect) -> None:
    client = connect()
    params = {
        "channel": "C0OPS",
        "text": "ü & =",
        "blocks": json.dumps([{"type": "divider"}]),
        "metadata": json.dumps({"event_type": "x", "event_payload": {}}),
    }
    client.api_call("chat.postMessage", params=params)

    (message,) = slack.messages
    assert (message.text, message.blocks) == ("ü & =", [{"type": "divider"}])
    assert message.metadata == {"event_type": "x", "event_payload": {}}
    params["blocks"] = "["
    assert refused(lambda: client.api_call("chat.postMessage", params=params))["error"] == "invalid_blocks_format"


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        ("application/json", b"{", "invalid_json"),
        ("application/json", b"[]", "json_not_object"),
        ("text/plain", b"x", "invalid_post_type"),
    ],
)
def test_bodies_that_are_none(kind: str, body: bytes, error: str, slack: SlackServer) -> None:
    request = urllib.request.Request(  # noqa: S310
        f"{slack.base_url}chat.postMessage", body, {"Content-Type": kind, "Authorization": f"Bearer {TOKEN}"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=5) as answer:
        assert json.load(answer) == {"ok": False, "error": error}


def test_a_message_is_updated_in_place(slack: SlackServer, connect: Connect) -> None:
    client = connect()
    metadata = {"event_type": "x", "event_payload": {}}
    ts = client.chat_postMessage(channel="C0OPS", text="first", metadata=metadata)["ts"]

    client.chat_update(channel="C0OPS", ts=ts, text="second")

    (message,) = slack.messages
    assert (message.text, message.ts, message.metadata, message.edited) == ("second", ts, metadata, True)
    assert refused(lambda: client.chat_update(channel="C0OPS", ts="1.000001", text="x"))["error"] == "message_not_found"
    assert refused(lambda: client.chat_update(channel="C0OTHER", ts=ts, text="x"))["error"] == "message_not_found"


def test_history_is_paged_newest_first_and_of_one_channel(connect: Connect) -> None:
    client = connect()
    stamps = [client.chat_postMessage(channel="C0OPS", text=str(n))["ts"] for n in range(5)]
    client.chat_postMessage(channel="C0OTHER", text="elsewhere")
    client.chat_postMessage(channel="C0OPS", text="reply", thread_ts=stamps[0])

    texts, pages, cursor = [], 0, None
    while pages == 0 or cursor:
        page = client.conversations_history(channel="C0OPS", limit=2, cursor=cursor)
        texts += [m["text"] for m in page["messages"]]
        cursor = page["response_metadata"]["next_cursor"]
        assert page["has_more"] == bool(cursor)
        pages += 1

    assert (texts, pages) == (["4", "3", "2", "1", "0"], 3)


def test_history_is_bounded_by_oldest_and_latest(connect: Connect) -> None:
    client = connect()
    stamps = [client.chat_postMessage(channel="C0OPS", text=str(n))["ts"] for n in range(4)]

    def texts(**bounds: Any) -> list[str]:
        return [m["text"] for m in client.conversations_history(channel="C0OPS", **bounds)["messages"]]

    assert texts(oldest=stamps[1]) == ["3", "2"]
    assert texts(oldest=stamps[1], inclusive=True) == ["3", "2", "1"]
    assert texts(oldest=stamps[0], latest=stamps[3]) == ["2", "1"]


def test_history_shows_metadata_only_when_asked(connect: Connect) -> None:
    client = connect()
    client.chat_postMessage(channel="C0OPS", text="x", metadata={"event_type": "x", "event_payload": {}})

    assert "metadata" not in client.conversations_history(channel="C0OPS")["messages"][0]
    asked = client.conversations_history(channel="C0OPS", include_all_metadata=True)
    assert asked["messages"][0]["metadata"] == {"event_type": "x", "event_payload": {}}


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"limit": 0}, "invalid_limit"),
        ({"limit": 1000}, "invalid_limit"),
        ({"cursor": "nonsense!"}, "invalid_cursor"),
        ({"cursor": "Ym9n"}, "invalid_cursor"),
        ({"oldest": "yesterday"}, "invalid_ts_oldest"),
        ({"channel": "C0SHUT"}, "not_in_channel"),
        ({"channel": "#ops"}, "channel_not_found"),
    ],
)
def test_history_that_cannot_be_read(args: dict[str, Any], error: str, connect: Connect) -> None:
    told = refused(lambda: connect().conversations_history(**({"channel": "C0OPS"} | args)))
    assert told["error"] == error


@pytest.mark.parametrize(
    ("text", "pings"),
    [
        ("<!here> and <@U123|ann> and <!subteam^S1>", ("<!here>", "<@U123|ann>", "<!subteam^S1>")),
        ("&lt;!here&gt; @channel", ()),
    ],
)
def test_mentions_are_recorded(text: str, pings: tuple[str, ...], slack: SlackServer, connect: Connect) -> None:
    connect().chat_postMessage(
        channel="C0OPS", text="x", blocks=[{"type": "section", "text": {"type": "mrkdwn", "text": text}}]
    )
    connect().chat_postMessage(channel="C0OPS", text=text)

    assert [m.pings for m in slack.messages] == [pings, pings]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_fault_meets_one_request_before_or_after_its_effect(
    kind: FaultKind, stored: bool, slack: SlackServer, connect: Connect
) -> None:
    slack.fail(Fault(kind, method="chat.postMessage", stored=stored))
    client = connect(timeout=1)
    assert client.auth_test()["ok"]

    with pytest.raises(Exception) as caught:
        client.chat_postMessage(channel="C0OPS", text="faulty")
    traceback.clear_frames(caught.value.__traceback__)  # the SDK leaves a broken answer open in its frames
    client.chat_postMessage(channel="C0OPS", text="sound")

    assert [m.text for m in slack.messages] == (["faulty", "sound"] if stored else ["sound"])
    assert slack.requests == ["auth.test", "chat.postMessage", "chat.postMessage"]


def test_a_rate_limit_says_how_long(slack: SlackServer, connect: Connect) -> None:
    slack.fail(Fault(FaultKind.RATE_LIMITED, retry_after="7"))
    with pytest.raises(SlackApiError) as caught:
        connect().chat_postMessage(channel="C0OPS", text="x")
    assert caught.value.response.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "7"


def test_it_is_gone_afterwards_even_while_a_request_hangs() -> None:
    hung = threading.Event()

    def hang(url: str) -> None:
        client = WebClient(token=TOKEN, base_url=url, timeout=20, retry_handlers=[])
        client.proxy = None
        with pytest.raises(Exception) as caught:
            client.auth_test()
        traceback.clear_frames(caught.value.__traceback__)
        hung.set()

    with serve_slack(token=TOKEN, channels=["C0OPS"]) as slack:
        slack.fail(Fault(FaultKind.HANG))
        thread = threading.Thread(target=hang, args=(slack.base_url,), daemon=True)
        thread.start()
        deadline = threading.Event()
        for _ in range(500):
            if slack.requests or deadline.wait(0.01):
                break
        assert slack.requests == ["auth.test"]
        port = int(slack.base_url.split(":")[2].split("/")[0])

    assert hung.wait(10)
    thread.join(10)
    with socket.socket() as probe:
        probe.settimeout(2)
        assert probe.connect_ex(("127.0.0.1", port)) != 0
