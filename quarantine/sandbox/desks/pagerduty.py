"""A stand-in for PagerDuty's Events API v2, strict about the limits that it documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quarantine.sandbox.desks.served import Asked, Desk, Said

_LARGEST, _KEY, _SUMMARY = 512 * 1024, 255, 1024
_SEVERITIES = ("critical", "error", "warning", "info")


@dataclass
class Opened:
    """An alert, as it was opened, and what came later."""

    key: str
    payload: Mapping[str, Any]
    log: list[Mapping[str, Any]] = field(default_factory=list)
    open: bool = True


class PagerDutyDesk(Desk):
    """One integration. `alerts` are all that were ever opened, oldest first."""

    def __init__(self, routing_key: str) -> None:
        super().__init__()
        self.routing_key = routing_key
        self.alerts: list[Opened] = []

    def answer(self, asked: Asked) -> Said:
        """Perform one request."""
        if (asked.method, asked.words) != ("POST", ["v2", "enqueue"]):
            return Said(404, {"error": {"message": "Not Found", "code": 2100}})
        if len(asked.content) > _LARGEST:
            return Said(413)
        event = json.loads(asked.content)
        wrong = list(_wrong(event, self.routing_key))
        if wrong:
            return Said(400, {"status": "invalid event", "message": "Event object is invalid", "errors": wrong})
        self._take(event)
        said = {"status": "success", "message": "Event processed", "dedup_key": event["dedup_key"]}
        return Said(202, said)

    def _take(self, event: Mapping[str, Any]) -> None:
        standing = next((one for one in self.alerts if one.open and one.key == event["dedup_key"]), None)
        if standing is None:
            if event["event_action"] == "trigger":
                self.alerts.append(Opened(event["dedup_key"], event["payload"]))
        elif event["event_action"] == "trigger":
            standing.log.append(event["payload"])
        else:
            standing.open = event["event_action"] != "resolve"


def _wrong(event: Mapping[str, Any], routing_key: str) -> list[str]:
    wrong = []
    if event.get("routing_key") != routing_key:
        wrong.append("'routing_key' is invalid or disabled")
    if event.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        wrong.append("'event_action' is missing or invalid")
    if not 0 < len(event.get("dedup_key", "")) <= _KEY:
        wrong.append("'dedup_key' is missing or longer than 255")
    if event.get("event_action") == "trigger":
        payload = event.get("payload", {})
        if not 0 < len(payload.get("summary", "")) <= _SUMMARY:
            wrong.append("'payload.summary' is missing or longer than 1024")
        if not payload.get("source"):
            wrong.append("'payload.source' is missing or blank")
        if payload.get("severity") not in _SEVERITIES:
            wrong.append("'payload.severity' is invalid (must be one of the following: 'critical', 'warning', 'error' "
                         "or 'info')")  # fmt: skip
        if datetime.fromisoformat(payload["timestamp"]).tzinfo is None:
            wrong.append("'payload.timestamp' has no zone")
    return wrong
