"""From the body of an answer to samples. What is not complete and exactly as documented is a Problem, never a part."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal

from quarantine.adapters.prometheus.problems import Problem, flat
from quarantine.core.model import FailureKind, Sample

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_PROMETHEUS = "check that prometheus.url leads to Prometheus and to no log-in page or proxy"


def unix_seconds(at: datetime) -> str:
    """As Prometheus reads it, milliseconds kept. Raises TypeError for a time without a zone."""
    seconds, milliseconds = divmod((at - _EPOCH) // timedelta(milliseconds=1), 1000)
    return f"{seconds}.{milliseconds:03d}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back, read to its end. `mask` takes our secrets out of text that somebody else wrote."""

    status: int
    content_type: str
    body: bytes
    mask: Callable[[str], str]
    payload: Any = field(init=False)  # the JSON, None where it is none

    def __post_init__(self) -> None:
        object.__setattr__(self, "payload", _decoded(self.body))

    def quote(self, text: object, limit: int = 300) -> str:
        """Their words in our sentence. Masked before it is cut: half a secret is one too."""
        return f"“{flat(self.mask(str(text)), limit)}”"

    @property
    def is_page(self) -> bool:
        """HTML or XML."""
        return "html" in self.content_type.lower() or self.body.lstrip()[:1] == b"<"

    @property
    def shape(self) -> str:
        """What it is instead of what it should be."""
        if self.is_page:
            return "a web page"
        if not self.body.strip():
            return "nothing"
        return "something that is no JSON" if self.payload is None else "JSON of another shape"


ResultType = Literal["vector", "matrix"]


def envelope(reply: Reply, wanted: ResultType = "vector") -> Mapping[str, Any]:
    """The whole answer, complete and of the type wanted. Raises Problem for everything else."""
    payload = reply.payload
    if reply.status != HTTPStatus.OK:
        raise _refusal(reply)
    if not isinstance(payload, dict):
        raise unexpected(reply.shape)
    if payload.get("status") != "success":
        raise _said_error(reply) or unexpected("an answer without its status")
    if payload.get("isPartial"):
        raise Problem(
            FailureKind.PARTIAL, "has only a part of the answer (isPartial)", "see which storage node is down"
        )
    if warnings := payload.get("warnings"):
        first = reply.quote(warnings[0] if isinstance(warnings, list) else warnings)
        raise Problem(FailureKind.PARTIAL, f"answered with a warning, {first}", "see which store or series it means")
    data = payload.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise unexpected("an answer without its result")
    if (kind := data.get("resultType")) != wanted:
        advice = _NOT_PROMETHEUS if wanted == "matrix" else "correct the query: it must give an instant vector"
        raise Problem(FailureKind.GARBLED, f"answered with a {flat(str(kind), 20)} instead of a {wanted}", advice)
    return payload


def samples(result: Any, at: datetime) -> tuple[Sample, ...]:
    """The elements of a vector that was asked for at `at`. Raises Problem."""
    return tuple(_sample(item, at) for item in result)


def _sample(item: Any, at: datetime) -> Sample:
    match item:
        case {"metric": dict(metric), "value": [int() | float() as stamp, str(text)]}:
            pass
        case {"histogram": _}:
            raise histogram()
        case _:
            raise unexpected("a vector whose elements have no labels or no value")
    # A cache that overlooks `time=` would serve old heat as present heat, and old calm as present calm.
    if not abs(stamp - at.timestamp()) < 1:
        raise Problem(
            FailureKind.GARBLED, "answered for another time than was asked for", "take out the cache that is in between"
        )
    return Sample(labels=labels_of(metric), value=_number(text), at=at)


def labels_of(metric: Mapping[str, Any]) -> dict[str, str]:
    """The labels without the metric's name. Raises Problem for one that is no text."""
    if not all(isinstance(value, str) for value in metric.values()):
        raise unexpected("a label that is no text")
    # Only keys: they are few, the same in every answer, and kept for as long as evidence is.
    return {sys.intern(key): value for key, value in metric.items() if key != "__name__"}


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = None
    if value is None or "_" in text or text != text.strip():  # Python's float() takes more than Prometheus writes
        raise unexpected("a value that is no number")
    return value


# --- Errors as the server tells them ----------------------------------------------------------------------------------


_CREDENTIALS = "check prometheus.bearer_token_file, or username and password_file, and prometheus.tenant"
_TOO_LONG = (FailureKind.REJECTED, "finds the query too long", "raise the proxy's limit")
# What a status says whatever stands in its body: kind, words, advice.
_BY_STATUS: Mapping[int, tuple[FailureKind, str, str]] = {
    401: (FailureKind.REFUSED, "does not accept who is asking", _CREDENTIALS),
    403: (FailureKind.REFUSED, "does not accept who is asking", _CREDENTIALS),
    407: (FailureKind.REFUSED, "is behind a proxy that does not accept who is asking", "check HTTPS_PROXY"),
    404: (FailureKind.MISCONFIGURED, "is no query API", "check prometheus.url"),
    405: (FailureKind.MISCONFIGURED, "is no query API", "check prometheus.url"),
    408: (FailureKind.TIMEOUT, "gave up waiting", "see the proxy in between"),
    413: _TOO_LONG,
    414: _TOO_LONG,
    431: _TOO_LONG,
    429: (FailureKind.UNAVAILABLE, "has too many queries", "ask less often"),
}
_REDIRECT = "set prometheus.url to the final address, or give credentials if that is a log-in page"


def _refusal(reply: Reply) -> Problem:
    status = reply.status
    words = f"HTTP {status}{_words(reply)}"
    if status in _BY_STATUS:
        kind, what, advice = _BY_STATUS[status]
        return Problem(kind, f"{what} ({words})", advice)
    if 300 <= status < 400:
        return Problem(FailureKind.MISCONFIGURED, f"redirects elsewhere (HTTP {status})", _REDIRECT)
    said = _said_error(reply)
    if status >= 500 and not (said and said.kind is FailureKind.TIMEOUT):
        return Problem(FailureKind.UNAVAILABLE, f"cannot answer now ({words})", "see the logs of Prometheus")
    return said or Problem(FailureKind.GARBLED, f"answered with {reply.shape} ({words})", _NOT_PROMETHEUS)


def _said_error(reply: Reply) -> Problem | None:
    """The error in Prometheus' own form, whatever the status; None where it is not of that form."""
    payload = reply.payload
    if not isinstance(payload, dict) or payload.get("status") != "error":
        return None
    said = reply.quote(payload.get("error") or "no reason given")
    match payload.get("errorType"):
        case "timeout" | "canceled":
            advice = "make the query cheaper or give it more time in prometheus.timeout"
            return Problem(FailureKind.TIMEOUT, f"ran out of time: {said}", advice)
        case "internal" | "unavailable" | "too_many_requests":
            return Problem(FailureKind.UNAVAILABLE, f"cannot answer now: {said}", "see the logs of Prometheus")
    if reply.status == HTTPStatus.UNPROCESSABLE_ENTITY:
        advice = "narrow the query, or raise the server's limit if that is what it names"
        return Problem(FailureKind.REJECTED, f"cannot execute the query: {said}", advice)
    return Problem(FailureKind.REJECTED, f"rejects the query: {said}", "correct the query")


def _words(reply: Reply) -> str:
    """What the server says of its refusal, as far as it fits into a sentence: `, “no org id”`."""
    if isinstance(reply.payload, dict):
        said = reply.payload.get("error") or reply.payload.get("message")
    else:
        said = None if reply.is_page else reply.body[:20_000].decode("utf-8", "replace")
    return f", {reply.quote(said)}" if isinstance(said, str) and said.strip() else ""


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # bad UTF-8 is a ValueError too
        return None


def histogram() -> Problem:
    """A value that is not one number."""
    advice = "take a number out of it, with histogram_quantile or histogram_count"
    return Problem(FailureKind.GARBLED, "answered with a native histogram instead of a number", advice)


def unexpected(what: str) -> Problem:
    """An answer that is not of the documented form."""
    return Problem(FailureKind.GARBLED, f"answered with {what}", _NOT_PROMETHEUS)
