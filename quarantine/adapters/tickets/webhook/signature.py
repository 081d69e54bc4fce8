"""How requests and call-backs are signed: HMAC-SHA256 over the time, what is asked, and the body.

A request is signed as `v1:<seconds>:<METHOD>:<path and query>:<body>`, a call-back as `v1:<seconds>:callback:<body>`,
so that neither can be shown for the other. The time is in the header, in seconds since 1970; what is older or newer
than WINDOW is refused. Within it a copy of a request can be sent again by whoever has read it: that changes nothing,
since everything that changes anything has a key.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from datetime import datetime, timedelta

from requests import PreparedRequest
from requests.auth import AuthBase

from quarantine.core.errors import TicketsRefused

TIMESTAMP = "Quarantine-Timestamp"
SIGNATURE = "Quarantine-Signature"
WINDOW = timedelta(minutes=5)
SHORTEST_SECRET = 32  # characters: 16 random bytes in hexadecimal
_SECONDS = re.compile(r"[0-9]{1,12}")


class Signed(AuthBase):
    """Signs a request as it goes out. Raises TicketsRefused where the secret is too short to be one."""

    def __init__(self, secret: str, now: Callable[[], datetime]) -> None:
        if len(secret) < SHORTEST_SECRET:
            raise TicketsRefused(f"the webhook's secret has less than {SHORTEST_SECRET} characters: make a longer one")
        self._secret = secret
        self._now = now

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        seconds = int(self._now().timestamp())
        body = r.body.encode() if isinstance(r.body, str) else r.body or b""
        r.headers[TIMESTAMP] = str(seconds)
        r.headers[SIGNATURE] = request_signature(self._secret, seconds, r.method or "", r.path_url, body)
        return r


def request_signature(secret: str, seconds: int, method: str, target: str, body: bytes) -> str:
    """Of what we ask of the receiver. `target`: the path and the query as they are sent."""
    return _signature(secret, f"v1:{seconds}:{method}:{target}:", body)


def callback_signature(secret: str, seconds: int, body: bytes) -> str:
    """Of what the receiver tells us."""
    return _signature(secret, f"v1:{seconds}:callback:", body)


def fresh(timestamp: str, now: datetime) -> int | None:
    """The seconds that the header says; None where it says none, or none within WINDOW of `now`."""
    if not _SECONDS.fullmatch(timestamp):
        return None
    return int(timestamp) if abs(now.timestamp() - int(timestamp)) <= WINDOW.total_seconds() else None


def matches(said: str, signature: str) -> bool:
    """Whether one of the signatures that the header has, separated by commas, is this one."""
    known = [hmac.compare_digest(one.strip().encode(), signature.encode()) for one in said.split(",")[:10]]
    return any(known)


def _signature(secret: str, before: str, body: bytes) -> str:
    return "v1=" + hmac.new(secret.encode(), before.encode() + body, "sha256").hexdigest()
