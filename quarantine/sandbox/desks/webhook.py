"""A receiver that keeps the contract of `docs/tickets/webhook.md`, and refuses whatever does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from quarantine.adapters.tickets.webhook.schema import NewAttachment, NewTicket, NewUpdate
from quarantine.sandbox.desks.served import Asked, Desk, Said

_WINDOW = 300  # seconds


@dataclass(slots=True)
class Kept:
    """A ticket as it is kept."""

    told: dict[str, Any]
    now: dict[str, Any]
    updates: dict[str, dict[str, Any]] = field(default_factory=dict)  # by key
    files: dict[str, bytes] = field(default_factory=dict)  # by digest


class WebhookDesk(Desk):
    """The receiver. `takes_files`: whether attachments are let through; many a proxy takes no large body."""

    def __init__(self, secret: str, now: Callable[[], datetime], *, takes_files: bool = True) -> None:
        super().__init__()
        self.secret = secret
        self.now = now
        self.takes_files = takes_files
        self.tickets: dict[str, Kept] = {}  # by reference

    def answer(self, asked: Asked) -> Said:
        """Verify, then route."""
        return self._unverified(asked) or self._route(asked)

    def _unverified(self, asked: Asked) -> Said | None:
        seconds = asked.headers.get("quarantine-timestamp", "")
        signed = f"v1:{seconds}:{asked.method}:{asked.target}:".encode() + asked.content
        expected = "v1=" + hmac.new(self.secret.encode(), signed, hashlib.sha256).hexdigest()
        if not seconds.isdigit() or abs(self.now().timestamp() - int(seconds)) > _WINDOW:
            return Said(401, {"error": "the time is not now"})
        if not hmac.compare_digest(expected, asked.headers.get("quarantine-signature", "")):
            return Said(401, {"error": "the signature is wrong"})
        return None

    def _route(self, asked: Asked) -> Said:
        match asked.method, asked.words:
            case "GET", ["tickets"] if set(asked.query) == {"key"}:
                of_key = [kept.now for kept in self.tickets.values() if kept.now["key"] == asked.query["key"]]
                return Said(200, {"tickets": of_key})
            case "POST", ["tickets"]:
                return self._file(asked)
            case "GET", ["tickets", ref]:
                return Said(200, self.tickets[ref].now) if ref in self.tickets else Said(404, {"missing": ref})
            case "POST", ["tickets", ref, ("updates" | "attachments") as what]:
                if ref not in self.tickets:
                    return Said(404, {"missing": ref})
                return (self._update if what == "updates" else self._attach)(self.tickets[ref], ref, asked)
        return Said(404)

    def _file(self, asked: Asked) -> Said:
        body = _body(asked, NewTicket)
        if body is None or asked.headers.get("idempotency-key") != body["key"]:
            return Said(422, {"error": "no such body, or another Idempotency-Key"})
        known = next((kept for kept in self.tickets.values() if kept.now["key"] == body["key"]), None)
        if known is not None:
            return Said(200, known.now)
        ref = f"RMA-{len(self.tickets) + 1}"
        now = {"ref": ref, "key": body["key"], "status": "new", "url": f"https://desk.example/{ref}", "more": 1}
        self.tickets[ref] = Kept(body, now)
        return Said(201, now)

    def _update(self, kept: Kept, ref: str, asked: Asked) -> Said:
        body = _body(asked, NewUpdate)
        if body is None or asked.headers.get("idempotency-key") != f"{ref}/{body['key']}":
            return Said(422, {"error": "no such body, or another Idempotency-Key"})
        if body["key"] not in kept.updates:
            kept.updates[body["key"]] = body
            if body["close"]:
                kept.now["status"] = "closed"
        return Said(200, {})

    def _attach(self, kept: Kept, ref: str, asked: Asked) -> Said:
        body = _body(asked, NewAttachment)
        if not self.takes_files:
            return Said(413, {"error": "files are not taken"})
        if body is None or asked.headers.get("idempotency-key") != f"{ref}/{body['sha256']}":
            return Said(422, {"error": "no such body, or another Idempotency-Key"})
        content = base64.b64decode(body["content"], validate=True)
        if hashlib.sha256(content).hexdigest() != body["sha256"]:
            return Said(422, {"error": "the digest is that of something else"})
        kept.files[body["sha256"]] = content
        return Said(200, {})


def _body(asked: Asked, model: type[BaseModel]) -> dict[str, Any] | None:
    """The body, if it is one of this model, with all of its fields and no other."""
    try:
        body = json.loads(asked.content)
        model.model_validate(body)
    except (ValueError, ValidationError):
        return None
    typed = asked.headers.get("content-type") == "application/json"
    return body if typed and set(body) == set(model.model_fields) else None
