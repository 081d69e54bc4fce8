"""Tickets kept by a receiver of one's own, which has promised what `docs/tickets/webhook.md` says."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from quarantine.adapters.tickets.keys import checked, file_name
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import clean, one_line
from quarantine.adapters.tickets.web import Answer, Call, Web
from quarantine.adapters.tickets.webhook.schema import (
    REF,
    NewAttachment,
    NewUpdate,
    TicketNow,
    TicketsNow,
    new_ticket,
)
from quarantine.core.errors import TicketsRefused, TicketsUnavailable
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.core.tickets import Answerable, Attachment, Ticket, TicketState, Update

_REF = re.compile(REF)
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
_TAKES_NONE = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.NOT_IMPLEMENTED,
)
_Model = TypeVar("_Model", bound=BaseModel)


class WebhookTickets:
    """Implements `ports.Tickets`. The receiver promises that one key is one ticket: IDEMPOTENT."""

    answerable = Answerable.IDEMPOTENT
    settles = timedelta(0)

    def __init__(
        self, web: Web, letter: Callable[[CaseReport], Letter], states: Mapping[str, TicketState] | None = None
    ) -> None:
        """`web` signs what it sends. `states`: the receiver's status words that are not ours."""
        self._web = web
        self._letter = letter
        self._states = {word.strip().lower(): state for word, state in (states or {}).items()}

    def find(self, key: str) -> tuple[Ticket, ...]:
        """All tickets with the key. An answer with another key in it is none to this question."""
        call = self._web.call(f"look for the ticket of case {checked(key)}")
        answer = call.get("/tickets", {"key": key})
        found = _parsed(call, answer, TicketsNow).tickets
        if any(ticket.key != key for ticket in found):
            call.garbled(answer, why="a ticket with another key is among those of this one")
        return tuple(ticket.ticket(self._states) for ticket in found)

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it, then hand in the attachments: a receiver that takes none costs the chart, not the ticket."""
        call = self._web.call(f"file a ticket for case {checked(report.key)}")
        body = new_ticket(report, self._letter(report)).model_dump(mode="json")
        answer = call.send("POST", "/tickets", body, headers={"Idempotency-Key": report.key})
        filed = _parsed(call, answer, TicketNow, wrote=True)
        if filed.key != report.key:
            call.garbled(answer, wrote=True, why="it has another key than what was filed")
        ticket = filed.ticket(self._states)
        return replace(ticket, note=self._attach(call, ticket.ref, attachments))

    def read(self, ref: str) -> Ticket | None:
        """Its present state; None only where the receiver says by name that it has no such ticket."""
        call = self._web.call(f"read ticket {_checked_ref(ref)}")
        answer = call.get(f"/tickets/{ref}", known=_GONE)
        if answer.status in _GONE:
            match answer.body:
                case {"missing": str(named)} if named == ref:
                    return None
            raise TicketsRefused(
                f"could not read ticket {ref}: {self._web.base} answered {answer.status} without "
                "'missing' in it, so it is perhaps not the receiver: look at the target's url"
            )
        ticket = _parsed(call, answer, TicketNow)
        if ticket.ref != ref:
            call.garbled(answer, why="it has another reference than what was read")
        return ticket.ticket(self._states)

    def update(self, ref: str, update: Update) -> None:
        """Add to it, and end it. The receiver promises that the same key for one ticket adds nothing."""
        call = self._web.call(f"add to ticket {_checked_ref(ref)}")
        body = NewUpdate(key=checked(update.key), text=clean(update.text), close=update.close).model_dump(mode="json")
        call.send("POST", f"/tickets/{ref}/updates", body, headers={"Idempotency-Key": f"{ref}/{update.key}"})

    def _attach(self, call: Call, ref: str, attachments: Sequence[Attachment]) -> str:
        """Hand them in; what went wrong, for the ticket's note."""
        for attachment in attachments:
            name = file_name(attachment.name)
            digest = hashlib.sha256(attachment.content).hexdigest()
            body = NewAttachment(
                name=name,
                media_type=one_line(attachment.media_type),
                sha256=digest,
                content=base64.b64encode(attachment.content).decode("ascii"),
            )
            key = {"Idempotency-Key": f"{ref}/{digest}"}
            path, sent = f"/tickets/{ref}/attachments", body.model_dump(mode="json")
            try:
                if call.send("POST", path, sent, headers=key, known=_TAKES_NONE).status in _TAKES_NONE:
                    return f"{name} is not attached: the receiver takes no such files"
            except (TicketsUnavailable, TicketsRefused) as error:
                return f"{name} is not attached: {error}"
        return ""


def _checked_ref(ref: str) -> str:
    if not _REF.fullmatch(ref):
        raise TicketsRefused(f"{shorten(one_line(ref), 80)!r} is no ticket of a webhook: it must match {REF}")
    return ref


def _parsed(call: Call, answer: Answer, model: type[_Model], *, wrote: bool = False) -> _Model:
    try:
        return model.model_validate(answer.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        call.garbled(answer, wrote=wrote, why=f"{place}: {first['msg']}")
