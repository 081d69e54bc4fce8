"""What the API server answers when it says no: a `Status` object with the words of the real one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quarantine.sandbox.kubeapi.resources import Resource

OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ApiError(Exception):
    """A refusal: HTTP status `code`, and the body that clients parse."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def body(self) -> dict[str, Any]:
        """The `Status` object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        return body | {"code": self.code}

    @property
    def retry_after(self) -> int | None:
        """Seconds for the Retry-After header, where the answer names them."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that is invalid. `reason` is the machine's word, `text` the person's."""

    field: str
    reason: str
    text: str


def details(resource: Resource, name: str = "") -> dict[str, Any]:
    """Which object a refusal is about."""
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    """404."""
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', details(resource, name))


def no_such_resource() -> ApiError:
    """404 for a path inside an API group that is served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 on create."""
    return ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', details(resource, name))


def conflict(resource: Resource, name: str, why: str = OPTIMISTIC_LOCK) -> ApiError:
    """409: a precondition does not hold."""
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", text, details(resource, name))


def delete_conflict(resource: Resource, name: str, why: str) -> ApiError:
    """409 of a deletion's precondition, which names the kind where others name the resource."""
    about = {"name": name, "group": resource.group, "kind": resource.kind}
    text = f'Operation cannot be fulfilled on {resource.qualified_kind} "{name}": {why}'
    return ApiError(409, "Conflict", text, {key: value for key, value in about.items() if value})


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def invalid(resource: Resource, name: str, problems: Sequence[Problem]) -> ApiError:
    """422. The server checks some fields several times: the causes repeat, the sentence does not."""
    texts = list(dict.fromkeys(f"{p.field}: {p.text}" for p in problems))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    about = {"name": name, "group": resource.group, "kind": resource.kind}
    causes = [{"reason": p.reason, "message": p.text, "field": p.field} for p in problems]
    return ApiError(
        422,
        "Invalid",
        f'{resource.qualified_kind} "{name}" is invalid: {listed}',
        {key: value for key, value in about.items() if value} | {"causes": causes},
    )


def unprocessable(details_: Mapping[str, Any] | None = None) -> ApiError:
    """422 of a JSON patch that could not be applied; the real server gives no more away than this."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", details_ or {})


def expired_version(asked: int, floor: int) -> ApiError:
    """410: the history from that version on has been forgotten."""
    return ApiError(410, "Expired", f"too old resource version: {asked} ({floor})")


def expired_continue(token: str) -> ApiError:
    """410 of a list's next page, with a token that goes on inconsistently."""
    return ApiError(410, "Expired", CONTINUE_EXPIRED, metadata={"continue": token})


def too_large_version(asked: int, current: int) -> ApiError:
    """504: a version that does not exist yet was asked for."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        {"causes": [cause], "retryAfterSeconds": 1},
    )


def unsupported_media_type(accepted: Sequence[str], extra: str = "") -> ApiError:
    """415."""
    text = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return ApiError(415, "UnsupportedMediaType", text + extra)


def method_not_allowed() -> ApiError:
    """405."""
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, {})
