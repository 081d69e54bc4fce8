"""Tickets in Zendesk Support, found by their external id.

They are listed by `external_id`, never searched for: the search's index is late. An `Idempotency-Key` lives for two
hours and binds to the whole request, so it guards one attempt against its repetition, and no more. Facts:
developer.zendesk.com, "Introduction" (idempotency), "Tickets", "Ticket Comments", "Creating and updating tickets".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import NoReturn

from quarantine.adapters.tickets.keys import checked, file_name
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.web import Answer, Call, Web
from quarantine.adapters.tickets.zendesk.markup import html, plain
from quarantine.adapters.tickets.zendesk.options import ZendeskOptions
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.core.tickets import Answerable, Attachment, Ticket, TicketState, Update

_API = "/api/v2"
_ENDED = ("solved", "closed")
_STATUS = {
    "new": TicketState.FILED,
    "open": TicketState.ACKNOWLEDGED,  # assigned to somebody
    "pending": TicketState.IN_PROGRESS,
    "hold": TicketState.IN_PROGRESS,
    "solved": TicketState.CLOSED,
    "closed": TicketState.CLOSED,
}
_TAGS = {f"provider/{state}": state for state in TicketState}
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_SUBJECT = 150  # characters; no limit is documented


class ZendeskTickets:
    """Implements `ports.Tickets`. A reference is the ticket's number."""

    answerable = Answerable.SEARCHABLE
    settles = timedelta(minutes=1)  # the documentation does not say that a list is up to date

    def __init__(self, web: Web, options: ZendeskOptions, letter: Callable[[CaseReport], Letter]) -> None:
        self._web = web
        self._options = options
        self._letter = letter
        self._states = {**_STATUS, **_TAGS, **{word.strip().lower(): s for word, s in options.states.items()}}

    def find(self, key: str) -> tuple[Ticket, ...]:
        """All tickets with this external id, oldest first; without those that Zendesk has archived."""
        call = self._web.call(f"look for the ticket of case {checked(key)}")
        query = {"external_id": key, "page[size]": "100"}
        found = []
        for item in _pages(call, f"{_API}/tickets", "tickets", query):
            said = str(item.get("external_id"))
            if said.lower() != key:
                call.garbled(why="a ticket with another external_id is among those of this one")
            if said == key:
                found.append(self._ticket(call, item))
        return tuple(sorted(found, key=lambda ticket: int(ticket.ref)))

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it, then attach: a file that Zendesk does not take costs the chart, not the ticket."""
        call = self._web.call(f"file a ticket for case {checked(report.key)}")
        letter = self._letter(report)
        body = {
            "subject": shorten(one_line(plain(letter.title)), _SUBJECT),
            "external_id": report.key,
            "comment": self._comment(letter.text),
            "tags": list(self._options.tags),
            **self._options.model_dump(include={"group_id", "requester_id", "brand_id", "priority"}, exclude_none=True),
        }
        repeated = (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
        headers = {"Idempotency-Key": report.key}
        answer = call.send("POST", f"{_API}/tickets", {"ticket": body}, headers=headers, known=repeated)
        if answer.status in repeated:
            self._not_filed(report.key, answer)
        ticket = self._ticket(call, _inner(call, answer, "ticket", wrote=True), wrote=True)
        if ticket.key != report.key:
            call.garbled(answer, wrote=True, why="the ticket has another external_id than what was filed")
        return replace(ticket, note=self._attach(call, ticket.ref, attachments))

    def read(self, ref: str) -> Ticket | None:
        """Its present state, archived or not; None only where Zendesk says that it has no such ticket."""
        call = self._web.call(f"read ticket {_checked_ref(ref)}")
        item = self._show(call, ref)
        return None if item is None else self._ticket(call, item)

    def update(self, ref: str, update: Update) -> None:
        """Comment and solve in one request, unless a comment carries this update's key already.

        Raises TicketsRefused for a comment on a ticket that is closed: Zendesk never changes one again.
        """
        call = self._web.call(f"add to ticket {_checked_ref(ref)}")
        self._add(call, ref, checked(update.key), update.text, close=update.close)

    def _add(
        self, call: Call, ref: str, key: str, text: str, *, close: bool = False, uploads: Sequence[str] = ()
    ) -> None:
        item = self._show(call, ref)
        if item is None:
            raise TicketsRefused(f"there is no ticket {ref} with Zendesk at {self._web.base}: it was deleted")
        ended = not self._ticket(call, item).open
        marker = f"[quarantine update {key}]"
        said = any(marker in comment for comment in self._comments(call, ref))
        if said and (ended or not close):
            return
        if item["status"] == "closed":
            if close:
                return
            raise TicketsRefused(
                f"ticket {ref} is closed, and Zendesk lets nobody add to it: open a follow-up of it by hand"
            )
        change: dict[str, object] = {}
        if not uploads:  # triggers change a new ticket at once, and the chart twice is better than not at all
            change |= {"safe_update": True, "updated_stamp": item.get("updated_at")}
        if not said:
            change["comment"] = self._comment(f"{text}\n\n{marker}", uploads)
        if close and not ended:
            change["status"] = "solved"
        known = (HTTPStatus.CONFLICT,)
        answer = call.send("PUT", f"{_API}/tickets/{ref}", {"ticket": change}, known=known)
        if answer.status == HTTPStatus.CONFLICT:
            raise TicketsUnavailable(f"ticket {ref} was changed at the same time: nothing was added, it is tried again")

    def _attach(self, call: Call, ref: str, attachments: Sequence[Attachment]) -> str:
        """Attach all with one comment; what went wrong, for the ticket's note."""
        if not attachments:
            return ""
        names = ", ".join(file_name(attachment.name) for attachment in attachments)
        try:
            tokens = [self._upload(call, attachment) for attachment in attachments]
            self._add(call, ref, "attachments", f"Attached: {names}", uploads=tokens)
        except (TicketsUnavailable, TicketsRefused) as error:
            return f"{names} is not attached: {error}"
        return ""

    def _upload(self, call: Call, attachment: Attachment) -> str:
        kind = attachment.media_type if re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", attachment.media_type) else ""
        headers = {"Content-Type": kind or "application/binary"}
        query = {"filename": file_name(attachment.name)}
        answer = call.send("POST", f"{_API}/uploads", query=query, headers=headers, content=attachment.content)
        token = _inner(call, answer, "upload", wrote=True).get("token")
        if not isinstance(token, str):
            call.garbled(answer, wrote=True)
        return token

    def _comment(self, text: str, uploads: Sequence[str] = ()) -> dict[str, object]:
        comment: dict[str, object] = {"html_body": html(text), "public": self._options.public}
        return comment | ({"uploads": list(uploads)} if uploads else {})

    def _comments(self, call: Call, ref: str) -> Iterator[str]:
        for item in _pages(call, f"{_API}/tickets/{ref}/comments", "comments", {"page[size]": "100"}):
            yield " ".join(str(item.get(name)) for name in ("html_body", "plain_body", "body"))

    def _show(self, call: Call, ref: str) -> Mapping[str, object] | None:
        """The ticket; None where Zendesk knows none. A 404 without its error is that of a wrong URL."""
        answer = call.get(f"{_API}/tickets/{ref}", known=(HTTPStatus.NOT_FOUND,))
        if answer.status == HTTPStatus.NOT_FOUND:
            if isinstance(answer.body, dict) and answer.body.get("error") == "RecordNotFound":
                return None
            raise TicketsRefused(f"there is no Zendesk at {self._web.base} (404): look at the target's url")
        item = _inner(call, answer, "ticket")
        if str(item.get("id")) != ref:
            call.garbled(answer, why="it has another id than what was read")
        return item

    def _ticket(self, call: Call, item: Mapping[str, object], *, wrote: bool = False) -> Ticket:
        number, status, key = item.get("id"), item.get("status"), item.get("external_id")
        if not isinstance(number, int) or isinstance(number, bool) or not isinstance(status, str):
            call.garbled(wrote=wrote, why="a ticket has no id or no status")
        word, state = self._meaning(item, status)
        is_open = status not in _ENDED
        if not is_open and not state.is_verdict:
            state = TicketState.CLOSED
        url = f"{self._web.base}/agent/tickets/{number}"
        return Ticket(str(number), key if isinstance(key, str) else "", one_line(word), url, state, is_open)

    def _meaning(self, item: Mapping[str, object], status: str) -> tuple[str, TicketState]:
        """What says it, and the state: a tag before a custom status, and that before the status."""
        tags = item.get("tags")
        known = [tag for tag in (tags if isinstance(tags, list) else []) if isinstance(tag, str)]
        known = [tag for tag in known if tag.lower() in self._states and tag not in _STATUS]
        if known:  # the furthest, where an earlier tag was left
            order = list(TicketState)
            tag = max(known, key=lambda tag: order.index(self._states[tag.lower()]))
            return tag, self._states[tag.lower()]
        custom = str(item.get("custom_status_id"))
        if custom in self._states:
            return f"{status} ({custom})", self._states[custom]
        return status, self._states.get(status, TicketState.IN_PROGRESS)

    def _not_filed(self, key: str, answer: Answer) -> NoReturn:
        """400 and 409: the key was used within two hours, with other words or by a request that is still under way.

        A 400 may also be a plain no; one that gives no reason is taken for the former.
        """
        fields = answer.body if isinstance(answer.body, dict) else {}
        said = shorten(one_line(f"{fields.get('error', '')}: {fields.get('description', '')}"), 200)
        reason = str(fields.get("error", ""))
        if answer.status == HTTPStatus.CONFLICT or not reason or "Idempotent" in reason:
            raise TicketsUncertain(
                f"a ticket for case {key} was perhaps asked for before, with Zendesk at {self._web.base}: it answered "
                f"{answer.status} ({said}), and it is to be looked up"
            )
        raise TicketsRefused(
            f"could not file a ticket for case {key} with Zendesk at {self._web.base}: it answered 400 ({said})"
        )


def _checked_ref(ref: str) -> str:
    if not _NUMBER.fullmatch(ref):
        raise TicketsRefused(f"{shorten(one_line(ref), 80)!r} is no ticket of Zendesk: it must be a number")
    return ref


def _inner(call: Call, answer: Answer, name: str, *, wrote: bool = False) -> Mapping[str, object]:
    inner = answer.body.get(name) if isinstance(answer.body, dict) else None
    if not isinstance(inner, dict):
        call.garbled(answer, wrote=wrote, why=f"it has no {name}")
    return inner


def _pages(call: Call, path: str, name: str, query: Mapping[str, str]) -> Iterator[Mapping[str, object]]:
    """All items, by cursor. An answer that does not say whether it is the last page is none."""
    answer = call.get(path, query)
    while True:
        body = answer.body if isinstance(answer.body, dict) else {}
        items = body.get(name)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            call.garbled(answer, why=f"it has no {name}")
        yield from items
        match body:
            case {"meta": {"has_more": False}}:
                return
            case {"meta": {"has_more": True}, "links": {"next": str(following)}}:
                answer = call.get(following)
            case _:
                call.garbled(answer, why="it does not say whether there is more")
