"""What is listened to as the settings say: over real HTTP, and to nobody who is not asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from quarantine.adapters.tickets.targets import Context, ManyDesks, target
from quarantine.adapters.tickets.webhook.signature import SIGNATURE, TIMESTAMP, callback_signature
from quarantine.core.errors import UsageError
from quarantine.core.policy import LoadedPolicy
from quarantine.ledger.absent import AbsentLedger
from quarantine.listening import approvers, listening
from quarantine.observe.tickets import Follower
from quarantine.sandbox.ports_free import free_port
from quarantine.sandbox.slack import SlackServer, serve_slack, signed
from quarantine.settings import Settings
from tests.core.world import NOW, policy, rules

SECRET, SIGNING = "0123456789abcdef0123456789abcdef", "8f742231b10e8888abcd99yyyzzz85a5"
BOT, CHANNEL = "xoxb-1-very-secret", "C0GPUOPS"
Listen = Callable[[Settings], AbstractContextManager[None]]


class Still:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


@pytest.fixture(scope="module")
def slack() -> Iterator[SlackServer]:
    with serve_slack(token=BOT, channels=[CHANNEL], app_token="xapp-1", now=lambda: NOW) as server:
        yield server


@pytest.fixture
def woken() -> list[str]:
    return []


def settings(**given: Any) -> Settings:
    """Those of a controller with one webhook target."""
    tickets = {"targets": {"desk": {"kind": "webhook", "url": "http://127.0.0.1:1", "secret": SECRET}}}
    return Settings(**{"tickets": {**tickets, "default": "desk"}, **given})


@pytest.fixture
def listen(woken: list[str], tmp_path: Path) -> Listen:
    def made(given: Settings) -> AbstractContextManager[None]:
        chosen = given.tickets.chosen
        desks = {
            name: target(one.kind, one.options, Context("test", Still().now, None, name))
            for name, one in chosen.items()
        }
        follower = Follower(ManyDesks(desks, {}, "desk"), Still()) if desks else None
        book = AbsentLedger(tmp_path / "none.db")
        return listening(given, book, rules, follower, Still().now, wake=lambda: woken.append("now"))

    return made


def post(port: int, path: str, body: bytes, headers: dict[str, str]) -> int:
    return requests.post(f"http://127.0.0.1:{port}{path}", data=body, headers=headers, timeout=5).status_code


def call(port: int, path: str = "/tickets/desk", secret: str = SECRET) -> int:
    """A receiver's call-back."""
    word = {"id": "w-1", "at": NOW.isoformat(), "ref": "RMA-1", "key": "q-1", "status": "sent", "state": "in-progress"}
    body, seconds = json.dumps(word).encode(), int(NOW.timestamp())
    return post(port, path, body, {TIMESTAMP: str(seconds), SIGNATURE: callback_signature(secret, seconds, body)})


def test_a_receiver_that_calls_wakes_the_cycle_by_its_signature_alone(listen: Listen, woken: list[str]) -> None:
    port = free_port()
    with listen(settings(door={"listen": f"127.0.0.1:{port}"})):
        assert call(port, secret="f" * 32) == 401
        assert call(port, "/tickets/other") == 404
        assert call(port, "/slack") == 404, "nobody listens to Slack here"
        assert woken == []
        assert call(port) == 202
        assert woken == ["now"]
    with pytest.raises(requests.ConnectionError):
        call(port)


def test_nothing_is_open_by_default(listen: Listen, woken: list[str]) -> None:
    with listen(settings()):
        assert woken == []


def test_slack_is_heard_at_the_door_by_its_signature(listen: Listen, slack: SlackServer) -> None:
    port = free_port()
    own = {"token": BOT, "channel": CHANNEL, "signing_secret": SIGNING, "base_url": slack.base_url}
    payload = {"type": "block_actions"}
    with listen(Settings(slack=own, door={"listen": f"127.0.0.1:{port}"})):
        headers, body = signed(payload, SIGNING, NOW)
        assert post(port, "/slack", body, headers) == 200
        headers, body = signed(payload, "another", NOW)
        assert post(port, "/slack", body, headers) == 401
        headers, body = signed(payload, SIGNING, NOW - timedelta(minutes=6))
        assert post(port, "/slack", body, headers) == 401
        assert call(port) == 404, "nobody listens to receivers here"


def test_without_a_channel_slack_is_not_listened_to(listen: Listen, slack: SlackServer) -> None:
    with listen(Settings(slack={"token": BOT, "app_token": "xapp-1", "base_url": slack.base_url})):
        pass
    assert slack.requests == []


def test_socket_mode_connects_and_ends_with_the_block(listen: Listen, slack: SlackServer) -> None:
    own = {"token": BOT, "channel": CHANNEL, "app_token": "xapp-1", "base_url": slack.base_url}
    with listen(Settings(slack=own)):
        slack.sockets.wait_connected(2)
    slack.sockets.wait_connected(0)


def test_a_door_that_cannot_be_opened_says_which(listen: Listen) -> None:
    port = free_port()
    given = settings(door={"listen": f"127.0.0.1:{port}"})
    with listen(given), pytest.raises(UsageError, match=r"give door\.listen another address"), listen(given):
        pass


def test_who_may_approve_is_looked_up_for_every_policy_that_asks() -> None:
    def asking(name: str, **approval: str) -> LoadedPolicy:
        return policy(name, response={"ticket": "replace", "approval": approval})

    made = rules(policy(), asking("a", by="S0HW"), asking("b", by="S0NET"), asking("c"), asking("d", by="S0HW"))
    assert approvers(made) == {"S0HW", "S0NET"}
    assert approvers(rules()) == frozenset()
