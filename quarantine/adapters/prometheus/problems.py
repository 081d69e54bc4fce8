"""What went wrong between here and Prometheus, in the words of `FailureKind` and of one sentence."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPException, IncompleteRead, RemoteDisconnected

import requests
import urllib3.exceptions

from quarantine.core.model import FailureKind

_TOO_LATE = (TimeoutError, requests.Timeout, urllib3.exceptions.TimeoutError)
_NOT_CONNECTED = urllib3.exceptions.NewConnectionError
_NOT_HTTP = (HTTPException, urllib3.exceptions.ProtocolError)
_BAD_SETTING = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidHeader,
    requests.exceptions.InvalidProxyURL,
)


class Problem(Exception):
    """There is no answer. The sentence is: URL, `what`, semicolon, `advice`."""

    def __init__(self, kind: FailureKind, what: str, advice: str) -> None:
        super().__init__(f"{what}; {advice}")
        self.kind = kind
        self.what = what
        self.advice = advice

    def sentence(self, url: str) -> str:
        """For people."""
        return f"{url} {self.what}; {self.advice}."


class TooMuch(Problem):
    """The answer is larger than either side takes: a shorter stretch of time may do."""


def translate(error: Exception) -> Problem:
    """What requests, urllib3, ssl and the sockets under them say.

    They wrap one another in ways that change between versions, so the whole chain is searched, the most telling first.
    """
    causes = list(_chain(error))
    return _network(causes) or _protocol(causes) or _local(causes, error)


def _network(causes: list[BaseException]) -> Problem | None:
    # In this order: urllib3's NewConnectionError, whatever its cause, is a time-out by descent.
    found = next((words for words in map(_refused, causes) if words), None)
    if found is not None:
        return Problem(FailureKind.UNREACHABLE, *found)
    if any(isinstance(cause, _TOO_LATE) and not isinstance(cause, _NOT_CONNECTED) for cause in causes):
        return too_late(connected=not any(isinstance(c, requests.ConnectTimeout) for c in causes), limit=None)
    return None


def _refused(cause: BaseException) -> tuple[str, str] | None:
    match cause:
        case ssl.SSLCertVerificationError():
            return (
                f"shows a certificate that is not trusted ({cause.verify_message.rstrip('.')})",
                "set prometheus.ca_file to its authority, or correct the host name in prometheus.url",
            )
        case ssl.SSLError():
            return (
                f"cannot be spoken to over TLS ({reason(cause)})",
                "check https or http in prometheus.url, the certificates and prometheus.cert_file",
            )
        case socket.gaierror():
            return (
                f"has a host name that does not resolve ({reason(cause)})",
                "check prometheus.url and the cluster's DNS",
            )
        case ConnectionRefusedError():
            return "refuses the connection", "check that Prometheus runs and that prometheus.url is its address"
        case RemoteDisconnected() | ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
            return (
                "closed the connection before its answer was complete",
                "see the logs of Prometheus and of the proxy in front of it",
            )
    return None


def _protocol(causes: list[BaseException]) -> Problem | None:
    if any(isinstance(cause, IncompleteRead) for cause in causes):
        return truncated()
    if any(isinstance(cause, urllib3.exceptions.DecodeError) for cause in causes):
        return Problem(
            FailureKind.GARBLED,
            "sent an answer that cannot be decompressed",
            "see the proxy between here and Prometheus",
        )
    if any(isinstance(cause, _NOT_HTTP) for cause in causes):
        return Problem(
            FailureKind.GARBLED,
            "does not speak HTTP as it should",
            "check the port and http or https in prometheus.url",
        )
    return None


def _local(causes: list[BaseException], error: Exception) -> Problem:
    if any(isinstance(cause, _BAD_SETTING) for cause in causes):
        return Problem(FailureKind.MISCONFIGURED, "cannot be asked as it is set up", "check prometheus.url and headers")
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno is not None:
            where = f": {cause.filename}" if cause.filename else ""
            return Problem(
                FailureKind.MISCONFIGURED if cause.filename else FailureKind.UNREACHABLE,
                f"cannot be asked ({reason(cause)}{where})",
                "check the file" if cause.filename else "check the network and its policies between here and there",
            )
    if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
        # requests says so, with the path, of a certificate file that is not there
        return Problem(FailureKind.MISCONFIGURED, f"cannot be asked ({flat(str(error))})", "correct the setting")
    return Problem(
        FailureKind.UNREACHABLE,
        f"cannot be asked ({type(error).__name__})",
        "check the network between here and there",
    )


def truncated() -> Problem:
    """The answer ended before its end."""
    return Problem(
        FailureKind.GARBLED, "broke off in the middle of its answer", "see the proxy between here and Prometheus"
    )


def too_late(*, connected: bool, limit: float | None) -> Problem:
    """No complete answer in time; `limit` in seconds, where it is known."""
    within = f" within {limit:.3g} s" if limit is not None else " in time"
    if connected:
        advice = "make the query cheaper, give it more time in prometheus.timeout, or see what else loads the server"
        return Problem(FailureKind.TIMEOUT, f"did not finish its answer{within}", advice)
    advice = "check its address, the cluster's DNS and the network policies"
    return Problem(FailureKind.TIMEOUT, f"could not be connected to{within}", advice)


def flat(text: str, limit: int = 300) -> str:
    """Somebody else's words as part of our sentence: on one line, of bounded length, without the last full stop."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()).rstrip(".")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        cause = left.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        hidden = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
        left.extend(c for c in hidden if isinstance(c, BaseException))


def reason(error: OSError) -> str:
    """Why, in the system's or OpenSSL's few words."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or error.strerror or "failed").lower().replace("_", " ")
    return flat(error.strerror or type(error).__name__)
