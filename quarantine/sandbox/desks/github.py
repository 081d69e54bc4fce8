"""A stand-in for the part of GitHub's REST API that issues need, strict about what GitHub documents."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

_TITLE, _BODY, _LABEL, _PAGE = 256, 65_536, 50, 100


class GitHubDesk:
    """One repository. `faults` are used up one a request: cut-before, cut-after, garbled-after, 429, 500, secondary."""

    def __init__(self, repository: str, token: str) -> None:
        self.repository = repository
        self.token = token
        self.issues: list[dict[str, Any]] = []
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.labels: set[str] = set()
        self.faults: dict[str, list[str]] = {}  # by "METHOD last-word-of-path"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> GitHubDesk:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(  # noqa: C901, PLR0911  (a table of routes)
        self, method: str, target: str, headers: Mapping[str, str], body: Any
    ) -> tuple[int, Any, dict[str, str]]:
        """Perform one request: status, JSON, headers."""
        if not headers.get("User-Agent"):
            return _no(403, "Request forbidden by administrative rules: User-Agent")
        if headers.get("Accept") != "application/vnd.github+json" or not headers.get("X-GitHub-Api-Version"):
            return _no(415, "Unsupported media type or version")
        if not headers.get("Authorization"):
            return _no(404, "Not Found")
        if headers["Authorization"] != f"Bearer {self.token}":
            return _no(401, "Bad credentials")
        parts = urlsplit(target)
        prefix = f"/repos/{self.repository}"
        if not parts.path.startswith(prefix):
            return _no(404, "Not Found")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        rest = parts.path.removeprefix(prefix)
        one = re.fullmatch(r"/issues/(\d+)(/comments)?", rest)
        if one:
            return self._one(method, int(one[1]), bool(one[2]), query, body, parts.path)
        match method, rest:
            case "GET", "":
                return 200, {"full_name": self.repository}, {}
            case "GET", "/issues":
                wanted = set(filter(None, query.get("labels", "").split(",")))
                state = query.get("state", "open")
                found = [
                    issue
                    for issue in self.issues
                    if state in ("all", issue["state"]) and wanted <= {label["name"] for label in issue["labels"]}
                ]
                if query.get("direction", "desc") == "desc":
                    found.reverse()
                return self._page(found, query, parts.path)
            case "POST", "/labels":
                if len(body["name"]) > _LABEL or body["name"] in self.labels:
                    return _no(422, "Validation Failed")
                self.labels.add(body["name"])
                return 201, body, {}
            case "POST", "/issues":
                return self._file(body)
        return _no(404, "Not Found")

    def _file(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        if not body.get("title") or len(body["title"]) > _TITLE or len(body.get("body", "")) > _BODY:
            return _no(422, "Validation Failed")
        number = len(self.issues) + 1
        issue = {
            "number": number,
            "state": "open",
            "state_reason": None,
            "title": body["title"],
            "body": body.get("body", ""),
            "html_url": f"https://github.example/{self.repository}/issues/{number}",
            "labels": [{"name": name} for name in body.get("labels", []) if name in self.labels],
        }
        self.issues.append(issue)
        self.comments[number] = []
        return 201, issue, {}

    def _one(  # noqa: PLR0911  (a table of routes)
        self, method: str, number: int, comments: bool, query: dict[str, str], body: Any, path: str
    ) -> tuple[int, Any, dict[str, str]]:
        if number not in self.comments:
            return _no(404, "Not Found")
        issue = self.issues[number - 1]
        match method, comments:
            case "GET", False:
                return 200, issue, {}
            case "PATCH", False:
                if body.get("state_reason") not in (None, "completed", "not_planned", "reopened", "duplicate"):
                    return _no(422, "Validation Failed")
                issue.update(body)
                return 200, issue, {}
            case "GET", True:
                return self._page(self.comments[number], query, path)
            case "POST", True if 0 < len(body.get("body", "")) <= _BODY:
                self.comments[number].append({"id": len(self.comments[number]) + 1, "body": body["body"]})
                return 201, self.comments[number][-1], {}
        return _no(422, "Validation Failed")

    def _page(self, items: list[Any], query: dict[str, str], path: str) -> tuple[int, Any, dict[str, str]]:
        size, page = min(int(query.get("per_page", "30")), _PAGE), int(query.get("page", "1"))
        headers = {}
        if page * size < len(items):
            following = "&".join(f"{name}={value}" for name, value in {**query, "page": str(page + 1)}.items())
            headers["Link"] = f'<{self.url}{path}?{following}>; rel="next"'
        return 200, items[(page - 1) * size : page * size], headers


def _no(status: int, message: str) -> tuple[int, Any, dict[str, str]]:
    return status, {"message": message}, {}


def _handler(desk: GitHubDesk) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Silent."""

        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            planned = desk.faults.get(f"{self.command} {urlsplit(self.path).path.rpartition('/')[2]}", [])
            fault = planned.pop(0) if planned else ""
            if fault == "cut-before":
                return
            if fault in ("429", "500", "secondary"):
                status = 403 if fault == "secondary" else int(fault)
                said: tuple[int, Any, dict[str, str]] = (status, {"message": "secondary rate limit"}, {})
                if fault != "500":
                    said[2]["Retry-After"] = "30"
            else:
                said = desk.answer(self.command, self.path, dict(self.headers), body)
            if fault == "cut-after":
                return
            content = b"<html>" if fault == "garbled-after" else json.dumps(said[1]).encode()
            self.send_response(said[0])
            for name, value in said[2].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815  (http.server's names)

    return Handler
