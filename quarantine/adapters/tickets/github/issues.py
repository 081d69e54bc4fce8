"""Tickets as issues of one GitHub repository, found by a label that is the case's own.

The list of issues is read, never the search, whose index is late. What the provider says is a label,
`provider/acknowledged` and so on for each `TicketState`.

GitHub says 404 to whoever may not look, 410 of an issue that was deleted, 301 of one that was moved to another
repository ("Get an issue"), and drops the labels of whoever may not set them ("Create an issue": only users with push
access). So a label is made first, by a call that says no where that is so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus

from quarantine.adapters.tickets.github.charts import Charts
from quarantine.adapters.tickets.keys import checked
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import escape
from quarantine.adapters.tickets.web import Call, Web, settling
from quarantine.core.errors import TicketsRefused
from quarantine.core.letters import CaseReport
from quarantine.core.marks import shorten
from quarantine.core.tickets import Answerable, Attachment, Ticket, TicketState, Update

HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
_LABEL = 50  # characters that GitHub allows for a label
_TITLE = 250
_BODY = 60_000  # characters; GitHub allows 65,536
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_KEY = re.compile(r"<!-- quarantine:case:([a-z0-9-]+) -->")
_STATES = {f"provider/{state}": state for state in TicketState}


class GitHubIssues:
    """Implements `ports.Tickets`. A reference is `owner/name#number`."""

    answerable = Answerable.SEARCHABLE
    settles = timedelta(minutes=1)  # the list may come from a replica

    def __init__(
        self,
        web: Web,
        repository: str,
        letter: Callable[[CaseReport], Letter],
        states: Mapping[str, TicketState] | None = None,
        charts: str = "",
    ) -> None:
        """`web` must send HEADERS. `states`: labels that mean a state, beside the `provider/…` ones.

        `charts`: the branch that charts are committed to; empty: none are.
        """
        if not _REPOSITORY.fullmatch(repository):
            raise ValueError("the repository must be written owner/name")
        self._web = web
        self._repository = repository
        self._letter = letter
        self._charts = Charts(repository, charts)
        self._states = {word.lower(): state for word, state in {**_STATES, **(states or {})}.items()}

    def find(self, key: str) -> tuple[Ticket, ...]:
        """All issues with the case's label, open and closed, oldest first."""
        call = self._web.call(f"look for the issue of case {checked(key)}")
        query = {
            "labels": label_of(key),
            "state": "all",
            "sort": "created",
            "direction": "asc",
            "per_page": "100",
        }
        found = [self._ticket(call, item, key) for item in _pages(call, self._path("issues"), query)]
        return tuple(ticket for ticket in found if ticket is not None)

    def open(self, report: CaseReport, attachments: Sequence[Attachment] = ()) -> Ticket:
        """File it. An issue without its label could not be found again, so the label is made first."""
        call = self._web.call(f"file an issue for case {checked(report.key)}")
        label, letter = label_of(report.key), self._letter(report)
        self._make(call, label)
        shown = [self._charts.put(call, report.key, attachment) for attachment in attachments]
        parts = [f"<!-- quarantine:case:{report.key} -->", *(picture for picture, _ in shown if picture)]
        body = "\n\n".join([*parts, shorten(letter.markdown, _BODY)])
        title = shorten(letter.title, _TITLE)
        with settling(self.settles):
            answer = call.send("POST", self._path("issues"), {"title": title, "body": body, "labels": [label]})
            ticket = self._ticket(call, answer.body, report.key, wrote=True)
            if ticket is None:
                call.garbled(answer, wrote=True)
        notes = [note for _, note in shown if note]
        if label not in _labels(answer.body):
            notes.append(f"GitHub did not set the label {label}: set it by hand, and let the token write issues")
        return replace(ticket, note="; ".join(dict.fromkeys(notes)))

    def read(self, ref: str) -> Ticket | None:
        """Its present state; None where it was deleted. Raises TicketsRefused where the token sees no repository."""
        number = self._number(ref)
        call = self._web.call(f"read issue {ref}")
        return self._read(call, ref, number)

    def update(self, ref: str, update: Update) -> None:
        """Comment, unless a comment carries this update's key already; then close."""
        number = self._number(ref)
        call = self._web.call(f"add to issue {ref}")
        marker = f"<!-- quarantine:update:{checked(update.key)} -->"
        path = self._path(f"issues/{number}/comments")
        # At its beginning: an answer that quotes the comment may have the mark in it as well.
        if not any(str(item.get("body")).startswith(marker) for item in _pages(call, path, {"per_page": "100"})):
            text = "  \n".join(escape(line) for line in update.text.splitlines())
            call.send("POST", path, {"body": f"{marker}\n\n{shorten(text, _BODY)}"})
        if update.close:
            # Again where it is closed: that changes nothing but the reason, which a provider may have given.
            issue = self._read(call, ref, number)
            if issue is not None and issue.open:
                body = {"state": "closed", "state_reason": "completed"}
                call.send("PATCH", self._path(f"issues/{number}"), body)

    def _make(self, call: Call, label: str) -> None:
        """The label, unless it is there already, from an attempt whose answer was lost."""
        known = (HTTPStatus.UNPROCESSABLE_ENTITY,)
        answer = call.send("POST", self._path("labels"), {"name": label, "color": "b60205"}, known=known)
        match answer.body:
            case {"errors": [{"code": "already_exists"}, *_]}:
                return
        if answer.status in known:
            raise TicketsRefused(f"GitHub does not make the label {label} in {self._repository}: make it by hand")

    def _read(self, call: Call, ref: str, number: int) -> Ticket | None:
        known = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.MOVED_PERMANENTLY)
        answer = call.get(self._path(f"issues/{number}"), known=known)
        if answer.status == HTTPStatus.MOVED_PERMANENTLY:
            raise TicketsRefused(f"issue {ref} was moved to another repository: follow it there by hand")
        if answer.status == HTTPStatus.NOT_FOUND:
            call.get(f"/repos/{self._repository}")  # refused to whoever may not look
        if answer.status in known:
            return None
        return self._ticket(call, answer.body, None)

    def _path(self, rest: str) -> str:
        return f"/repos/{self._repository}/{rest}"

    def _number(self, ref: str) -> int:
        repository, _, number = ref.rpartition("#")
        if repository != self._repository or not re.fullmatch(r"[1-9][0-9]{0,11}", number):
            raise TicketsRefused(f"{shorten(ref, 80)!r} is no issue of {self._repository}: follow it by hand")
        return int(number)

    def _ticket(self, call: Call, item: object, key: str | None, *, wrote: bool = False) -> Ticket | None:
        """None: it is a pull request, which the list has as well."""
        fields = item if isinstance(item, dict) else {}
        if "pull_request" in fields:
            return None
        number, state, url = fields.get("number"), fields.get("state"), fields.get("html_url")
        if not isinstance(number, int) or state not in ("open", "closed") or not isinstance(url, str):
            call.garbled(wrote=wrote)
        if key is None:
            marked = _KEY.search(str(fields.get("body")))
            key = marked[1] if marked else ""
        is_open = state == "open"
        said = [label for label in _labels(item) if label.lower() in self._states]
        if said:  # the furthest, where an earlier label was left
            order = list(TicketState)
            word = max(said, key=lambda label: order.index(self._states[label.lower()]))
            meaning = self._states[word.lower()]
        else:
            reason = str(fields.get("state_reason") or "")
            word = state if is_open or not reason else f"closed ({reason})"
            meaning = TicketState.FILED if is_open else TicketState.CLOSED
            if not is_open and reason == "not_planned":
                meaning = TicketState.REFUSED
        if not is_open and not meaning.is_verdict:
            meaning = TicketState.CLOSED
        return Ticket(f"{self._repository}#{number}", key, word, url, meaning, is_open)


def label_of(key: str) -> str:
    """The label of a case: its key, or a digest of it where that is too long for GitHub."""
    label = f"quarantine/{key}"
    return label if len(label) <= _LABEL else f"quarantine/{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _labels(item: object) -> tuple[str, ...]:
    match item:
        case {"labels": list(labels)}:
            return tuple(label["name"] for label in labels if isinstance(label, dict) and "name" in label)
    return ()


def _pages(call: Call, path: str, query: Mapping[str, str]) -> Iterator[dict[str, object]]:
    answer = call.get(path, query)
    while True:
        if not isinstance(answer.body, list) or not all(isinstance(item, dict) for item in answer.body):
            call.garbled(answer)
        yield from answer.body
        if "next" not in answer.links:
            return
        answer = call.get(answer.links["next"])
