"""What a receiver tells us counts only as it was signed, and only for a while."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.adapters.tickets.webhook.callback import LONGEST, CallbackRefused, CallbackWord, verify_callback
from quarantine.adapters.tickets.webhook.signature import callback_signature, request_signature
from quarantine.core.tickets import Ticket, TicketState

SECRET = "0123456789abcdef0123456789abcdef"
NOW = datetime(2026, 11, 29, 4, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
WORD: dict[str, Any] = {
    "id": "w-1",
    "at": "2026-11-29T03:59:00Z",
    "ref": "RMA-1",
    "key": "gpu-017-a3",
    "status": "sent out",
    "state": "in-progress",
    "text": "The part is on its way.",
}
BODY = json.dumps(WORD).encode()


def headers(body: bytes = BODY, seconds: int = SECONDS, secret: str = SECRET) -> dict[str, str]:
    signature = callback_signature(secret, seconds, body)
    return {"quarantine-timestamp": str(seconds), "QUARANTINE-SIGNATURE": signature}


def test_a_word_is_read() -> None:
    ticket = Ticket("RMA-1", "gpu-017-a3", "sent out", "", TicketState.IN_PROGRESS, open=True)
    word = CallbackWord("w-1", NOW - timedelta(minutes=1), ticket, "The part is on its way.")
    assert verify_callback(headers(), BODY, SECRET, NOW) == word


def test_one_of_several_signatures_is_enough() -> None:
    """A receiver whose secret is being changed signs with both."""
    both = headers() | {"QUARANTINE-SIGNATURE": f"v1=00, {callback_signature(SECRET, SECONDS, BODY)}"}
    assert verify_callback(both, BODY, SECRET, NOW).id == "w-1"


def test_a_status_of_the_options() -> None:
    body = json.dumps(WORD | {"state": None}).encode()
    word = verify_callback(headers(body), body, SECRET, NOW, {"Sent Out": TicketState.REPLACED})
    assert (word.ticket.state, word.ticket.open) == (TicketState.REPLACED, False)


@pytest.mark.parametrize("off", [-301, 301])
def test_a_word_of_another_time_is_refused(off: int) -> None:
    with pytest.raises(CallbackRefused, match="within 5 minutes") as raised:
        verify_callback(headers(seconds=SECONDS + off), BODY, SECRET, NOW)
    assert raised.value.status == 401
    assert verify_callback(headers(seconds=SECONDS + off + (1 if off < 0 else -1)), BODY, SECRET, NOW)


@pytest.mark.parametrize("timestamp", ["", "now", "-5", "1e9", "٣", " 1", "9" * 13, str(SECONDS) + "\n"])
def test_a_time_that_is_none(timestamp: str) -> None:
    with pytest.raises(CallbackRefused) as raised:
        verify_callback(headers() | {"quarantine-timestamp": timestamp}, BODY, SECRET, NOW)
    assert raised.value.status == 401


def test_what_we_asked_is_no_word() -> None:
    ours = {"Quarantine-Signature": request_signature(SECRET, SECONDS, "POST", "/callback", BODY)}
    with pytest.raises(CallbackRefused, match="not that of this body"):
        verify_callback({"quarantine-timestamp": str(SECONDS)} | ours, BODY, SECRET, NOW)


@pytest.mark.parametrize("signature", ["", "v1=", "v1=é", "v2=0", "," * 50])
def test_a_signature_that_is_none(signature: str) -> None:
    with pytest.raises(CallbackRefused) as raised:
        verify_callback(headers() | {"QUARANTINE-SIGNATURE": signature}, BODY, SECRET, NOW)
    assert raised.value.status == 401


def test_without_a_secret_nobody_is_let_in() -> None:
    with pytest.raises(CallbackRefused) as raised:
        verify_callback(headers(secret=""), BODY, "", NOW)
    assert raised.value.status == 500


def test_a_long_one_is_not_read() -> None:
    body = b" " * LONGEST + BODY
    with pytest.raises(CallbackRefused) as raised:
        verify_callback(headers(body), body, SECRET, NOW)
    assert raised.value.status == 413


@pytest.mark.parametrize(
    "wrong",
    [{"ref": "a/b"}, {"key": "A"}, {"id": ""}, {"at": "2026-11-29T03:59:00"}, {"version": 2}, {"state": "gone"}],
)
def test_a_signed_word_that_is_wrong_is_told_why(wrong: dict[str, object]) -> None:
    body = json.dumps(WORD | wrong).encode()
    with pytest.raises(CallbackRefused, match=f"^{next(iter(wrong))}: ") as raised:
        verify_callback(headers(body), body, SECRET, NOW)
    assert raised.value.status == 400


@settings(deadline=None)
@given(st.integers(0, len(BODY) - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(place: int, change: int) -> None:
    body = BODY[:place] + bytes([BODY[place] ^ change]) + BODY[place + 1 :]
    with pytest.raises(CallbackRefused, match="not that of this body"):
        verify_callback(headers(), body, SECRET, NOW)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_whatever_is_signed_is_a_word_or_is_refused(body: bytes) -> None:
    with pytest.raises(CallbackRefused) as raised:
        verify_callback(headers(body), body, SECRET, NOW)
    assert raised.value.status == 400
