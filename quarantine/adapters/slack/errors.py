"""What Slack and the way to it say when it does not work, in our words. No token ever enters a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from slack_sdk.errors import SlackApiError

from quarantine.adapters.slack.mrkdwn import one_line
from quarantine.core.errors import NotifierRefused, NotifierUnavailable
from quarantine.core.marks import shorten

_NEW_TOKEN = "give the controller a valid bot token of the app (xoxb-…)"  # noqa: S105  (a sentence)
_WHAT_TO_DO = {
    "invalid_auth": _NEW_TOKEN,
    "not_authed": _NEW_TOKEN,
    "token_revoked": _NEW_TOKEN,
    "token_expired": _NEW_TOKEN,
    "account_inactive": _NEW_TOKEN,
    "channel_not_found": "check the channel's id, and invite the bot if the channel is private",
    "not_in_channel": "invite the bot to the channel",
    "is_archived": "unarchive the channel or name another",
    "missing_scope": "grant the scope to the app and install it again",
    "no_permission": "let the bot post in this channel",
    "restricted_action": "let the bot post in this channel",
}
_TRANSIENT = frozenset(
    {
        *("ratelimited", "rate_limited", "message_limit_exceeded"),
        "invalid_cursor",  # the next look begins at the first page
        *("internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"),
    }
)
_TOKEN = re.compile(r"\b(?:xox[a-z]|xapp)-[\w-]+")
_LONGEST_WAIT = timedelta(days=1)


def translate(error: Exception, where: str) -> NotifierUnavailable | NotifierRefused:
    """Our error for one of the SDK's or of the network's. `where` is the method's masked URL."""
    if not isinstance(error, SlackApiError):
        why = one_line(str(getattr(error, "reason", "") or error)) if isinstance(error, OSError) else ""
        said = f"{type(error).__name__}: {shorten(why, 200)}" if why else type(error).__name__
        return NotifierUnavailable(
            f"could not get an answer from Slack at {where} ({said}); the message may or may not be there: "
            "check the network, the next cycle looks and tries again"
        )
    response = error.response
    status: int = getattr(response, "status_code", 0)
    data = getattr(response, "data", None)
    named = data.get("error") if isinstance(data, Mapping) else None
    code = named if isinstance(named, str) else ""
    if status == 429 or code in _TRANSIENT:
        wait = _retry_after(getattr(response, "headers", {}) or {})
        told = f"; it asks to wait {int(wait.total_seconds())} s" if wait else ""
        return NotifierUnavailable(
            f"Slack at {where} is busy ({_word(code, status)}){told}; a later cycle tries again", retry_after=wait
        )
    if not _is_word(code):
        return NotifierUnavailable(
            f"Slack at {where} answered status {status} without Slack's JSON; "
            "if this lasts, look for a proxy in between, and at Slack's status page"
        )
    if status >= 500:
        return NotifierUnavailable(f"Slack at {where} answered status {status} ({code}); a later cycle tries again")
    return NotifierRefused(
        f"Slack at {where} answered {code}{_detail(data)}: {_WHAT_TO_DO.get(code, 'see the docs of the method')}"
    )


def masked(url: str) -> str:
    """The URL without a user, a password or a query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _detail(data: Any) -> str:
    """Which scope is missing, or which block is wrong, where Slack tells."""
    if needed := data.get("needed"):
        return f" (needs {shorten(_without_tokens(one_line(str(needed))), 100)})"
    metadata = data.get("response_metadata")
    messages = metadata.get("messages") if isinstance(metadata, Mapping) else None
    return (
        f" ({shorten(_without_tokens(one_line('; '.join(map(str, messages)))), 200)})"
        if isinstance(messages, list)
        else ""
    )


def _without_tokens(said: str) -> str:
    """A proxy in between may say all that it was sent."""
    return _TOKEN.sub("***", said)


def _word(code: str, status: int) -> str:
    return code if _is_word(code) else f"status {status}"


def _is_word(code: str) -> bool:
    """Slack's error codes are words; where the answer was no JSON, the SDK puts a sentence there."""
    return code.replace("_", "").isalnum() and code.isascii() and len(code) <= 80


def _retry_after(headers: Mapping[str, Any]) -> timedelta | None:
    value = next((v for name, v in headers.items() if name.lower() == "retry-after"), None)
    text = str(value[0] if isinstance(value, list) and value else value).strip()
    if not text.isdecimal() or len(text) > 9:
        return None
    return min(timedelta(seconds=int(text)), _LONGEST_WAIT)
