"""How a ticket is filed, and files added to it: as an issue, or as a request of Jira Service Management (JSM)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import quote

from quarantine.adapters.tickets.jira.document import document
from quarantine.adapters.tickets.jira.options import JiraOptions
from quarantine.adapters.tickets.letter import Letter
from quarantine.adapters.tickets.markdown import one_line
from quarantine.adapters.tickets.web import Call
from quarantine.core.errors import TicketsRefused
from quarantine.core.marks import shorten
from quarantine.core.tickets import Attachment

_SUMMARY = 250  # characters; Jira takes 255, and no line break
_LABELS = "add the field Labels to the {} of project {}: a ticket without its label cannot be found again"
# Forms are refused as forged without it ("XSRF check failed").
_FORM = {"X-Atlassian-Token": "no-check"}
# Some of this API is marked experimental, and wants this for as long as it is.
_EXPERIMENTAL = {"X-ExperimentalApi": "opt-in"}


class Filed(NamedTuple):
    """What Jira answers: the rest is to be read."""

    number: str  # its id
    ref: str


class Filing(Protocol):
    """One way to file."""

    def file(self, call: Call, letter: Letter, label: str) -> Filed:
        """Make the ticket. The label is there from its first moment, or it is not made."""
        ...

    def attach(self, call: Call, filed: Filed, attachment: Attachment) -> None:
        """Add a file, for everybody who sees the ticket."""
        ...


class Issues:
    """POST /rest/api/3/issue."""

    def __init__(self, options: JiraOptions) -> None:
        self._options = options

    def file(self, call: Call, letter: Letter, label: str) -> Filed:
        """Needs the permission to create issues."""
        fields = {
            **self._options.fields,
            "project": {"key": self._options.project},
            "issuetype": {"name": self._options.issue_type},
            "summary": _summary(letter),
            "description": document(letter.text),
            "labels": ["quarantine", label],
        }
        hint = _LABELS.format("create screen", self._options.project)
        match _made(call, "/rest/api/3/issue", {"fields": fields}, hint, {}):
            case {"id": str(number), "key": str(ref)}:
                filed = Filed(number, ref)
            case _:
                call.garbled(wrote=True)
        return filed

    def attach(self, call: Call, filed: Filed, attachment: Attachment) -> None:
        """Needs the permission to create attachments."""
        path = f"/rest/api/3/issue/{quote(filed.number, safe='')}/attachments"
        call.send("POST", path, headers=_FORM, files=_form(attachment))


class Requests:
    """POST /rest/servicedeskapi/request. Customers see it on the portal; the account must be an agent."""

    def __init__(self, options: JiraOptions) -> None:
        self._options = options

    def file(self, call: Call, letter: Letter, label: str) -> Filed:
        """The description is a document (`isAdfRequest`): in plain text, wiki markup would count."""
        values = {
            **self._options.fields,
            "summary": _summary(letter),
            "description": document(letter.text),
            "labels": ["quarantine", label],
        }
        body = {
            "serviceDeskId": self._options.service_desk,
            "requestTypeId": self._options.request_type,
            "isAdfRequest": True,
            "requestFieldValues": values,
        }
        hint = _LABELS.format(f"request type {self._options.request_type}", self._options.project)
        match _made(call, "/rest/servicedeskapi/request", body, hint, _EXPERIMENTAL):
            case {"issueId": str(number), "issueKey": str(ref)}:
                filed = Filed(number, ref)
            case _:
                call.garbled(wrote=True)
        return filed

    def attach(self, call: Call, filed: Filed, attachment: Attachment) -> None:
        """In two steps, so that customers see it: what is attached to the issue alone is internal."""
        path = f"/rest/servicedeskapi/servicedesk/{self._options.service_desk}/attachTemporaryFile"
        kept = call.send("POST", path, headers=_FORM | _EXPERIMENTAL, files=_form(attachment))
        match kept.body:
            case {"temporaryAttachments": [{"temporaryAttachmentId": str(temporary)}]}:
                body = {"temporaryAttachmentIds": [temporary], "public": True}
                path = f"/rest/servicedeskapi/request/{quote(filed.number, safe='')}/attachment"
                call.send("POST", path, body, headers=_EXPERIMENTAL)
            case _:
                call.garbled(kept, wrote=True)


def _made(call: Call, path: str, body: object, hint: str, headers: Mapping[str, str]) -> object:
    try:
        return call.send("POST", path, body, headers=headers).body
    except TicketsRefused as error:
        # "Field 'labels' cannot be set. It is not on the appropriate screen, or unknown."
        raise (TicketsRefused(f"{error}; {hint}") if "labels" in str(error) else error) from None


def _summary(letter: Letter) -> str:
    return shorten(one_line(letter.title), _SUMMARY)


def _form(attachment: Attachment) -> dict[str, tuple[str, bytes, str]]:
    name = one_line(attachment.name).replace("/", "-").replace("\\", "-").lstrip(".-") or "attachment"
    return {"file": (name, attachment.content, attachment.media_type)}
