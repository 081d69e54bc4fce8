"""The request for a swap as a Slack message, once per case, in the channel that a route or the settings name.

Slack has no idempotency key. The message carries the case in its metadata, and an ambiguous post is looked up by it
before it is made again. The SDK's own retries are off: they would post twice, and the cycle retries anyway.

The app's bot needs the scopes `chat:write` and `channels:history` (private channels: `groups:history`), and must be a
member of each channel.
"""

from __future__ import annotations

import http.client
import logging
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError
from slack_sdk.web import SlackResponse

from quarantine.adapters.slack.blocks import fallback, render
from quarantine.adapters.slack.errors import masked, translate
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, UsageError
from quarantine.core.letters import CaseReport

SLACK = "https://slack.com/api/"

_CHANNEL = re.compile(r"[CG][A-Z0-9]{2,}")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_URL = re.compile(r"https?://[\x21-\x5a\x5e-\x7e]+")  # no brackets, which urllib takes for an IPv6 address
_TS = re.compile(r"\d{1,12}\.\d{1,9}")
_PAGE = 200

# The SDK logs every failed call at error level, beside raising it; ours is the one sentence about it.
_SILENT = logging.getLogger(f"{__name__}.sdk")
_SILENT.setLevel(logging.CRITICAL + 1)


class SlackNotifier:
    """Implements `ports.Notifier`. A message's reference is `channel:ts`."""

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

    def find(self, key: str, channel: str = "") -> str | None:
        """The newest message of this case and cluster that is younger than `look_back`: in `channel`, or in our own.

        Raises NotifierUnavailable where a channel has more messages than are read, since then nobody knows.
        """
        for where in dict.fromkeys((self._routed(channel), self._channel)):
            if (ref := self._find(key, where)) is not None:
                return ref
        return None

    def _find(self, key: str, channel: str) -> str | None:
        oldest = f"{(self._now() - self._look_back).timestamp():.6f}"
        cursor = ""
        for _ in range(self._pages):
            messages, cursor = self._history(channel, oldest, cursor)
            for message in messages:
                if self._carries(message, key):
                    return f"{channel}:{self._ts(message, 'conversations.history')}"
            if not cursor:
                return None
        raise NotifierUnavailable(
            f"could not look through Slack channel {channel}: it has more messages within "
            f"{self._look_back.days} days than {self._pages} pages of {_PAGE}; use a quieter channel"
        )

    def post(self, report: CaseReport, ticket: str) -> str:
        """Ask for the swap. The caller has looked it up before, if an earlier post is in doubt."""
        channel = self._routed(report.channel)
        blocks, text = render(report, ticket), fallback(report, ticket)
        return self._send(channel, text, blocks, report.key)

    def _send(self, channel: str, text: str, blocks: Sequence[dict[str, Any]], key: str) -> str:
        """Post what `find` finds again by its key."""
        metadata = {"event_type": self.EVENT, "event_payload": {self.KEY: key, "cluster": self._cluster}}
        answer = self._call(
            "chat.postMessage",
            lambda: self._client.chat_postMessage(
                channel=channel,
                text=text,
                blocks=blocks,
                metadata=metadata,
                unfurl_links=False,
                unfurl_media=False,
                link_names=False,
                mrkdwn=False,
                parse="none",
            ),
        )
        return f"{channel}:{self._ts(answer, 'chat.postMessage')}"

    def check(self) -> None:
        """Whether Slack takes the token and the bot may read the channel: for start-up. Raises as `post`."""
        self._call("auth.test", self._client.auth_test)
        self._history(self._channel, f"{self._now().timestamp():.6f}", "")

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
        answer = self._call(
            "conversations.history",
            lambda: self._client.conversations_history(
                channel=channel, oldest=oldest, limit=_PAGE, cursor=cursor or None, include_all_metadata=True
            ),
        )
        messages, metadata = answer.get("messages"), answer.get("response_metadata")
        following = metadata.get("next_cursor", "") if isinstance(metadata, Mapping) else ""
        whole = isinstance(following, str) and bool(following or not answer.get("has_more"))
        if not isinstance(messages, list) or not whole:
            raise self._garbled("conversations.history", "a whole history")
        return messages, following

    def _carries(self, message: Any, key: str) -> bool:
        metadata = message.get("metadata") if isinstance(message, Mapping) else None
        if not isinstance(metadata, Mapping) or metadata.get("event_type") != self.EVENT:
            return False
        payload = metadata.get("event_payload")
        return isinstance(payload, Mapping) and payload.get(self.KEY) == key and payload.get("cluster") == self._cluster

    def _call(self, method: str, call: Callable[[], SlackResponse]) -> Mapping[str, Any]:
        where = masked(f"{self._client.base_url}{method}")
        try:
            data = call().data
        # Besides its own errors, the SDK lets through the network's, and those of parsing what is not Slack's JSON.
        except (SlackClientError, OSError, http.client.HTTPException, ValueError, LookupError, AttributeError) as error:
            told = translate(error, where)
            _let_go(error)
            if self._client.token and self._client.token in repr(error):
                raise told from None
            raise told from error
        if not isinstance(data, Mapping):
            raise self._garbled(method, "Slack's JSON")
        return data

    def _ts(self, message: Mapping[str, Any], method: str) -> str:
        ts = message.get("ts")
        if not isinstance(ts, str) or not _TS.fullmatch(ts):
            raise self._garbled(method, "the message's ts")
        return ts

    def _garbled(self, method: str, missing: str) -> NotifierUnavailable:
        where = masked(f"{self._client.base_url}{method}")
        return NotifierUnavailable(f"Slack at {where} answered without {missing}; look for a proxy in between")


def _let_go(error: BaseException | None) -> None:
    """Close what the SDK left open: after a broken answer its frames, kept by the traceback, hold the response.

    They hold the Authorization header too, which a log that shows local variables would print.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def connect(
    token: str,
    channel: str,
    *,
    cluster: str,
    now: Callable[[], datetime],
    base_url: str = SLACK,
    timeout: timedelta = timedelta(seconds=10),
    look_back: timedelta = timedelta(days=7),
) -> SlackNotifier:
    """A notifier of its own client. Nothing is asked yet; `check` does. `timeout` is for each wait on the network.

    Raises NotifierRefused on what cannot be a token, UsageError on what is no channel's id or no URL.
    """
    client = client_of(token, base_url, timeout)
    return SlackNotifier(client, channel, cluster=cluster, now=now, look_back=look_back)


def client_of(token: str, base_url: str, timeout: timedelta) -> WebClient:
    """A client that does not retry. Raises as `connect`."""
    if not _URL.fullmatch(base_url):
        raise UsageError(f"the base URL given for Slack is no URL: it must look like {SLACK}")
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise NotifierRefused(
            "the Slack token is empty or holds characters that no token has: give a bot token (xoxb-…)"
        )
    client = WebClient(
        token=token,
        base_url=base_url,
        timeout=max(1, round(timeout.total_seconds())),
        retry_handlers=[],
        logger=_SILENT,
    )
    # The SDK takes HTTPS_PROXY and ignores NO_PROXY; left to itself, urllib heeds both.
    client.proxy = None
    return client
