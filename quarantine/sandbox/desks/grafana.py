"""A stand-in for Grafana's annotations API, as documented ("Annotations HTTP API") and as strict about its limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from quarantine.sandbox.desks.served import Asked, Desk, Said

_LIMIT = 100  # of what is found, where the query does not say
_TAGS = 500  # bytes of the tags as JSON: `annotations.tags_length`
_COLUMN = 100  # characters of a tag's key, and of its value
_MAY = {"Viewer": ("read",), "Editor": ("read", "create", "write")}  # with the organization's annotations


@dataclass
class Region:
    """An annotation."""

    id: int
    time: int  # milliseconds since 1970
    end: int
    text: str
    tags: tuple[str, ...]
    dashboard: str = ""
    writes: int = 1

    def told(self) -> Mapping[str, object]:
        """As the API tells of it."""
        return {
            "id": self.id,
            "alertId": 0,
            "dashboardUID": self.dashboard or None,
            "panelId": 0,
            "userId": 2,
            "time": self.time,
            "timeEnd": self.end,
            "text": self.text,
            "tags": list(self.tags),
            "data": {},
        }


class GrafanaDesk(Desk):
    """One organization. `regions` are those that were made and not removed, oldest first."""

    def __init__(self, token: str, *, role: str = "Editor") -> None:
        super().__init__()
        self.token = token
        self.role = role
        self.regions: list[Region] = []
        self._made = 0

    def answer(self, asked: Asked) -> Said:
        """Perform one request."""
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return Said(401, {"message": "Invalid API key", "messageId": "api-key.invalid", "statusCode": 401})
        match asked.method, asked.words:
            case "GET", ["api", "annotations"]:
                return self._allowed("read") or self._found(parse_qs(urlsplit(asked.target).query))
            case "POST", ["api", "annotations"]:
                return self._allowed("create") or self._create(json.loads(asked.content))
            case "PATCH", ["api", "annotations", number] if number.isdigit():
                return self._allowed("write") or self._patch(int(number), json.loads(asked.content))
        return Said(404, {"message": "Not found"})

    def remove(self, number: int) -> None:
        """Somebody takes it away in Grafana."""
        self.regions = [one for one in self.regions if one.id != number]

    def _allowed(self, to: str) -> Said | None:
        if to in _MAY[self.role]:
            return None
        need = f"annotations:{to}"
        said = f"You'll need additional permissions to perform this action. Permissions needed: {need}"
        return Said(403, {"accessErrorId": "ACE1", "message": said, "title": "Access denied"})

    def _found(self, query: Mapping[str, Sequence[str]]) -> Said:
        """Newest first. All `tags` must be there, or one of them with `matchAny`."""
        wanted, limit = query.get("tags", []), int(query.get("limit", ["0"])[0]) or _LIMIT
        enough = any if query.get("matchAny") == ["true"] else all
        since, until = (int(query.get(name, ["0"])[0]) for name in ("from", "to"))
        found = [
            one
            for one in sorted(self.regions, key=lambda one: (one.end, one.time), reverse=True)
            if (not wanted or enough(tag in one.tags for tag in wanted))
            and (not (since and until) or (one.time <= until and one.end >= since))
        ]
        return Said(200, [one.told() for one in found[:limit]])

    def _create(self, body: Mapping[str, Any]) -> Said:
        if not body.get("text"):
            return Said(400, {"message": "Failed to save annotation", "error": "text field should not be empty"})
        tags = tuple(_kept(body.get("tags", ())))
        if (wrong := _wrong(tags)) is not None:
            return wrong
        self._made += 1
        time, end = int(body["time"]), int(body.get("timeEnd") or body["time"])
        made = Region(self._made, min(time, end), max(time, end), body["text"], tags, body.get("dashboardUID", ""))
        self.regions.append(made)
        return Said(200, {"message": "Annotation added", "id": made.id})

    def _patch(self, number: int, body: Mapping[str, Any]) -> Said:
        one = next((each for each in self.regions if each.id == number), None)
        if one is None:
            return Said(404, {"message": "Annotation not found"})
        tags = tuple(_kept(body["tags"])) if "tags" in body else one.tags
        if (wrong := _wrong(tags)) is not None:
            return wrong
        one.text, one.tags = body.get("text") or one.text, tags
        one.time, one.end = int(body.get("time") or one.time), int(body.get("timeEnd") or one.end)
        one.writes += 1
        return Said(200, {"message": "Annotation patched"})


def _kept(tags: Sequence[str]) -> Iterator[str]:
    """As they are stored: in halves around the first colon, each trimmed; none twice."""
    halves = [tuple(half.strip() for half in tag.split(":", 1)) for tag in tags]
    yield from (":".join(one) for one in dict.fromkeys(halves) if one[0])


def _wrong(tags: Sequence[str]) -> Said | None:
    if len(json.dumps(list(tags), ensure_ascii=False, separators=(",", ":")).encode()) > _TAGS:
        return Said(400, {"message": "Failed to save annotation", "error": "tags length exceeds the maximum allowed"})
    if any(len(half) > _COLUMN for tag in tags for half in tag.split(":", 1)):
        return Said(500, {"message": "Failed to save annotation"})  # Postgres: value too long for its type
    return None
