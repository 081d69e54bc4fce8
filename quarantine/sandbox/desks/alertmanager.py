"""A stand-in for the part of Alertmanager's API v2 that takes alerts: as its own handler validates and merges them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quarantine.sandbox.desks.served import Asked, Desk, Said

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESOLVE_TIMEOUT = timedelta(minutes=5)


@dataclass(frozen=True)
class Alert:
    """What is kept of one."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts: datetime
    ends: datetime


class AlertmanagerDesk(Desk):
    """One Alertmanager, by a clock that a test moves. `authorization`: the header that it wants; empty: none."""

    def __init__(self, now: Callable[[], datetime], authorization: str = "") -> None:
        super().__init__()
        self.now = now
        self.authorization = authorization
        self.alerts: dict[frozenset[tuple[str, str]], Alert] = {}

    def firing(self) -> list[Alert]:
        """Those that have not ended."""
        return [alert for alert in self.alerts.values() if alert.ends > self.now()]

    def answer(self, asked: Asked) -> Said:
        """Perform one request. Valid alerts are kept, though others beside them are not."""
        if asked.headers.get("authorization", "") != self.authorization:
            return Said(401, "Unauthorized")
        if (asked.method, asked.words[-3:]) != ("POST", ["api", "v2", "alerts"]):
            return Said(404, {"code": 404, "message": f"path {asked.target} was not found"})
        if asked.headers.get("content-type") != "application/json":
            return Said(415, {"code": 415, "message": "unsupported media type"})
        wrong = [why for why in map(self._take, json.loads(asked.content)) if why]
        return Said(400, "; ".join(wrong)) if wrong else Said(200)

    def _take(self, posted: Mapping[str, Any]) -> str:
        """Why not; empty where it was taken."""
        labels = {name: value for name, value in posted["labels"].items() if value}
        starts, ends = (_time(posted.get(name)) for name in ("startsAt", "endsAt"))
        starts = starts or ends or self.now()
        ends = ends or self.now() + _RESOLVE_TIMEOUT
        if ends < starts:
            return "start time must be before end time"
        if not labels:
            return "at least one label pair required"
        if bad := [name for name in (*labels, *posted.get("annotations", {})) if not _NAME.fullmatch(name)]:
            return f"invalid name {bad[0]!r}"
        key = frozenset(labels.items())
        old = self.alerts.get(key)
        if old is not None and old.ends >= starts and old.starts <= ends:  # they overlap: one alert
            starts = min(starts, old.starts)
        self.alerts[key] = Alert(labels, posted.get("annotations", {}), starts, ends)
        return ""


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
