"""What a receiver tells us by itself: verified, and read. Pure; whoever listens hands the request in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from pydantic import ValidationError

from quarantine.adapters.tickets.markdown import clean
from quarantine.adapters.tickets.webhook.schema import Callback
from quarantine.adapters.tickets.webhook.signature import (
    SHORTEST_SECRET,
    SIGNATURE,
    TIMESTAMP,
    WINDOW,
    callback_signature,
    fresh,
    matches,
)
from quarantine.core.errors import QuarantineError
from quarantine.core.tickets import Ticket, TicketState

LONGEST = 65_536  # bytes of a body


class CallbackRefused(QuarantineError):
    """The request is no word of the receiver's. `status` is what to answer it with."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class CallbackWord:
    """A ticket as the receiver says it is. The same `id` again is the same word."""

    id: str
    at: datetime  # when it became so: an older word than the last one heard of a ticket is stale
    ticket: Ticket
    text: str = ""  # what the provider says, raw


def verify_callback(
    headers: Mapping[str, str],
    body: bytes,
    secret: str,
    now: datetime,
    states: Mapping[str, TicketState] | None = None,
) -> CallbackWord:
    """The word that the request brings. `headers`: their names in any case. `states` as in the target's options.

    Raises CallbackRefused: 413 where it is too long, 401 where its time or its signature is wrong, 400 where what is
    signed cannot be understood. Nothing of the body is read before it is verified.
    """
    if len(secret) < SHORTEST_SECRET:  # an empty secret would let anybody in
        raise CallbackRefused(HTTPStatus.INTERNAL_SERVER_ERROR, "there is no secret to verify call-backs with")
    if len(body) > LONGEST:
        raise CallbackRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a call-back has at most {LONGEST} bytes")
    said = {name.lower(): value for name, value in headers.items()}
    seconds = fresh(said.get(TIMESTAMP.lower(), ""), now)
    if seconds is None:
        minutes = int(WINDOW.total_seconds() // 60)
        raise CallbackRefused(
            HTTPStatus.UNAUTHORIZED, f"{TIMESTAMP} must be the time in seconds since 1970, within {minutes} minutes"
        )
    if not matches(said.get(SIGNATURE.lower(), ""), callback_signature(secret, seconds, body)):
        raise CallbackRefused(HTTPStatus.UNAUTHORIZED, f"{SIGNATURE} is not that of this body")
    try:
        word = Callback.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise CallbackRefused(HTTPStatus.BAD_REQUEST, f"{place}: {first['msg']}") from None
    known = {status.strip().lower(): state for status, state in (states or {}).items()}
    return CallbackWord(word.id, word.at, word.ticket(known), clean(word.text))
