"""A stand-in for the part of GitHub's REST API that issues need, strict about what GitHub documents."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from quarantine.sandbox.desks.served import Asked, Desk, Said

_TITLE, _BODY, _LABEL, _PAGE = 256, 65_536, 50, 100
_REASONS = (None, "completed", "not_planned", "reopened", "duplicate")


class GitHubDesk(Desk):
    """One repository. `limited`: how many of the next requests meet the secondary limit; they are not carried out."""

    def __init__(self, repository: str, token: str) -> None:
        super().__init__()
        self.repository = repository
        self.token = token
        self.issues: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.labels: set[str] = set()
        self.deleted: set[int] = set()
        self.moved: set[int] = set()  # to another repository
        self.readable = True
        self.pushable = True  # whether the token may set labels
        self.limited = 0
        self.branches = {"main", "charts"}
        self.files: dict[tuple[str, str], bytes] = {}  # by branch and path

    def answer(self, asked: Asked) -> Said:  # noqa: PLR0911  (a table of routes)
        """Perform one request."""
        path = urlsplit(asked.target).path
        prefix = f"/repos/{self.repository}"
        if refused := self._refused(asked.headers):
            return refused
        if not path.startswith(prefix) or not self.readable:
            return _no(404, "Not Found")  # not 403: who may not look is not told that it is there
        rest = path.removeprefix(prefix)
        body = json.loads(asked.content) if asked.content else {}
        one = re.fullmatch(r"/issues/(\d+)(/comments)?", rest)
        if one:
            return self._single(asked, int(one[1]), bool(one[2]), body)
        if rest.startswith("/contents/"):
            return self._content(asked, rest.removeprefix("/contents/"), body)
        match asked.method, rest:
            case "GET", "":
                return Said(200, {"full_name": self.repository})
            case "GET", "/issues":
                return self._list(asked)
            case "POST", "/labels":
                return self._label(body["name"])
            case "POST", "/issues":
                return self._file(body)
        return _no(404, "Not Found")

    def _refused(self, headers: Mapping[str, str]) -> Said | None:
        if self.limited:
            self.limited -= 1
            return _no(403, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
        if not headers.get("user-agent"):
            return _no(403, "Request forbidden by administrative rules. Please make sure your request has a User-Agent")
        if headers.get("accept") != "application/vnd.github+json" or not headers.get("x-github-api-version"):
            return _no(415, "Unsupported media type or version")
        if headers.get("authorization") is None:
            return _no(404, "Not Found")
        return None if headers["authorization"] == f"Bearer {self.token}" else _no(401, "Bad credentials")

    def _list(self, asked: Asked) -> Said:
        query = asked.query
        wanted = {name.lower() for name in query.get("labels", "").split(",") if name}
        state = query.get("state", "open")
        found = [
            issue
            for issue in self.issues
            if state in ("all", issue["state"])
            and wanted <= {label["name"].lower() for label in issue["labels"]}
            and issue["number"] not in self.deleted | self.moved
        ]
        return self._page(found if query.get("direction", "desc") == "asc" else found[::-1], asked)

    def _label(self, name: str) -> Said:
        if not self.pushable:
            return _no(403, "Resource not accessible by personal access token")
        if len(name) > _LABEL:
            return _invalid("Label", "name", "invalid", "name is too long (maximum is 50 characters)")
        if name.lower() in {label.lower() for label in self.labels}:
            return _invalid("Label", "name", "already_exists", "")
        self.labels.add(name)
        return Said(201, {"name": name})

    def _content(self, asked: Asked, path: str, body: Mapping[str, Any]) -> Said:
        branch = body.get("branch", "main") if asked.method == "PUT" else asked.query.get("ref", "main")
        if branch not in self.branches:
            return _no(404, f"Branch {branch} not found")
        there = {"path": path, "html_url": f"https://github.example/{self.repository}/blob/{branch}/{path}"}
        if asked.method == "GET":
            return Said(200, there) if (branch, path) in self.files else _no(404, "Not Found")
        if not self.pushable:
            return _no(403, "Resource not accessible by personal access token")
        if (branch, path) in self.files:
            return _no(422, 'Invalid request. "sha" wasn\'t supplied.')
        self.files[branch, path] = base64.b64decode(body["content"], validate=True)
        return Said(201, {"content": there, "commit": {"message": body["message"]}})

    def _file(self, body: Mapping[str, Any]) -> Said:
        if not body.get("title") or len(body["title"]) > _TITLE:
            return _invalid("Issue", "title", "custom", "title is too long (maximum is 256 characters)")
        if len(body.get("body", "")) > _BODY:
            return _invalid("Issue", "body", "custom", "body is too long (maximum is 65536 characters)")
        wanted = body.get("labels", []) if self.pushable else []  # dropped silently
        if not set(wanted) <= self.labels:
            return _invalid("Label", "name", "invalid", "")
        number = len(self.issues) + 1
        issue = {
            "number": number,
            "state": "open",
            "state_reason": None,
            "title": body["title"],
            "body": body.get("body", ""),
            "html_url": f"https://github.example/{self.repository}/issues/{number}",
            "labels": [{"name": name} for name in wanted],
        }
        self.issues.append(issue)
        self.comments[number] = []
        return Said(201, issue)

    def _single(self, asked: Asked, number: int, comments: bool, body: dict[str, Any]) -> Said:  # noqa: PLR0911  (routes)
        if number in self.moved:
            return Said(301, {"message": "Moved Permanently"}, {"Location": f"{self.url}/repositories/7/issues/1"})
        if number not in self.comments or number in self.deleted:
            return _no(410, "This issue was deleted") if number in self.deleted else _no(404, "Not Found")
        issue = self.issues[number - 1]
        match asked.method, comments:
            case "GET", False:
                return Said(200, issue)
            case "PATCH", False:
                if body.get("state") not in ("open", "closed") or body.get("state_reason") not in _REASONS:
                    return _invalid("Issue", "state_reason", "invalid", "")
                if body["state"] != issue["state"]:  # else the reason is ignored
                    issue.update(body)
                return Said(200, issue)
            case "GET", True:
                return self._page(self.comments[number], asked)
            case "POST", True if 0 < len(body.get("body", "")) <= _BODY:
                self.comments[number].append({"id": len(self.comments[number]) + 1, "body": body["body"]})
                return Said(201, self.comments[number][-1])
        return _invalid("IssueComment", "body", "unprocessable", "")

    def _page(self, items: list[Any], asked: Asked) -> Said:
        query = asked.query
        size, page = min(int(query.get("per_page", "30")), _PAGE), int(query.get("page", "1"))
        headers = {}
        if page * size < len(items):
            following = "&".join(f"{name}={value}" for name, value in {**query, "page": str(page + 1)}.items())
            headers["Link"] = f'<{self.url}{urlsplit(asked.target).path}?{following}>; rel="next"'
        return Said(200, items[(page - 1) * size : page * size], headers)


def _invalid(resource: str, field: str, code: str, message: str) -> Said:
    error = {"resource": resource, "field": field, "code": code} | ({"message": message} if message else {})
    return Said(422, {"message": "Validation Failed", "errors": [error]})


def _no(status: int, message: str) -> Said:
    return Said(status, {"message": message})
