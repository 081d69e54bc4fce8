"""The stand-in's Socket Mode: the SDK's own client talks to it, and what is not acknowledged comes again."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import websocket
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from quarantine.sandbox.slack import Message, Person, SlackServer, serve_slack

TOKEN = "xoxb-1-sandbox"
APP_TOKEN = "xapp-1-A0SANDBOX-1-secret"
BUTTON = {
    "type": "button",
    "text": {"type": "plain_text", "text": "Approve"},
    "action_id": "quarantine.approve",
    "value": "v",
}


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture(scope="module")
def clock() -> Hands:
    return Hands()


@pytest.fixture(scope="module")
def running(clock: Hands) -> Iterator[SlackServer]:
    people = [Person("U0ANN", "ann"), Person("U0FAR", "eve", team="T0OTHER")]
    with serve_slack(token=TOKEN, app_token=APP_TOKEN, channels=["C0OPS"], now=clock, people=people) as server:
        yield server


@pytest.fixture
def slack(running: SlackServer) -> SlackServer:
    running.reset()
    return running


@pytest.fixture
def client(slack: SlackServer) -> WebClient:
    client = WebClient(token=TOKEN, base_url=slack.base_url, timeout=5, retry_handlers=[])
    client.proxy = None
    return client


@pytest.fixture
def message(slack: SlackServer, client: WebClient) -> Message:
    client.chat_postMessage(channel="C0OPS", text="x", blocks=[{"type": "actions", "elements": [BUTTON]}])
    return slack.messages[-1]


class Wire:
    """A bare WebSocket of the app."""

    def __init__(self, client: WebClient) -> None:
        url = client.apps_connections_open(app_token=APP_TOKEN)["url"]
        self.socket = websocket.create_connection(url, timeout=5)
        self.hello = self.read()

    def read(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.socket.recv())
        return told

    def ack(self, envelope: dict[str, Any], **more: Any) -> None:
        self.socket.send(json.dumps({"envelope_id": envelope["envelope_id"], **more}))


@pytest.fixture
def wire(slack: SlackServer, client: WebClient) -> Iterator[Wire]:
    wire = Wire(client)
    slack.sockets.wait_connected(1)
    yield wire
    wire.socket.close()
    slack.sockets.wait_connected(0)


def test_the_sdks_own_client_connects_and_acknowledges(slack: SlackServer, client: WebClient, message: Message) -> None:
    seen: queue.Queue[SocketModeRequest] = queue.Queue()

    def listen(socket: BaseSocketModeClient, request: SocketModeRequest) -> None:
        socket.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        seen.put(request)

    app = SocketModeClient(app_token=APP_TOKEN, web_client=client)
    app.socket_mode_request_listeners.append(listen)
    app.connect()
    try:
        slack.sockets.wait_connected(1)
        delivery = slack.acts.click("U0ANN", message, "quarantine.approve").wait()
        request = seen.get(timeout=10)
    finally:
        app.auto_reconnect_enabled = False
        slack.sockets.drop()  # otherwise its closing waits for its reading, which takes three seconds
        app.close()
    slack.sockets.wait_connected(0)
    assert delivery.acknowledged
    assert request.type == "interactive"
    assert request.payload["actions"][0]["action_id"] == "quarantine.approve"
    assert request.payload["container"]["message_ts"] == message.ts
    assert request.payload["user"] == {"id": "U0ANN", "username": "ann", "name": "ann", "team_id": "T0SANDBOX"}


def test_it_says_hello_and_each_url_is_good_once(slack: SlackServer, client: WebClient, clock: Hands) -> None:
    url = client.apps_connections_open(app_token=APP_TOKEN)["url"]
    first = websocket.create_connection(url, timeout=5)
    assert json.loads(first.recv())["type"] == "hello"
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(url, timeout=5)
    first.close()
    slack.sockets.wait_connected(0)
    stale = client.apps_connections_open(app_token=APP_TOKEN)["url"]
    clock.at += timedelta(seconds=31)
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(stale, timeout=5)


def test_what_is_not_acknowledged_within_three_seconds_comes_again(
    slack: SlackServer, wire: Wire, message: Message, clock: Hands
) -> None:
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
    first = wire.read()
    assert "retry_attempt" not in first
    clock.at += timedelta(seconds=3)
    again = wire.read()
    assert (again["envelope_id"], again["payload"]) == (first["envelope_id"], first["payload"])
    assert (again["retry_attempt"], again["retry_reason"]) == (1, "timeout")
    wire.ack(again)
    delivery.wait()
    assert (delivery.acknowledged, delivery.attempts) == (True, 2)


def test_after_three_more_attempts_it_is_given_up(
    slack: SlackServer, wire: Wire, message: Message, clock: Hands
) -> None:
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
    for _ in range(4):
        wire.read()
        clock.at += timedelta(seconds=3)
    delivery.wait()
    assert (delivery.acknowledged, delivery.attempts) == (False, 4)


def test_each_envelope_goes_to_one_of_the_connections(slack: SlackServer, client: WebClient, message: Message) -> None:
    wires = [Wire(client), Wire(client)]
    slack.sockets.wait_connected(2)
    assert [wire.hello["num_connections"] for wire in wires] == [1, 2]
    for _ in wires:
        slack.acts.click("U0ANN", message, "quarantine.approve")
    for wire in wires:
        wire.ack(wire.read())
    for delivery in slack.sockets.deliveries:
        assert delivery.wait().attempts == 1
    for wire in wires:
        wire.socket.close()
    slack.sockets.wait_connected(0)


def test_without_a_connection_a_click_is_lost(slack: SlackServer, message: Message) -> None:
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve").wait()
    assert (delivery.acknowledged, delivery.attempts) == (False, 0)


def test_a_connection_is_told_before_it_ends(slack: SlackServer, client: WebClient) -> None:
    wire = Wire(client)
    slack.sockets.wait_connected(1)
    slack.sockets.refresh("warning")
    assert (wire.read()["reason"], slack.sockets.connected) == ("warning", 1)
    slack.sockets.refresh()
    assert wire.read()["reason"] == "refresh_requested"
    slack.sockets.wait_connected(0)
    wire.socket.close()


def test_what_is_no_acknowledgement_is_kept_as_garbage(slack: SlackServer, wire: Wire, message: Message) -> None:
    delivery = slack.acts.click("U0ANN", message, "quarantine.approve")
    for text in ("{", "[]", '{"envelope_id": "another"}'):
        wire.socket.send(text)
    wire.ack(wire.read(), payload={"text": "hello"})
    assert delivery.wait().answer == {"text": "hello"}
    assert len(slack.sockets.garbage) == 3


def test_a_stranger_of_a_shared_channel_is_of_another_team(slack: SlackServer, message: Message) -> None:
    payload = slack.acts.click_payload("U0FAR", message, "quarantine.approve")
    assert (payload["user"]["team_id"], payload["team"]["id"]) == ("T0OTHER", "T0SANDBOX")


def test_a_modal_is_opened_by_a_fresh_trigger_and_answered(
    slack: SlackServer, client: WebClient, wire: Wire, message: Message, clock: Hands
) -> None:
    written = {"type": "plain_text_input", "action_id": "why", "min_length": 2}
    label = {"type": "plain_text", "text": "Why"}
    view: dict[str, Any] = {"type": "modal", "title": label, "submit": label, "private_metadata": "m"}
    view["blocks"] = [{"type": "input", "block_id": "reason", "label": label, "element": written}]
    slack.acts.click("U0ANN", message, "quarantine.approve")
    trigger = wire.read()["payload"]["trigger_id"]

    client.views_open(trigger_id=trigger, view=view)
    (shown,) = slack.acts.views
    assert (shown.user, shown.open) == ("U0ANN", True)
    with pytest.raises(SlackApiError, match="exchanged_trigger_id"):
        client.views_open(trigger_id=trigger, view=view)
    with pytest.raises(ValueError, match="required"):
        slack.acts.submit(shown, {})
    slack.acts.submit(shown, {"why": "because"})
    submitted = wire.read()["payload"]
    assert submitted["type"] == "view_submission"
    assert submitted["view"]["private_metadata"] == "m"
    assert submitted["view"]["state"]["values"]["reason"]["why"]["value"] == "because"
    assert not shown.open

    late = slack.acts.click_payload("U0ANN", message, "quarantine.approve")["trigger_id"]
    clock.at += timedelta(seconds=4)
    with pytest.raises(SlackApiError, match="expired_trigger_id"):
        client.views_open(trigger_id=late, view=view)
    fresh = slack.acts.click_payload("U0ANN", message, "quarantine.approve")["trigger_id"]
    with pytest.raises(SlackApiError, match="invalid_arguments"):
        client.views_open(trigger_id=fresh, view=view | {"title": label | {"text": "x" * 25}})


def test_a_command_is_answered_at_its_response_url(slack: SlackServer, wire: Wire, clock: Hands) -> None:
    slack.acts.run("U0ANN", "C0OPS", "explain gpu-017")
    payload = wire.read()["payload"]
    assert (payload["command"], payload["text"], payload["user_id"]) == ("/quarantine", "explain gpu-017", "U0ANN")
    ticket = payload["response_url"].rpartition("/")[2]
    answers = [slack.acts.respond(ticket, json.dumps({"text": f"{n}"}).encode()) for n in range(6)]
    assert answers == [(200, "ok")] * 5 + [(404, "used_url")]
    assert [(e.user, e.text) for e in slack.ephemerals][:2] == [("U0ANN", "0"), ("U0ANN", "1")]
    assert slack.acts.respond("nothing", b"{}") == (404, "no_service")
    late = slack.acts.command_payload("U0ANN", "C0OPS", "status")["response_url"].rpartition("/")[2]
    clock.at += timedelta(minutes=31)
    assert slack.acts.respond(late, b'{"text": "x"}') == (404, "expired_url")
