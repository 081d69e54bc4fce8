"""A stand-in for the parts of Jira Cloud's REST API, and of Jira Service Management's, that tickets need.

Strict about what Atlassian documents: documents (ADF) without empty or broken text, labels without spaces, the old
search gone, forms that need X-Atlassian-Token. Its search is as late as `lag` says, by a clock that a test moves. An
account it does not know is served as nobody: it sees nothing, and is told so in a header only.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from quarantine.sandbox.desks.served import Asked, Desk, Said

_SUMMARY, _TEXT, _LABEL, _PAGE, _RECONCILED = 255, 32_767, 255, 100, 50
_JQL = re.compile(r'project = "([A-Z][A-Z0-9_]+)" AND labels = "([^"\\]+)" ORDER BY created ASC')
_CATEGORY = {"To Do": "new", "Waiting for support": "new", "In Progress": "indeterminate", "Done": "done"}
_FIELDS = {"project", "issuetype", "summary", "description", "labels", "priority"}


@dataclass
class Issue:
    """An issue, and what it was at earlier times, which the search may still give."""

    number: str
    ref: str
    fields: dict[str, Any]
    comments: list[dict[str, Any]] = field(default_factory=list)
    attachments: list[tuple[str, bytes, bool]] = field(default_factory=list)  # name, content, whether customers see it
    past: list[tuple[datetime, dict[str, Any]]] = field(default_factory=list)


class JiraDesk(Desk):
    """One project with one issue type and, with `request_type`, a service desk of id 3."""

    def __init__(self, project: str, user: str, token: str, now: Callable[[], datetime], lag: timedelta) -> None:
        super().__init__()
        self.project = project
        self.expected = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()
        self.now = now
        self.lag = lag
        self.issues: list[Issue] = []
        self.screen = set(_FIELDS)  # the fields that can be set, on the create screen and in the request type
        self.transitions = [("11", "Start", "In Progress"), ("31", "Close", "Done")]
        self.closing_fields: dict[str, Any] = {}  # of the screens of transitions to Done
        self.may_browse = True
        self._temporary: dict[str, tuple[str, bytes]] = {}

    def change(self, ref: str, **fields: Any) -> None:
        """As somebody in Jira would: a status by its name, a resolution, labels."""
        issue = self._issue(ref)
        if "status" in fields:
            fields["status"] = _status(fields["status"])
        issue.fields.update(fields)
        issue.past.append((self.now(), deepcopy(issue.fields)))

    def answer(self, asked: Asked) -> Said:  # noqa: PLR0911  (a table of routes)
        """Perform one request."""
        if not asked.headers.get("accept", "").startswith("application/json"):
            return _no(406, "Not Acceptable")
        if asked.headers.get("authorization") != self.expected:
            return self._nobody(asked)
        match asked.method, asked.words:
            case _, ["rest", "api", "3", "search"]:
                return _no(410, "The requested API has been removed. Please migrate to /rest/api/3/search/jql")
            case "POST", ["rest", "api", "3", "search", "jql"]:
                return self._search(json.loads(asked.content))
            case "GET", ["rest", "api", "3", "mypermissions"]:
                return self._permissions(asked.query)
            case "POST", ["rest", "api", "3", "issue"]:
                return self._create(json.loads(asked.content)["fields"])
            case method, ["rest", "api", "3", "issue", ref, *rest]:
                return self._single(asked, method, ref, rest)
            case "POST", ["rest", "servicedeskapi", *rest]:
                return self._desk(asked, rest)
        return _no(404, "null for uri")

    def _nobody(self, asked: Asked) -> Said:
        told = {"X-Seraph-LoginReason": "AUTHENTICATED_FAILED"}
        if asked.words[-2:] == ["search", "jql"]:
            return Said(200, {"issues": [], "isLast": True}, told)
        if asked.method == "GET":
            return Said(404, {"errorMessages": ["Issue does not exist or you do not have permission to see it."]}, told)
        return Said(401, {"errorMessages": ["You do not have the permission to see the specified issue."]}, told)

    def _permissions(self, query: Mapping[str, str]) -> Said:
        if query.get("projectKey") != self.project:
            return _no(404, f"No project could be found with key '{query.get('projectKey')}'.")
        if query.get("permissions") != "BROWSE_PROJECTS":
            return _no(400, "The 'permissions' query parameter is required.")
        return Said(200, {"permissions": {"BROWSE_PROJECTS": {"havePermission": self.may_browse}}})

    def _search(self, query: Mapping[str, Any]) -> Said:
        clause = _JQL.fullmatch(query.get("jql", ""))
        if clause is None or clause[1] != self.project:
            return _no(400, "The value does not exist for the field 'project'.")
        exact = query.get("reconcileIssues", [])
        if len(exact) > _RECONCILED or not all(isinstance(number, int) for number in exact):
            return _no(400, "reconcileIssues: at most 50 ids of issues")
        found = []
        for issue in self.issues if self.may_browse else []:
            before = [fields for at, fields in issue.past if at + self.lag <= self.now()]
            fields = issue.fields if int(issue.number) in exact else before[-1] if before else None
            # Jira does not say whether case counts.
            if fields is not None and clause[2].lower() in [label.lower() for label in fields["labels"]]:
                found.append(_shown(issue, fields, ",".join(query.get("fields", []))))
        start, size = int(query.get("nextPageToken", "0")), min(query.get("maxResults", 50), _PAGE)
        page: dict[str, Any] = {"issues": found[start : start + size], "isLast": start + size >= len(found)}
        return Said(200, page if page["isLast"] else page | {"nextPageToken": str(start + size)})

    def _create(self, fields: dict[str, Any]) -> Said:
        wrong = self._wrong(fields)
        if fields.get("project") != {"key": self.project}:
            wrong["project"] = "valid project is required"
        if fields.get("issuetype") != {"name": "Task"}:
            wrong["issuetype"] = "Specify a valid issue type"
        if wrong:
            return Said(400, {"errorMessages": [], "errors": wrong})
        issue = self.add(fields, "To Do")
        return Said(201, {"id": issue.number, "key": issue.ref, "self": f"{self.url}/rest/api/3/issue/{issue.number}"})

    def _wrong(self, fields: Mapping[str, Any]) -> dict[str, str]:
        wrong = {
            name: f"Field '{name}' cannot be set. It is not on the appropriate screen, or unknown."
            for name in fields.keys() - self.screen
        }
        summary = str(fields.get("summary", ""))
        if not summary or len(summary) > _SUMMARY or "\n" in summary:
            wrong["summary"] = "The summary is empty, too long, or invalid because it contains newline characters."
        for label in fields.get("labels", []):
            if not label or len(label) > _LABEL or " " in label:
                wrong["labels"] = f"The label '{label}' contains spaces which is invalid."
        if why := problem(fields.get("description")):
            wrong["description"] = why
        return wrong

    def add(self, fields: Mapping[str, Any], status: str = "To Do") -> Issue:
        """An issue, from wherever."""
        number = len(self.issues) + 1
        kept = {**fields, "status": _status(status), "resolution": None}
        kept.setdefault("labels", [])
        issue = Issue(str(10_000 + number), f"{self.project}-{number}", kept)
        self.issues.append(issue)
        issue.past.append((self.now(), deepcopy(kept)))
        return issue

    def _issue(self, ref: str) -> Issue:
        return next(issue for issue in self.issues if ref in (issue.ref, issue.number))

    def _single(self, asked: Asked, method: str, ref: str, rest: list[str]) -> Said:  # noqa: PLR0911  (a table of routes)
        issue = next((issue for issue in self.issues if ref in (issue.ref, issue.number)), None)
        if issue is None or not self.may_browse:
            return _no(404, "Issue does not exist or you do not have permission to see it.")
        match method, rest:
            case "GET", []:
                return Said(200, _shown(issue, issue.fields, asked.query.get("fields", "")))
            case "GET", ["comment"]:
                start, size = int(asked.query.get("startAt", "0")), min(int(asked.query["maxResults"]), _PAGE)
                newest = issue.comments[::-1] if asked.query.get("orderBy") == "-created" else issue.comments
                page = newest[start : start + size]
                return Said(200, {"startAt": start, "total": len(issue.comments), "comments": page})
            case "POST", ["comment"]:
                body = json.loads(asked.content).get("body")
                if why := problem(body):
                    return Said(400, {"errorMessages": [], "errors": {"comment": why}})
                issue.comments.append({"id": str(len(issue.comments) + 1), "body": body, "jsdPublic": True})
                return Said(201, issue.comments[-1])
            case "POST", ["attachments"]:
                issue.attachments += [(*one, False) for one in _form(asked)]
                return Said(200, []) if asked.headers.get("x-atlassian-token") == "no-check" else _forged()
            case "GET", ["transitions"]:
                return Said(200, {"transitions": [self._transition(*one) for one in self.transitions]})
            case "POST", ["transitions"]:
                return self._move(issue, json.loads(asked.content))
        return _no(405, "Method Not Allowed")

    def _transition(self, number: str, name: str, to: str) -> dict[str, Any]:
        fields = self.closing_fields if to == "Done" else {}
        return {"id": number, "name": name, "to": _status(to), "fields": fields, "isAvailable": True}

    def _move(self, issue: Issue, body: Mapping[str, Any]) -> Said:
        wanted = body["transition"]["id"]
        to = next((to for number, _, to in self.transitions if number == wanted), None)
        if to is None or to == issue.fields["status"]["name"]:
            return _no(400, "It is not possible to transition the issue: the transition id is not valid.")
        given = body.get("fields", {})
        screen = self._transition("", "", to)["fields"]
        if given.keys() - screen.keys() or {name for name, one in screen.items() if one["required"]} - given.keys():
            return Said(400, {"errorMessages": [], "errors": {"resolution": "It is required, or not on the screen."}})
        self.change(issue.ref, status=to, **given)
        return Said(204)

    def _desk(self, asked: Asked, rest: list[str]) -> Said:
        match rest:
            case ["request"]:
                return self._request(json.loads(asked.content))
            case ["servicedesk", "3", "attachTemporaryFile"]:
                if asked.headers.get("x-atlassian-token") != "no-check":
                    return _forged()
                number = f"temp{len(self._temporary)}"
                ((name, content),) = _form(asked)
                self._temporary[number] = (name, content)
                kept = [{"temporaryAttachmentId": number, "fileName": name}]
                return Said(201, {"temporaryAttachments": kept})
            case ["request", ref, "attachment"]:
                body = json.loads(asked.content)
                for number in body["temporaryAttachmentIds"]:
                    self._issue(ref).attachments.append((*self._temporary.pop(number), body["public"]))
                return Said(201, {"attachments": {}})
        return _no(404, "null for uri")

    def _request(self, body: Mapping[str, Any]) -> Said:
        values = body["requestFieldValues"]
        if (body["serviceDeskId"], body["requestTypeId"]) != ("3", "25"):
            return Said(404, {"errorMessage": "The service desk or the request type does not exist."})
        if isinstance(values.get("description"), dict) and body.get("isAdfRequest") is not True:
            return Said(400, {"errorMessage": "description: Operation value must be a string"})
        if wrong := self._wrong(values):
            return Said(400, {"errorMessage": "; ".join(f"{name}: {why}" for name, why in wrong.items())})
        issue = self.add(values, "Waiting for support")
        shown = {"issueId": issue.number, "issueKey": issue.ref, "requestTypeId": "25", "serviceDeskId": "3"}
        return Said(201, shown)


def _status(name: str) -> dict[str, Any]:
    return {"name": name, "statusCategory": {"key": _CATEGORY.get(name, "indeterminate")}}


def _shown(issue: Issue, fields: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """Without `fields` the search gives ids only."""
    shown = {name: fields.get(name) for name in wanted.split(",") if name}
    return {"id": issue.number, "key": issue.ref, "fields": shown}


def problem(document: Any) -> str:
    """What Jira would find wrong with a document; empty where nothing is."""
    if not isinstance(document, dict) or (document.get("type"), document.get("version")) != ("doc", 1):
        return "Operation value must be an Atlassian Document (see the Atlassian Document Format)"
    if len(json.dumps(document)) > _TEXT:
        return "CONTENT_LIMIT_EXCEEDED"
    return "INVALID_INPUT" if not document["content"] or any(_bad(node) for node in document["content"]) else ""


def _bad(node: Mapping[str, Any]) -> bool:
    if node["type"] != "paragraph":
        return True
    for child in node["content"]:
        if child["type"] not in ("text", "hardBreak") or child.keys() - {"type", "text"}:
            return True
        if child["type"] == "text" and (not child["text"] or "\n" in child["text"]):
            return True
    return False


def _form(asked: Asked) -> Iterator[tuple[str, bytes]]:
    """The files of a form: those of the field `file`, and no others are taken."""
    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    for part in asked.content.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        named = re.search(rb'name="file"; filename="([^"/\\]+)"', head)
        if named:
            yield named[1].decode(), content.removesuffix(b"\r\n")


def _forged() -> Said:
    return Said(403, "XSRF check failed")


def _no(status: int, message: str) -> Said:
    return Said(status, {"errorMessages": [message], "errors": {}})
