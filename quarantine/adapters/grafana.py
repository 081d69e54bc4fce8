"""Annotations on Grafana's charts, by its HTTP API: one region for each case, found again by its tags.

Its documentation ("Annotations API"): an annotation without a dashboard belongs to the organization, and is shown by
any dashboard that asks for its tags. Several `tags` in a query must all be there. Times are milliseconds since 1970, an
annotation with a `timeEnd` is a region, and `PATCH` changes what it names and nothing else. A chart shows the text as
HTML, so what comes from outside is escaped.

A lost answer may hide an annotation that was made: it is looked up before one is made again.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from quarantine.adapters.web import Call, Errors, Web, base_url, plain, secret_of
from quarantine.core.annotations import Annotation, Moment
from quarantine.core.errors import AnnotatorRefused, AnnotatorUnavailable
from quarantine.core.marks import shorten

_PATH = "/api/annotations"
_WHOLE = 5.0  # seconds for a look-up, and for a write: the cycle waits for them
_LONGEST = 300  # characters of a line
_ERRORS = Errors(unavailable=AnnotatorUnavailable, uncertain=AnnotatorUnavailable, refused=AnnotatorRefused)


class GrafanaOptions(BaseModel):
    """Where Grafana is, and as whom it is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str
    token: SecretStr | None = None  # of a service account: it is of one organization
    dashboard: str = ""  # its uid; empty: the annotations are the organization's
    ca_file: Path | None = None  # None: the system's

    @field_validator("url")
    @classmethod
    def _url(cls, url: str) -> str:
        return base_url(url, "Grafana")


class Grafana:
    """Implements `ports.Annotator`."""

    def __init__(self, options: GrafanaOptions, now: Callable[[], datetime]) -> None:
        """Nothing is asked yet. `now`: aware, UTC."""
        token = secret_of(options.token, None, "token of Grafana", refused=AnnotatorRefused)
        self._dashboard = options.dashboard
        self._web = Web(
            options.url,
            lambda: f"Bearer {token()}",
            name="Grafana",
            errors=_ERRORS,
            now=now,
            wait=_WHOLE,
            whole=_WHOLE,
            ca_file=options.ca_file,
        )

    def check(self) -> None:
        """Whether the token may look for annotations. Whether it may make them is seen with the first one."""
        call = self._web.call("look for an annotation")
        answer = call.get(_PATH, {"limit": "1"})
        if not isinstance(answer.body, list):
            call.garbled(answer)

    def put(self, annotation: Annotation, ref: str | None) -> str | None:
        """Have it there as it is now; as the port says."""
        call = self._call(annotation)
        shown = _shown(annotation)
        if ref is not None:
            return _patch(call, ref, shown)
        return self._make(call, shown)

    def find(self, annotation: Annotation) -> str | None:
        """The oldest that has its tags: another process may have made it, or this one, and never heard of it."""
        call = self._call(annotation)
        answer = call.get(f"{_PATH}?{urlencode([('tags', tag) for tag in annotation.known_by])}")
        found = answer.body
        if not isinstance(found, list):
            call.garbled(answer)
        ids: list[int] = []
        for one in found:
            match one:
                case {"id": int(number), "tags": [*tags]} if set(annotation.known_by) <= {str(tag) for tag in tags}:
                    ids.append(number)
                case _:
                    call.garbled(answer, why="it tells of an annotation that was not asked for")
        return str(min(ids)) if ids else None

    def _call(self, annotation: Annotation) -> Call:
        return self._web.call(f"annotate case {shorten(plain(annotation.key), 80)}")

    def _make(self, call: Call, shown: Mapping[str, object]) -> str:
        answer = call.send("POST", _PATH, {**shown, "dashboardUID": self._dashboard} if self._dashboard else shown)
        number = answer.body.get("id") if isinstance(answer.body, dict) else None
        if not isinstance(number, int):
            call.garbled(answer, wrote=True)
        return str(number)


def connect(options: Mapping[str, object], now: Callable[[], datetime]) -> Grafana:
    """The adapter with these options; nothing is asked yet. Raises pydantic's ValidationError where they are wrong."""
    return Grafana(GrafanaOptions.model_validate(options), now)


def _patch(call: Call, ref: str, shown: Mapping[str, object]) -> str | None:
    """None: there is none of this id any more. Whatever else answers 404 (a proxy, another path) says so otherwise."""
    answer = call.send("PATCH", f"{_PATH}/{quote(ref, safe='')}", shown, known=(HTTPStatus.NOT_FOUND,))
    if answer.status != HTTPStatus.NOT_FOUND:
        return ref
    said = answer.body.get("message") if isinstance(answer.body, dict) else None
    if not isinstance(said, str) or "annotation" not in said.lower():
        call.garbled(answer, wrote=True, why="look at grafana.url, which must end where /api begins")
    return None


def _shown(annotation: Annotation) -> dict[str, object]:
    lines = [f"<b>{_escaped(annotation.text)}</b>", *(_line(moment) for moment in annotation.moments)]
    return {
        "time": _milliseconds(annotation.since),
        "timeEnd": _milliseconds(annotation.until),
        "tags": list(annotation.tags),
        "text": "<br>".join(lines),
    }


def _line(moment: Moment) -> str:
    said = _escaped(moment.what)
    if urlsplit(moment.url).scheme in ("http", "https"):
        said = f'<a href="{html.escape(moment.url)}" target="_blank" rel="noopener">{said}</a>'
    return f"{moment.at.astimezone(UTC):%Y-%m-%d %H:%M} UTC {said}"


def _escaped(text: str) -> str:
    return html.escape(shorten(plain(text), _LONGEST))


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
