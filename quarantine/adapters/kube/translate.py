"""Vendor exceptions and HTTP statuses → `core.errors`, each as one sentence: what happened, where, what to do."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.client import HTTPException
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    ResponseError,
    SSLError,
)

from quarantine.adapters.kube.fields import entries, text_at
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, Conflict, NodeGone, QuarantineError

_LONGEST_QUOTE = 300  # characters of the server's own words
_LOGIN = "check the kubeconfig's user or the service account's token"


class Expired(ClusterUnavailable):
    """410: the version or the continue token is too old to go on from. List again."""


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked of the API server, for the sentence and for the right that it needs."""

    url: str  # of the API server, without credentials
    doing: str  # "patching node gpu-17"
    right: str  # "patch on nodes"
    node: str = ""

    def sentence(self, what: str, todo: str) -> str:
        """`what` is the predicate, `todo` what the reader can do about it."""
        return f"The Kubernetes API at {self.url} {what} while {self.doing}; {todo}."


@dataclass(frozen=True, slots=True)
class Status:
    """The API server's own account of a failure. All empty where the answer is nobody's Status."""

    reason: str = ""
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def other_uid(self) -> bool:
        """Whether the object of this name has another uid than the precondition; worded by where it is compared."""
        return "UID in precondition" in self.message or "UID in the precondition" in self.message

    def blames(self, where: str) -> bool:
        """Whether one of its causes is about this field."""
        return any(cause.get("field") == where for cause in entries(self.details.get("causes")))

    def gives(self, reason: str) -> bool:
        """Whether one of its causes has this reason."""
        return any(cause.get("reason") == reason for cause in entries(self.details.get("causes")))

    def cause(self, reason: str) -> str:
        """The words of the first cause that has this reason; empty where there is none."""
        causes = entries(self.details.get("causes"))
        return next((text_at(cause, "message") for cause in causes if cause.get("reason") == reason), "")


@contextmanager
def translated(call: Call) -> Iterator[None]:
    """Turn whatever the client, urllib3 or the socket raises into our errors, chained."""
    try:
        yield
    except ApiException as error:
        raise refusal(call, error) from error
    except MaxRetryError as error:
        raise unreachable(call, error.reason or error) from error
    except (HTTPError, HTTPException, OSError) as error:
        raise unreachable(call, error) from error
    except ConfigException as error:
        # Raised when a token is fetched afresh. Its own text may quote the kubeconfig, secrets included.
        raise ClusterUnavailable(call.sentence("could not be asked, for lack of credentials,", _LOGIN)) from error


def refusal(call: Call, error: ApiException) -> QuarantineError:
    """An HTTP answer that is no success."""
    code = error.status or 0
    status = parse_status(error.body)
    said = f"answered HTTP {code}" + (f" ({quote(status.message)})" if status.message else "")
    match code:
        case 404:
            return _not_found(call, status, said)
        case 409:
            return _conflict(call, status, said)
        case 410:
            return Expired(call.sentence(said, "list again"))
        case 401 | 403:
            return ClusterRefused(call.sentence(said, _credentials(call, code, status)))
        case 408 | 429:
            pass
        case _ if 400 <= code < 500:
            return _invalid(call, status, said)
        case 0:
            said = f"could not be reached ({quote(error.reason or 'TLS failed')})"
    return ClusterUnavailable(call.sentence(said, "it will be tried again"), retry_after=retry_after(error, status))


def _invalid(call: Call, status: Status, said: str) -> QuarantineError:
    if call.node and status.blames("metadata.uid"):
        return _made_anew(call, said)
    return ClusterRefused(call.sentence(said, "it will refuse this again until the request is changed"))


def _credentials(call: Call, code: int, status: Status) -> str:
    if code == 401:
        return _LOGIN
    if "system:anonymous" in status.message:
        return f"it saw no credentials: {_LOGIN}"
    return f"grant {call.right} to this user"


def _not_found(call: Call, status: Status, said: str) -> QuarantineError:
    if call.node and status.reason == "NotFound" and status.details.get("kind") == "nodes":
        return NodeGone(call.sentence(said, "the node does not exist any more"))
    # Only the API server may say that a node is gone: a proxy's 404 must not retire a machine.
    return ClusterUnavailable(call.sentence(said, "check that the URL is that of an API server"))


def _conflict(call: Call, status: Status, said: str) -> QuarantineError:
    if call.node and status.other_uid:
        return _made_anew(call, said)
    return Conflict(call.sentence(said, "read it again and plan again"))


def _made_anew(call: Call, said: str) -> NodeGone:
    return NodeGone(call.sentence(said, "another node has taken the name since it was read"))


def unreachable(call: Call, error: Exception) -> ClusterUnavailable:
    """No answer, or half of one. A write may or may not have happened."""
    match error:
        case NameResolutionError():
            what, todo = "could not be reached: its name is not known", "check the URL and the DNS"
        case NewConnectionError():  # a kind of ConnectTimeoutError, to urllib3
            what, todo = "could not be reached: nothing accepts connections there", "check the URL and that it is up"
        case ConnectTimeoutError():
            what, todo = "did not accept a connection in time", "check the URL and the network"
        case SSLError() | ssl.SSLError():
            what, todo = f"could not be trusted ({quote(str(error))})", "check the URL and the certificates"
        case ProxyError():
            what, todo = "could not be reached through the proxy", "check the proxy's settings"
        case FileNotFoundError() | PermissionError():  # sockets' errors arrive wrapped, so these are about files
            what, todo = f"could not be asked: {error.filename} cannot be read", _LOGIN
        case ReadTimeoutError() | TimeoutError():
            what, todo = "did not answer in time", "it will be tried again"
        case ResponseError():
            what, todo = "redirected elsewhere", "check that the URL is that of an API server"
        case ProtocolError() | HTTPException() | OSError():
            what, todo = "broke the connection off", "it will be tried again"
        case _:
            what, todo = f"could not be asked ({type(error).__name__})", "check the URL"
    return ClusterUnavailable(call.sentence(what, todo))


def garbled(call: Call, what: str) -> ClusterUnavailable:
    """An answer that is not what an API server says."""
    return ClusterUnavailable(call.sentence(f"answered with {what}", "check for a proxy between, and the URL"))


def parse_status(body: object) -> Status:
    """The Status object in a body (text or parsed JSON); an empty one where there is none."""
    if isinstance(body, (str, bytes)):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return Status()
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return Status()
    details = body.get("details")
    return Status(
        reason=str(body.get("reason") or ""),
        message=str(body.get("message") or ""),
        details=details if isinstance(details, dict) else {},
    )


def retry_after(error: ApiException, status: Status) -> timedelta | None:
    """How long the server asked us to wait, if it did: the header in seconds, or the Status' own field."""
    for text in ((error.headers or {}).get("Retry-After"), status.details.get("retryAfterSeconds")):
        seconds = str(text).strip() if text is not None else ""
        if seconds.isascii() and seconds.isdigit() and len(seconds) <= 6:
            return timedelta(seconds=int(seconds))
    return None


def quote(text: str) -> str:
    """Somebody else's words on one line, shortened."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST_QUOTE else flat[: _LONGEST_QUOTE - 1] + "…"
