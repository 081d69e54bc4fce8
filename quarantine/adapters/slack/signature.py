"""The other way than Socket Mode: Slack calls a URL of ours, and signs what it sends. Bytes in, bytes out, no HTTP.

A payload that is replayed within the five minutes of its signature is one that was delivered twice: see `desk`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from urllib.parse import parse_qs

from quarantine.adapters.slack.interactions import COMMANDS, INTERACTIVE, LONGEST_PAYLOAD

TIMESTAMP, SIGNATURE = "x-slack-request-timestamp", "x-slack-signature"
LONGEST_BODY = 3 * LONGEST_PAYLOAD  # bytes: as a form, most of JSON's signs take three
_STAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNED = re.compile(r"v0=[0-9a-f]{64}")
_MOST_FIELDS = 50
_LASTS = timedelta(minutes=5)


class Door:
    """Answers one request of Slack's: `status, body = door(headers, body)`."""

    def __init__(
        self, secret: Callable[[], str], offer: Callable[[str, object], bool], *, now: Callable[[], datetime]
    ) -> None:
        """`secret` gives the app's signing secret, anew for each request, so that a rotated one counts.

        `offer` as `Backlog.offer`.
        """
        self._secret = secret
        self._offer = offer
        self._now = now

    def __call__(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer, in Slack's time: 200 says that we have it. Raises what `secret` raises."""
        if len(body) > LONGEST_BODY:
            return 413, b"too long"
        if not signed(self._secret(), headers, body, self._now()):
            return 401, b"not signed by Slack, or more than five minutes ago"
        try:
            fields = _fields(body)
            if "ssl_check" in fields:
                return 200, b""
            kind, payload = (INTERACTIVE, json.loads(fields["payload"])) if "payload" in fields else (COMMANDS, fields)
        except (ValueError, RecursionError):
            return 400, b"not a form as Slack sends it"
        if not self._offer(kind, payload):
            return 503, b"busy"
        return 200, b""


def signed(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Whether the body has Slack's signature, made within five minutes of `now`. An empty secret signs nothing."""
    given = {name.lower(): value for name, value in headers.items()}
    stamp, signature = given.get(TIMESTAMP, ""), given.get(SIGNATURE, "")
    if not secret or not _STAMP.fullmatch(stamp) or not _SIGNED.fullmatch(signature):
        return False
    if abs(now.timestamp() - int(stamp)) > _LASTS.total_seconds():
        return False
    made = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={made}", signature)


def _fields(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises ValueError, for one that comes twice too."""
    found = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    if any(len(values) != 1 for values in found.values()):
        raise ValueError("a field comes twice")
    return {name: values[0] for name, values in found.items()}
