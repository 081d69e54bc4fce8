"""Slack's signature over HTTPS, made by the stand-in; and what is answered when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest

from quarantine.adapters.slack.signature import LONGEST_BODY, Door
from quarantine.adapters.slack.signature import signed as is_signed
from quarantine.sandbox.slack import signed

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NOW = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
CLICK = {"type": "block_actions", "user": {"id": "U0ANN", "name": "ä & ="}}
COMMAND = {"command": "/quarantine", "text": "status", "user_id": "U0ANN"}


class Taken:
    """A backlog that keeps what it is offered."""

    def __init__(self, size: int = 10) -> None:
        self.items: list[tuple[str, object]] = []
        self._size = size

    def __call__(self, kind: str, payload: object) -> bool:
        if len(self.items) >= self._size:
            return False
        self.items.append((kind, payload))
        return True


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def door(taken: Taken) -> Door:
    return Door(lambda: SECRET, taken, now=lambda: NOW)


def test_slacks_own_example() -> None:
    """From Slack's page on verifying requests."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "X-Slack-Request-Timestamp": "1531420618",
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    at = datetime.fromtimestamp(1531420618, UTC)
    assert is_signed("8f742231b10e8888abcd99yyyzzz85a5", headers, body, at)


def test_a_click_and_a_command_are_taken(door: Door, taken: Taken) -> None:
    assert door(*signed(CLICK, SECRET, NOW)) == (200, b"")
    assert door(*signed(COMMAND, SECRET, NOW)) == (200, b"")
    assert taken.items == [("interactive", CLICK), ("slash_commands", COMMAND)]


@pytest.mark.parametrize("late", [timedelta(minutes=5, seconds=1), -timedelta(minutes=5, seconds=1)])
def test_an_old_signature_counts_no_more(late: timedelta, door: Door, taken: Taken) -> None:
    assert door(*signed(CLICK, SECRET, NOW - late))[0] == 401
    assert door(*signed(CLICK, SECRET, NOW - late * 0.99))[0] == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"X-Slack-Signature": "v0=" + "0" * 64},
        {"X-Slack-Signature": "v0=é"},
        {"X-Slack-Signature": ""},
        {"X-Slack-Request-Timestamp": ""},
        {"X-Slack-Request-Timestamp": "soon"},
        {"X-Slack-Request-Timestamp": "²"},
        {"X-Slack-Request-Timestamp": str(int(NOW.timestamp()) + 1)},
    ],
)
def test_what_slack_did_not_sign_is_refused(changes: dict[str, str], door: Door, taken: Taken) -> None:
    headers, body = signed(CLICK, SECRET, NOW)
    assert door(headers | changes, body)[0] == 401
    assert taken.items == []


def test_another_secret_body_or_none_is_refused(door: Door, taken: Taken) -> None:
    headers, body = signed(CLICK, "another", NOW)
    assert door(headers, body)[0] == 401
    headers, body = signed(CLICK, SECRET, NOW)
    assert door(headers, body + b"&x=1")[0] == 401
    assert door({}, body)[0] == 401
    assert door(headers, b"\xff")[0] == 401
    assert Door(lambda: "", taken, now=lambda: NOW)(*signed(CLICK, "", NOW))[0] == 401
    assert taken.items == []


def test_headers_in_any_case(door: Door) -> None:
    headers, body = signed(CLICK, SECRET, NOW)
    assert door({name.lower(): value for name, value in headers.items()}, body)[0] == 200


def signed_body(body: bytes) -> tuple[dict[str, str], bytes]:
    """The stand-in signs payloads; here any body is."""
    import hashlib
    import hmac

    stamp = str(int(NOW.timestamp()))
    made = hmac.new(SECRET.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={made}"}, body


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b"payload={",
        b"payload=" + b"[" * 100_000,
        b"payload={}&payload={}",
        urlencode({f"f{n}": n for n in range(60)}).encode(),
    ],
)
def test_signed_garbage_is_refused_without_a_traceback(body: bytes, door: Door, taken: Taken) -> None:
    assert door(*signed_body(body))[0] == 400
    assert taken.items == []


def test_what_is_too_long_is_not_looked_at(door: Door) -> None:
    assert door({}, b"x" * (LONGEST_BODY + 1))[0] == 413


def test_a_check_of_the_certificate_is_answered(door: Door, taken: Taken) -> None:
    assert door(*signed_body(b"token=x&ssl_check=1")) == (200, b"")
    assert taken.items == []


def test_where_too_much_waits_slack_is_told_so() -> None:
    door = Door(lambda: SECRET, Taken(size=0), now=lambda: NOW)
    assert door(*signed(CLICK, SECRET, NOW))[0] == 503
