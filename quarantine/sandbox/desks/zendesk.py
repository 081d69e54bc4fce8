"""A stand-in for the part of Zendesk's Support API that tickets need, strict about what Zendesk documents."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from quarantine.sandbox.desks.served import Asked, Desk, Said

_STATUSES = ("new", "open", "pending", "hold", "solved", "closed")
_COMMENT, _PAGE = 65_535, 100
_KEY_LIVES = timedelta(hours=2)
_UPLOAD_LIVES = timedelta(minutes=60)
_ARCHIVED_AFTER = timedelta(days=120)
_LIQUID = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")


class ZendeskDesk(Desk):
    """One account. `lag`: for how long a new ticket is missing from lists. `files`: endings that may be uploaded."""

    def __init__(self, email: str, token: str, now: Callable[[], datetime], *, lag: timedelta = timedelta(0)) -> None:
        super().__init__()
        self.now = now
        self.lag = lag
        self.files = (".png", ".svg")
        self.tickets: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.uploads: dict[str, tuple[datetime, str, bytes]] = {}
        self.oauth = f"Bearer {token}"
        self.basic = "Basic " + base64.b64encode(f"{email}/token:{token}".encode()).decode()
        self._keys: dict[str, tuple[datetime, bytes, int]] = {}

    def answer(self, asked: Asked) -> Said:
        """Whether it may, then what it does."""
        if asked.headers.get("authorization") not in (self.oauth, self.basic):
            return Said(401, {"error": "Couldn't authenticate you"})
        match asked.method, asked.words:
            case "POST", ["api", "v2", "uploads"]:
                return self._upload(asked)
            case (("POST" | "PUT"), ["api", "v2", "tickets", *rest]):
                return self._write(asked, rest)
            case "GET", ["api", "v2", "tickets", *rest]:
                return self._read(asked, rest)
        return Said(404, {"error": "InvalidEndpoint", "description": "Not found"})

    def forget(self) -> None:
        """An account as it was at first."""
        for kept in (self.tickets, self.comments, self.uploads, self._keys, self.delayed, self.asked):
            kept.clear()

    def close(self, number: int) -> None:
        """What an automation does some days after a ticket was solved."""
        self.tickets[number].update(status="closed", updated_at=_stamp(self.now()))

    def _read(self, asked: Asked, rest: list[str]) -> Said:
        if not rest:
            wanted = asked.query.get("external_id")
            return self._page(asked, "tickets", [t for t in self.tickets.values() if self._listed(t, wanted)])
        number = int(rest[0]) if rest[0].isdigit() else 0
        if number not in self.tickets:
            return _missing()
        if rest[1:] == ["comments"]:
            return self._page(asked, "comments", self.comments[number])
        return Said(200, {"ticket": self.tickets[number]})

    def _listed(self, ticket: dict[str, Any], external_id: str | None) -> bool:
        age = self.now() - datetime.fromisoformat(ticket["created_at"])
        touched = self.now() - datetime.fromisoformat(ticket["updated_at"])
        archived = ticket["status"] == "closed" and touched > _ARCHIVED_AFTER
        return not archived and age >= self.lag and external_id in (None, ticket["external_id"])

    def _page(self, asked: Asked, name: str, items: list[Any]) -> Said:
        size = int(asked.query.get("page[size]", "0"))
        if not 0 < size <= _PAGE:  # offset pagination is left out: the adapter does not use it
            return Said(400, {"error": "InvalidPaginationParameter", "description": "page[size]"})
        start = int(asked.query.get("page[after]", "0"))
        more = start + size < len(items)
        path = asked.target.split("&page[after]")[0].split("&page%5Bafter%5D")[0]
        links = {"next": f"{self.url}{path}&page[after]={start + size}" if more else None, "prev": None}
        return Said(200, {name: items[start : start + size], "meta": {"has_more": more}, "links": links})

    def _write(self, asked: Asked, rest: list[str]) -> Said:
        try:
            ticket = json.loads(asked.content)["ticket"]
        except (ValueError, KeyError, TypeError):
            return Said(422, {"error": "Unprocessable Entity"})
        if asked.headers.get("content-type") != "application/json":
            return Said(415, {"error": "Unsupported Media Type"})
        if asked.method == "POST" and not rest:
            return self._once(asked, ticket)
        number = int(rest[0]) if len(rest) == 1 and rest[0].isdigit() else 0
        return self._change(self.tickets[number], ticket) if number in self.tickets else _missing()

    def _once(self, asked: Asked, ticket: dict[str, Any]) -> Said:
        key = asked.headers.get("idempotency-key")
        if key is None:
            return self._create(ticket)
        before = self._keys.get(key)
        if before is not None and self.now() - before[0] < _KEY_LIVES:
            if before[1] != asked.content:
                words = "Request parameters don't match the given idempotency key"
                return Said(400, {"error": "IdempotentRequestError", "description": words})
            return Said(201, {"ticket": self.tickets[before[2]]}, {"x-idempotency-lookup": "hit"})
        said = self._create(ticket)
        if said.status == 201:
            self._keys[key] = (self.now(), asked.content, len(self.tickets))
        return Said(said.status, said.body, {"x-idempotency-lookup": "miss"})

    def _create(self, ticket: dict[str, Any]) -> Said:
        number, now = len(self.tickets) + 1, _stamp(self.now())
        if "comment" not in ticket:
            return _invalid("comment", "Description: cannot be blank")
        made: dict[str, Any] = {"status": "new", "tags": [], "external_id": None, "custom_status_id": None}
        made |= {"id": number, "created_at": now, "updated_at": now, "url": f"{self.url}/api/v2/tickets/{number}.json"}
        self.comments[number] = []
        refused = self._comment(number, ticket["comment"])
        if refused is not None:
            del self.comments[number]
            return refused
        fields = {name: value for name, value in ticket.items() if name != "comment"}
        self.tickets[number] = {**made, **fields}
        return Said(201, {"ticket": self.tickets[number], "audit": {}})

    def _change(self, now: dict[str, Any], change: dict[str, Any]) -> Said:
        if now["status"] == "closed":
            return _invalid("status", "Status: closed prevents ticket update")
        if change.pop("safe_update", False) and change.pop("updated_stamp", None) != now["updated_at"]:
            words = "Safe Update prevented the update due to outdated ticket data"
            return Said(409, {"error": "UpdateConflict", "description": words})
        if change.get("status", "open") not in _STATUSES[1:]:
            return _invalid("status", "Status: is not included in the list")
        comment = change.pop("comment", None)
        refused = None if comment is None else self._comment(now["id"], comment)
        if refused is not None:
            return refused
        now.update(change, updated_at=_stamp(max(self.now(), datetime.fromisoformat(now["updated_at"]))))
        return Said(200, {"ticket": now, "audit": {}})

    def _comment(self, number: int, comment: dict[str, Any]) -> Said | None:
        text = comment.get("html_body") or comment.get("body") or ""
        if not text or len(text.encode()) > _COMMENT:
            return _invalid("comment", "Comment: is empty, or longer than 64 KiB")
        tokens = comment.get("uploads", [])
        if any(t not in self.uploads or self.now() - self.uploads[t][0] > _UPLOAD_LIVES for t in tokens):
            return Said(404, {"error": "RecordNotFound", "description": "upload"})
        files = [self.uploads.pop(token)[1:] for token in tokens]
        filled = _LIQUID.sub("(filled in)", text)
        self.comments[number].append(
            {"html_body": filled, "public": comment.get("public", True), "attachments": [name for name, _ in files]}
        )
        return None

    def _upload(self, asked: Asked) -> Said:
        name = asked.query.get("filename", "")
        if not name or not asked.content or "multipart" in asked.headers.get("content-type", ""):
            return Said(400, {"error": "AttachmentUnprocessable"})
        if not name.endswith(self.files):
            return Said(422, {"error": "AttachmentUnprocessable", "description": "the type is not allowed"})
        token = f"upload-{len(self.asked)}"
        self.uploads[token] = (self.now(), name, asked.content)
        return Said(201, {"upload": {"token": token, "attachment": {"file_name": name}}})


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _missing() -> Said:
    return Said(404, {"error": "RecordNotFound", "description": "Not found"})


def _invalid(field: str, words: str) -> Said:
    details = {field: [{"description": words}]}
    return Said(422, {"error": "RecordInvalid", "description": "Record validation errors", "details": details})
