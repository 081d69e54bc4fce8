"""Tickets in a project of Jira Cloud, found by a label that is the case's own.

Jira's search is late: "The delay might vary from a few seconds to minutes" (its documentation on search and reconcile).
What it is told to reconcile is exact, but only an issue whose id is known can be. So a new ticket whose answer was lost
may be missing for `settles`; the state of those that are found, and of those this process has filed, is the present
one.

An account that Jira does not know is served as nobody, who sees nothing: with 200, an empty list, and a header that
says so. That is no answer. Nor is an empty list where the account may not see the project.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from typing import NamedTuple

from quarantine.adapters.tickets.jira.document import document, last_line, mark
from quarantine.adapters.tickets.jira.filing import Filed, Issues, Requests
from quarantine.adapters.tickets.jira.options import JiraOptions
from quarantine.adapters.tickets.jira.words import Words
from quarantine.adapters.tickets.keys import checked
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.web import Answer, Call, Web, settling
from quarantine.core.errors import TicketsRefused, TicketsUnavailable
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.core.tickets import Answerable, Attachment, Ticket, Update

_REF = re.compile(r"[A-Z][A-Z0-9_]{1,254}-[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_LABEL = "quarantine-"  # and the key; labels have no spaces, and 255 characters at most
_FIELDS = "status,resolution,labels"
_PAGE = 100  # the most that the search gives with fields, and of comments
_RECONCILED = 50  # ids that the search takes
_NOBODY = ("AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED")


class _Found(NamedTuple):
    number: str  # its id
    keys: tuple[str, ...]  # of its labels; people may have put a second one there
    ticket: Ticket


class JiraIssues:
    """Implements `ports.Tickets`. A reference is an issue's key, `GPU-12`."""

    answerable = Answerable.SEARCHABLE
    settles = timedelta(minutes=5)

    def __init__(self, web: Web, options: JiraOptions, letter: Callable[[CaseReport], Letter]) -> None:
        self._web = web
        self._options = options
        self._letter = letter
        self._filing = Requests(options) if options.service_desk else Issues(options)
        self._words = Words(options.states)
        self._filed: dict[str, str] = {}  # case to id, of what this process filed last

    def find(self, key: str) -> tuple[Ticket, ...]:
        """All issues of the project with the case's label, open and closed, oldest first."""
        call = self._web.call(f"look for the ticket of case {checked(key)}")
        ours = [self._filed[key]] if key in self._filed else []
        found = self._search(call, key, ours)
        if found and [one.number for one in found] != ours:
            found = self._search(call, key, [one.number for one in found][:_RECONCILED])
        if not found:
            self._sees(call)
        return tuple(one.ticket for one in found)

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it, with its label. What follows, the attachments, may fail: the note says so."""
        key = checked(report.key)
        call = self._web.call(f"file a ticket for case {key}")
        with settling(self.settles):
            filed = self._filing.file(call, self._letter(report), _LABEL + key)
            if not _REF.fullmatch(filed.ref) or not _NUMBER.fullmatch(filed.number):
                call.garbled(wrote=True)
        self._filed[key] = filed.number
        while len(self._filed) > _RECONCILED:
            del self._filed[next(iter(self._filed))]
        notes = [note for note in (self._attached(call, filed, one) for one in attachments) if note]
        return Ticket(filed.ref, key, "filed", self._link(filed.ref), note="; ".join(notes))

    def read(self, ref: str) -> Ticket | None:
        """Its present state; None where it was deleted. Raises TicketsRefused where the account sees no project."""
        path = _path(ref)
        call = self._web.call(f"read ticket {ref}")
        answer = self._get(call, path, {"fields": _FIELDS}, known=(HTTPStatus.NOT_FOUND,))
        if answer.status == HTTPStatus.NOT_FOUND:
            self._sees(call)  # Jira says 404 to whoever may not look, too
            return None
        ticket = self._found(call, answer.body).ticket
        # One that was moved to another project is still known by its first reference.
        return replace(ticket, ref=ref)

    def update(self, ref: str, update: Update) -> None:
        """Comment, unless a comment ends with this update's mark already; then close. JSM's customers see it."""
        path = _path(ref)
        call = self._web.call(f"add to ticket {ref}")
        marked = mark(checked(update.key))
        if not any(last_line(comment.get("body")) == marked for comment in self._comments(call, path)):
            call.send("POST", f"{path}/comment", {"body": document(update.text, marked)})
        if update.close and self._is_open(call, path):
            self._close(call, ref, path)

    def _search(self, call: Call, key: str, reconciled: Sequence[str]) -> list[_Found]:
        """By POST /rest/api/3/search/jql; /rest/api/3/search is gone (410)."""
        label = _LABEL + key
        query: dict[str, object] = {
            "jql": f'project = "{self._options.project}" AND labels = "{label}" ORDER BY created ASC',
            "fields": _FIELDS.split(","),
            "maxResults": _PAGE,
            "reconcileIssues": [int(number) for number in reconciled],
        }
        found: list[_Found] = []
        while True:
            answer = self._known(call.ask("/rest/api/3/search/jql", query))
            match answer.body:
                case {"issues": list(issues), **rest}:
                    found += [self._found(call, issue) for issue in issues]
                case _:
                    call.garbled(answer)
            token = rest.get("nextPageToken")
            if token is None and rest.get("isLast") is not False:
                # JQL does not say whether upper and lower case differ in a label.
                ours = [one._replace(ticket=replace(one.ticket, key=key)) for one in found if key in one.keys]
                return sorted(ours, key=lambda one: int(one.number))
            if not isinstance(token, str) or query.get("nextPageToken") == token:
                call.garbled(answer)
            query["nextPageToken"] = token

    def _sees(self, call: Call) -> None:
        """Raises TicketsRefused unless the account may see the project: nothing found is nothing there only then."""
        query = {"projectKey": self._options.project, "permissions": "BROWSE_PROJECTS"}
        answer = self._get(call, "/rest/api/3/mypermissions", query, known=(HTTPStatus.NOT_FOUND,))
        match answer.body:
            case {"permissions": {"BROWSE_PROJECTS": {"havePermission": bool(may)}}}:
                pass
            case _ if answer.status == HTTPStatus.NOT_FOUND:
                may = False
            case _:
                call.garbled(answer)
        if not may:
            raise TicketsRefused(
                f"Jira at {self._web.base} does not let the account see project {self._options.project}: give it the "
                "permission Browse Projects there"
            )

    def _get(self, call: Call, path: str, query: Mapping[str, str], known: tuple[int, ...] = ()) -> Answer:
        return self._known(call.get(path, query, known))

    def _known(self, answer: Answer) -> Answer:
        """The answer, unless it was given to nobody."""
        if answer.headers.get("X-Seraph-LoginReason", "").upper().startswith(_NOBODY):
            raise TicketsRefused(
                f"Jira at {self._web.base} does not know the account's token: it has expired, or user is not the one "
                "it was made for; make another"
            )
        return answer

    def _comments(self, call: Call, path: str) -> Iterator[Mapping[str, object]]:
        """All of them, newest first: what was just added is on the first page."""
        start = 0
        while True:
            query = {"startAt": str(start), "maxResults": str(_PAGE), "orderBy": "-created"}
            answer = self._get(call, f"{path}/comment", query)
            match answer.body:
                case {"comments": list(comments), "total": int(total)} if all(
                    isinstance(one, dict) for one in comments
                ):
                    yield from comments
                case _:
                    call.garbled(answer)
            start += len(comments)
            if not comments or start >= total:  # it may count some that the account does not see
                return

    def _is_open(self, call: Call, path: str) -> bool:
        answer = self._get(call, path, {"fields": _FIELDS})
        return self._found(call, answer.body).ticket.open

    def _close(self, call: Call, ref: str, path: str) -> None:
        """By the transition that the settings name, else the first that leads to a status of the category "done"."""
        answer = self._get(call, f"{path}/transitions", {"expand": "transitions.fields"})
        match answer.body:
            case {"transitions": list(there)}:
                chosen = next((one for one in there if self._closes(one)), None)
            case _:
                call.garbled(answer)
        if chosen is None:
            wanted = self._options.close_transition
            raise TicketsRefused(
                f"{ref} cannot be closed by the account: it has no transition "
                + (f"{wanted!r}" if wanted else "to a status of the category Done")
                + " now; give it the permission Transition Issues, or set close_transition"
            )
        body: dict[str, object] = {"transition": {"id": chosen["id"]}}
        if "resolution" in (chosen.get("fields") or {}):
            body["fields"] = {"resolution": {"name": self._options.resolution}}
        try:
            call.send("POST", f"{path}/transitions", body)
        except TicketsRefused:
            if self._is_open(call, path):  # else somebody was faster
                raise

    def _closes(self, transition: object) -> bool:
        match transition:
            case {"id": str(), "name": str(name)} if self._options.close_transition:
                return name.lower() == self._options.close_transition.lower()
            case {"id": str(), "to": {"statusCategory": {"key": "done"}}}:
                return True
        return False

    def _attached(self, call: Call, filed: Filed, attachment: Attachment) -> str:
        """What went wrong; empty where nothing did."""
        try:
            self._filing.attach(call, filed, attachment)
        except (TicketsUnavailable, TicketsRefused) as error:
            return f"the chart is not attached to {filed.ref} ({error})"
        return ""

    def _found(self, call: Call, item: object) -> _Found:
        match item:
            case {
                "id": str(number),
                "key": str(ref),
                "fields": {
                    "status": {"name": str(status), "statusCategory": {"key": str(category)}},
                    "labels": list(labels),
                    **rest,
                },
            } if _NUMBER.fullmatch(number) and _REF.fullmatch(ref):
                pass
            case _:
                call.garbled()
        resolved = rest.get("resolution")
        resolution = str(resolved.get("name", "")) if isinstance(resolved, dict) else ""
        keys = tuple(str(label).removeprefix(_LABEL) for label in labels if str(label).startswith(_LABEL))
        is_open = category != "done"
        return _Found(
            number,
            keys,
            Ticket(
                ref,
                keys[0] if keys else "",
                status if is_open or not resolution else f"{status} ({resolution})",
                self._link(ref),
                self._words.state(status, category, resolution),
                is_open,
            ),
        )

    def _link(self, ref: str) -> str:
        return f"{self._options.site or self._options.url}/browse/{ref}"


def _path(ref: str) -> str:
    if not _REF.fullmatch(ref):
        raise TicketsRefused(f"{shorten(ref, 80)!r} is no issue of Jira: such a reference is GPU-12")
    return f"/rest/api/3/issue/{ref}"
