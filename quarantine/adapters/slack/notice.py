"""A plain notice on Slack, about what concerns no single machine: a policy file that cannot be used.

It is found again by the key in its metadata, as the request for a swap is by its case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from quarantine.adapters.slack.blocks import plain
from quarantine.adapters.slack.mrkdwn import HEADER_LIMIT, TEXT_LIMIT, escape
from quarantine.adapters.slack.notifier import SLACK, SlackNotifier, connect

EVENT = "quarantine_notice"
MOST_LINES = 20  # of a notice; Slack takes fifty blocks
_FALLBACK = 1000


class SlackNotices(SlackNotifier):
    """Implements `ports.Notices`, in the channel of the settings: whose file it is, nobody knows."""

    def tell(self, key: str, title: str, lines: Sequence[str]) -> str:
        """Say it. The caller has looked it up before, if an earlier attempt is in doubt. Raises as `post`."""
        metadata = {"event_type": EVENT, "event_payload": {"notice": key, "cluster": self._cluster}}
        answer = self._call(
            "chat.postMessage",
            lambda: self._client.chat_postMessage(
                channel=self._channel,
                text=escape(f"{title}. {' '.join(lines)}", _FALLBACK),
                blocks=_blocks(title, lines),
                metadata=metadata,
                unfurl_links=False,
                unfurl_media=False,
                link_names=False,
                mrkdwn=False,
                parse="none",
            ),
        )
        return f"{self._channel}:{self._ts(answer, 'chat.postMessage')}"

    def _carries(self, message: Any, key: str) -> bool:
        metadata = message.get("metadata") if isinstance(message, Mapping) else None
        if not isinstance(metadata, Mapping) or metadata.get("event_type") != EVENT:
            return False
        payload = metadata.get("event_payload")
        return isinstance(payload, Mapping) and payload.get("notice") == key and payload.get("cluster") == self._cluster


def _blocks(title: str, lines: Sequence[str]) -> list[dict[str, Any]]:
    """All of it as plain text: a file's name or a fault that quotes it may look like markup."""
    more = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"And {more} more: see `quarantine status`."] if more > 0 else [])]
    return [
        {"type": "header", "text": plain(title, HEADER_LIMIT)},
        *({"type": "section", "text": plain(line, TEXT_LIMIT)} for line in shown),
        {"type": "context", "elements": [plain("Correct the file; it is taken up once it is sound.", TEXT_LIMIT)]},
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
    known = connect(token, channel, cluster=cluster, now=now, base_url=base_url, timeout=timeout)
    return SlackNotices(known._client, channel, cluster=cluster, now=now)  # noqa: SLF001  (of its own kind)
