"""The stand-in's further methods: threads, people, groups, files, and the pace of a channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from quarantine.sandbox.slack import Person, SlackServer, serve_slack

TOKEN = "xoxb-1-sandbox"
APP_TOKEN = "xapp-1-A0SANDBOX-1-secret"
AT = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
PLAIN = {"type": "plain_text", "text": "hello"}
PEOPLE = (
    Person("U0ANN", "ann"),
    Person("U0GUEST", "gus", guest=True),
    Person("U0FAR", "eve", team="T0OTHER"),
    Person("U0GRID", "grid", team="T0SISTER", enterprise="E0ORG"),
)


@pytest.fixture(scope="module")
def running() -> Iterator[SlackServer]:
    with serve_slack(
        token=TOKEN,
        app_token=APP_TOKEN,
        channels=["C0OPS"],
        now=lambda: AT,
        people=PEOPLE,
        groups={"S0APPROVE": ["U0ANN"]},
    ) as server:
        yield server


@pytest.fixture
def slack(running: SlackServer) -> SlackServer:
    running.reset()
    return running


def client_of(slack: SlackServer, token: str = TOKEN) -> WebClient:
    client = WebClient(token=token, base_url=slack.base_url, timeout=5, retry_handlers=[])
    client.proxy = None
    return client


@pytest.fixture
def client(slack: SlackServer) -> WebClient:
    return client_of(slack)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(SlackApiError) as caught:
        call()
    return str(caught.value.response["error"])


def test_a_thread_is_read_from_its_first_message_on(client: WebClient) -> None:
    first = client.chat_postMessage(channel="C0OPS", text="first")["ts"]
    client.chat_postMessage(channel="C0OPS", text="elsewhere")
    replies = [client.chat_postMessage(channel="C0OPS", text=str(n), thread_ts=first)["ts"] for n in range(3)]

    page = client.conversations_replies(channel="C0OPS", ts=first, limit=2)
    assert [m["text"] for m in page["messages"]] == ["first", "0"]
    assert page["has_more"]
    rest = client.conversations_replies(channel="C0OPS", ts=first, cursor=page["response_metadata"]["next_cursor"])
    assert [m["ts"] for m in rest["messages"]] == replies[1:]
    assert not rest["has_more"]
    assert refused(lambda: client.conversations_replies(channel="C0OPS", ts="1.000001")) == "thread_not_found"


def test_who_somebody_is(client: WebClient) -> None:
    ann, guest, far, grid = (client.users_info(user=p.id)["user"] for p in PEOPLE)
    assert (ann["team_id"], ann["is_restricted"], ann.get("is_stranger")) == ("T0SANDBOX", False, None)
    assert guest["is_restricted"]
    assert (far["team_id"], far["is_stranger"]) == ("T0OTHER", True)
    assert grid["enterprise_user"]["enterprise_id"] == "E0ORG"
    assert refused(lambda: client.users_info(user="U0NOBODY")) == "user_not_found"
    assert client.auth_test()["team_id"] == ann["team_id"]


def test_who_is_in_a_group_and_in_a_channel(client: WebClient) -> None:
    assert client.usergroups_users_list(usergroup="S0APPROVE")["users"] == ["U0ANN"]
    assert refused(lambda: client.usergroups_users_list(usergroup="S0NONE")) == "no_such_subteam"
    assert {"U0ANN", "U0FAR"} <= set(client.conversations_members(channel="C0OPS")["members"])


def test_one_person_alone_is_shown_something(slack: SlackServer, client: WebClient) -> None:
    client.chat_postEphemeral(channel="C0OPS", user="U0ANN", text="for you <!here>")
    (shown,) = slack.ephemerals
    assert (shown.channel, shown.user, shown.text, shown.pings) == ("C0OPS", "U0ANN", "for you <!here>", ("<!here>",))
    assert slack.messages == []
    assert refused(lambda: client.chat_postEphemeral(channel="C0OPS", user="U0NO", text="x")) == "user_not_in_channel"
    empty = {"channel": "C0OPS", "user": "U0ANN"}
    assert refused(lambda: client.api_call("chat.postEphemeral", json=empty)) == "no_text"


def test_a_file_is_uploaded_in_three_steps_into_a_thread(slack: SlackServer, client: WebClient) -> None:
    ts = client.chat_postMessage(channel="C0OPS", text="the case")["ts"]
    client.files_upload_v2(
        channel="C0OPS", thread_ts=ts, filename="chart.png", title="Chart", content=b"\x89PNG", initial_comment="see"
    )
    (upload,) = slack.files.uploads
    assert (upload.filename, upload.title, upload.content) == ("chart.png", "Chart", b"\x89PNG")
    assert (upload.complete, upload.channel, upload.thread_ts) == (True, "C0OPS", ts)
    message = slack.messages[-1]
    assert (message.text, message.thread_ts, message.files, message.ts) == ("see", ts, (upload.id,), upload.ts)


def test_a_file_that_nobody_put_cannot_be_completed(client: WebClient) -> None:
    file = client.files_getUploadURLExternal(filename="a.png", length=3)["file_id"]
    wanting = [{"id": str(file)}]
    assert refused(lambda: client.files_completeUploadExternal(files=wanting)) == "file_not_found"  # type: ignore[arg-type]
    assert refused(lambda: client.files_getUploadURLExternal(filename="a.png", length=0)) == "invalid_arguments"


def test_each_kind_of_token_has_its_methods(slack: SlackServer, client: WebClient) -> None:
    assert refused(lambda: client.apps_connections_open(app_token=TOKEN)) == "not_allowed_token_type"
    assert refused(lambda: client_of(slack, APP_TOKEN).auth_test()) == "not_allowed_token_type"
    assert str(client.apps_connections_open(app_token=APP_TOKEN)["url"]).startswith("ws://127.0.0.1:")


def test_a_channel_has_its_pace() -> None:
    at = [AT]
    paced = serve_slack(token=TOKEN, channels=["C0OPS", "C0NIGHT"], now=lambda: at[0], pace=timedelta(seconds=1))
    with paced as slack:
        client = client_of(slack)
        client.chat_postMessage(channel="C0OPS", text="one")
        with pytest.raises(SlackApiError) as caught:
            client.chat_postMessage(channel="C0OPS", text="two")
        client.chat_postMessage(channel="C0NIGHT", text="another channel")
        at[0] += timedelta(seconds=1)
        client.chat_postMessage(channel="C0OPS", text="three")
    assert (caught.value.response.status_code, caught.value.response.headers["Retry-After"]) == (429, "1")
    assert [m.text for m in slack.messages] == ["one", "another channel", "three"]


def button(**changes: Any) -> dict[str, Any]:
    return {"type": "button", "text": PLAIN, "action_id": "a", "value": "v"} | changes


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"type": "actions", "elements": []}, "must be an array of 1 to 25 items [json-pointer:/blocks/0/elements]"),
        (
            {"type": "actions", "elements": [button(value="x" * 2001)]},
            "must be less than 2001 characters [json-pointer:/blocks/0/elements/0/value]",
        ),
        (
            {"type": "actions", "elements": [button(action_id="x" * 256)]},
            "must be less than 256 characters [json-pointer:/blocks/0/elements/0/action_id]",
        ),
        (
            {"type": "actions", "elements": [button(text={"type": "mrkdwn", "text": "x"})]},
            "must be an object of type plain_text [json-pointer:/blocks/0/elements/0/text]",
        ),
        (
            {"type": "actions", "elements": [button(), button()]},
            "action_id must be unique [json-pointer:/blocks/0/elements]",
        ),
        (
            {"type": "actions", "elements": [button(style="green")]},
            "must be one of primary, danger [json-pointer:/blocks/0/elements/0/style]",
        ),
        (
            {"type": "actions", "elements": [button(confirm={"title": PLAIN})]},
            "missing required field: deny [json-pointer:/blocks/0/elements/0/confirm]",
        ),
        (
            {"type": "section", "text": PLAIN, "accessory": {"type": "poem"}},
            "unsupported type: poem [json-pointer:/blocks/0/accessory/type]",
        ),
        (
            {"type": "image", "alt_text": "x"},
            "must have exactly one of image_url and slack_file [json-pointer:/blocks/0]",
        ),
        ({"type": "input", "label": PLAIN}, "missing required field: element [json-pointer:/blocks/0]"),
    ],
)
def test_interactive_blocks_that_slack_would_refuse(block: dict[str, Any], problem: str, client: WebClient) -> None:
    with pytest.raises(SlackApiError) as caught:
        client.chat_postMessage(channel="C0OPS", text="x", blocks=[block])
    assert caught.value.response["error"] == "invalid_blocks"
    assert problem in caught.value.response["errors"]


def test_buttons_at_the_limits_are_taken(slack: SlackServer, client: WebClient) -> None:
    elements = [button(action_id=f"{n:0255d}", value="x" * 2000, text=PLAIN | {"text": "x" * 75}) for n in range(25)]
    client.chat_postMessage(channel="C0OPS", text="x", blocks=[{"type": "actions", "elements": elements}])
    assert len(slack.messages) == 1
