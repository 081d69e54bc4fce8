"""A plain notice on Slack: a policy file that cannot be used, a case that waits for a person, an incident.

It is found again by the key in its metadata, as the request for a swap is by its case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from quarantine.adapters.slack.mrkdwn import HEADER_LIMIT, TEXT_LIMIT, escape, plain
from quarantine.adapters.slack.notifier import SLACK, client_of
from quarantine.adapters.slack.posts import Posts

MOST_LINES = 20  # of a notice; Slack takes fifty blocks
_FALLBACK = 1000


class SlackNotices(Posts):
    """Implements `ports.Notices`, in the channel of the settings: whose file it is, nobody knows."""

    EVENT = "quarantine_notice"
    KEY = "notice"

    def tell(self, key: str, title: str, lines: Sequence[str], advice: str = "") -> str:
        """Say it. The caller has looked it up before, if an earlier attempt is in doubt. Raises as `post`."""
        text = escape(f"{title}. {' '.join(lines)}", _FALLBACK)
        return self._send(self._channel, text, _blocks(title, lines, advice), key)


def _blocks(title: str, lines: Sequence[str], advice: str) -> list[dict[str, Any]]:
    """All of it as plain text: a file's name or a fault that quotes it may look like markup."""
    more = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"And {more} more: see `quarantine status`."] if more > 0 else [])]
    return [
        {"type": "header", "text": plain(title, HEADER_LIMIT)},
        *({"type": "section", "text": plain(line, TEXT_LIMIT)} for line in shown),
        *([{"type": "context", "elements": [plain(advice, TEXT_LIMIT)]}] if advice else []),
    ]


def connect_notices(
    token: str,
    channel: str,
    *,
    cluster: str,
    now: Callable[[], datetime],
    base_url: str = SLACK,
    timeout: timedelta = timedelta(seconds=10),
) -> SlackNotices:
    """As `notifier.connect`, and with its errors."""
    return SlackNotices(client_of(token, base_url, timeout), channel, cluster=cluster, now=now)
