"""Messages that are found again by the key in their metadata, in one channel or in those that routes name.

Slack has no idempotency key: an ambiguous post is looked up by its key before it is made again. The SDK's own retries
are off: they would post twice, and the cycle retries anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from slack_sdk import WebClient
from slack_sdk.web import SlackResponse

from quarantine.adapters.slack.api import asked, garbled
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, UsageError

_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,}")
_TS = re.compile(r"\d{1,12}\.\d{1,9}")
_PAGE = 200
_FRESH = timedelta(seconds=5)  # for so long a history that was read is taken for the history that is: see `find`


@dataclass(frozen=True, slots=True)
class _Read:
    """What of ours a channel held: by key, the reference of the newest message."""

    at: datetime
    held: dict[str, str]


class Posts:
    """A message's reference is `channel:ts`."""

    EVENT = "quarantine_case"  # in a message's metadata: what it is about,
    KEY = "case"  # and under which name its key stands there

    def __init__(
        self,
        client: WebClient,
        channel: str,
        *,
        cluster: str,
        now: Callable[[], datetime],
        look_back: timedelta = timedelta(days=7),
        pages: int = 50,
    ) -> None:
        """`channel` is an id: history cannot be read by name. `client` must not retry by itself (see `connect`).

        `look_back` bounds how old a message `find` can find: longer than Slack may be away while a post is in doubt.
        `pages` of 200 messages are read for it at most. Raises UsageError on a channel that is no id.
        """
        if not _CHANNEL.fullmatch(channel):
            raise UsageError(
                f"{channel!r} is no channel id of Slack: give the id (such as C0123ABCD, at the end of the channel's "
                "details), not the name"
            )
        if client.retry_handlers:
            raise ValueError("the WebClient has retry handlers: they would repeat a post whose answer was lost")
        self._client = client
        self._channel = channel
        self._cluster = cluster
        self._now = now
        self._look_back = look_back
        self._pages = pages
        self._read: dict[str, _Read] = {}

    def find(self, key: str, channel: str = "") -> str | None:
        """The newest message with this key and of this cluster that is younger than `look_back`: in `channel`, or in
        our own.

        Thirty cases of one cycle are not thirty readings of one history: what was read is kept for a few seconds, with
        what was posted since, and forgotten once a post is in doubt. Raises NotifierUnavailable where a channel has
        more messages than are read, since then nobody knows.
        """
        for where in dict.fromkeys((self._routed(channel), self._channel)):
            if (ref := self._held(where).get(key)) is not None:
                return ref
        return None

    def check(self) -> None:
        """Whether Slack takes the token and the bot may read the channel: for start-up. Raises as `find`."""
        self._call("auth.test", self._client.auth_test)
        self._history(self._channel, f"{self._now().timestamp():.6f}", "")

    def _held(self, channel: str) -> Mapping[str, str]:
        now = self._now()
        known = self._read.get(channel)
        if known is None or abs(now - known.at) >= _FRESH:
            self._read.pop(channel, None)
            known = self._read[channel] = _Read(now, self._all(channel, now))
        return known.held

    def _all(self, channel: str, now: datetime) -> dict[str, str]:
        """By key, what a channel holds of ours."""
        oldest = f"{(now - self._look_back).timestamp():.6f}"
        cursor, found = "", dict[str, str]()
        for _ in range(self._pages):
            messages, cursor = self._history(channel, oldest, cursor)
            for message in messages:
                if (key := self._key(message)) is not None and key not in found:
                    found[key] = f"{channel}:{self._ts(message, 'conversations.history')}"
            if not cursor:
                return found
        raise NotifierUnavailable(
            f"could not look through Slack channel {channel}: it has more messages within "
            f"{self._look_back.days} days than {self._pages} pages of {_PAGE}; use a quieter channel"
        )

    def _send(
        self,
        channel: str,
        text: str,
        blocks: Sequence[dict[str, Any]],
        key: str,
    ) -> str:
        """Post what `find` finds again by its key."""
        metadata = {"event_type": self.EVENT, "event_payload": {self.KEY: key, "cluster": self._cluster}}
        known = self._read.pop(channel, None)  # should it fail, nobody knows what the channel holds
        ref = self._post(channel, text, blocks, metadata)
        if known is not None:
            self._read[channel] = _Read(known.at, {**known.held, key: ref})
        return ref

    def _post(
        self,
        channel: str,
        text: str,
        blocks: Sequence[dict[str, Any]],
        metadata: Mapping[str, Any],
        thread: str | None = None,
    ) -> str:
        answer = self._call(
            "chat.postMessage",
            lambda: self._client.chat_postMessage(
                channel=channel,
                text=text,
                blocks=blocks,
                metadata=dict(metadata),
                thread_ts=thread,
                unfurl_links=False,
                unfurl_media=False,
                link_names=False,
                mrkdwn=False,
                parse="none",
            ),
        )
        return f"{channel}:{self._ts(answer, 'chat.postMessage')}"

    def _routed(self, channel: str) -> str:
        """The channel that a route names, or our own where none does."""
        if channel and not _CHANNEL.fullmatch(channel):
            raise NotifierRefused(
                f"a route of the fleet file names {channel!r}, which is no channel id of Slack: give the id (such as "
                "C0123ABCD, at the end of the channel's details), since history cannot be read by name"
            )
        return channel or self._channel

    def _history(self, channel: str, oldest: str, cursor: str) -> tuple[list[Any], str]:
        """One page of messages, and the cursor of the next page, empty where this is the last."""
        return self._page(
            "conversations.history",
            lambda: self._client.conversations_history(
                channel=channel, oldest=oldest, limit=_PAGE, cursor=cursor or None, include_all_metadata=True
            ),
        )

    def _replies(self, channel: str, ts: str, cursor: str) -> tuple[list[Any], str]:
        """As `_history`, of a message and what answers it, oldest first."""
        return self._page(
            "conversations.replies",
            lambda: self._client.conversations_replies(
                channel=channel, ts=ts, limit=_PAGE, cursor=cursor or None, include_all_metadata=True
            ),
        )

    def _page(self, method: str, call: Callable[[], SlackResponse]) -> tuple[list[Any], str]:
        answer = self._call(method, call)
        messages, metadata = answer.get("messages"), answer.get("response_metadata")
        following = metadata.get("next_cursor", "") if isinstance(metadata, Mapping) else ""
        whole = isinstance(following, str) and bool(following or not answer.get("has_more"))
        if not isinstance(messages, list) or not whole:
            what = "a whole history" if method == "conversations.history" else "a whole thread"
            raise garbled(self._client, method, what)
        return messages, following

    def _key(self, message: Any) -> str | None:
        """What a message of ours is about; None where it is none of ours."""
        metadata = message.get("metadata") if isinstance(message, Mapping) else None
        if not isinstance(metadata, Mapping) or metadata.get("event_type") != self.EVENT:
            return None
        payload = metadata.get("event_payload")
        if not isinstance(payload, Mapping) or payload.get("cluster") != self._cluster:
            return None
        key = payload.get(self.KEY)
        return key if isinstance(key, str) else None

    def _call(self, method: str, call: Callable[[], SlackResponse]) -> Mapping[str, Any]:
        return asked(self._client, method, call)

    def _ts(self, message: Mapping[str, Any], method: str) -> str:
        ts = message.get("ts")
        if not isinstance(ts, str) or not _TS.fullmatch(ts):
            raise garbled(self._client, method, "the message's ts")
        return ts


def parted(ref: str) -> tuple[str, str]:
    """The channel and the ts of a reference. Raises NotifierRefused for what is none."""
    channel, _, ts = ref.partition(":")
    if not _CHANNEL.fullmatch(channel) or not _TS.fullmatch(ts):
        raise NotifierRefused(f"{ref!r} is no reference of a Slack message, which would be a channel's id and a time")
    return channel, ts
