"""The messages about cases, in the channels that routes or the settings name: posted once, kept up to date in place.

The app's bot needs the scopes `chat:write`, `channels:history` (private channels: `groups:history`) and, for pictures,
`files:write`; and it must be a member of each channel. See docs/slack.md.
"""

from __future__ import annotations

import http.client
import logging
import re
import urllib.request
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from slack_sdk import WebClient

from quarantine.adapters.slack.api import Client, garbled
from quarantine.adapters.slack.blocks import fallback, render
from quarantine.adapters.slack.folded import fallback_of, render_fold
from quarantine.adapters.slack.posts import Posts, parted
from quarantine.adapters.slack.replies import attached_in, metadata_of, render_reply, told_in
from quarantine.core.cards import Card, Fold, Reply, Thread
from quarantine.core.errors import NotifierRefused, NotifierUnavailable, UsageError
from quarantine.core.tickets import Attachment

SLACK = "https://slack.com/api/"

_TOKEN = re.compile(r"[\x21-\x7e]+")
_URL = re.compile(r"https?://[\x21-\x5a\x5e-\x7e]+")  # no brackets, which urllib takes for an IPv6 address
_LONGEST_ALT = 1000
_THREAD_PAGES = 10  # of 200 replies

# The SDK logs every failed call at error level, beside raising it; ours is the one sentence about it.
_SILENT = logging.getLogger(f"{__name__}.sdk")
_SILENT.setLevel(logging.CRITICAL + 1)


class SlackNotifier(Posts):
    """Implements `ports.Notifier`."""

    def __init__(
        self,
        client: WebClient,
        channel: str,
        *,
        cluster: str,
        now: Callable[[], datetime],
        look_back: timedelta = timedelta(days=7),
        pages: int = 50,
        buttons: bool = False,
    ) -> None:
        """As `Posts`. `buttons`: somebody listens to what is clicked; else there are none."""
        super().__init__(client, channel, cluster=cluster, now=now, look_back=look_back, pages=pages)
        self._buttons = buttons

    @property
    def home(self) -> str:
        """The settings' channel."""
        return self._channel

    def post(self, card: Card) -> str:
        """Tell of a case. The caller has looked it up before, if an earlier post is in doubt."""
        channel = self._routed(card.report.channel)
        text, blocks = self._rendered(card)
        return self._send(channel, text, blocks, card.report.key)

    def fold(self, fold: Fold) -> str:
        """Tell of several cases in one message. As `post`."""
        text, blocks = self._rendered(fold)
        return self._send(self._routed(fold.channel), text, blocks, fold.key)

    def show(self, ref: str, what: Card | Fold) -> None:
        """What the message says from now on. Its metadata stays, since none is given: it is found as before."""
        channel, ts = parted(ref)
        text, blocks = self._rendered(what)
        self._call(
            "chat.update",
            lambda: self._client.chat_update(
                channel=channel, ts=ts, text=text, blocks=blocks, link_names=False, parse="none"
            ),
        )

    def thread(self, ref: str) -> Thread:
        """What was told and attached there. Raises NotifierUnavailable where it has more replies than are read."""
        channel, ts = parted(ref)
        told, files, cursor = dict[str, str](), set[str](), ""
        for _ in range(_THREAD_PAGES):
            messages, cursor = self._replies(channel, ts, cursor)
            for message in messages:
                told.update(told_in(message, self._cluster))
                files |= attached_in(message)
            if not cursor:
                return Thread(told, frozenset(files))
        raise NotifierUnavailable(f"could not look through the thread of Slack message {ref}: it has too many replies")

    def tell(self, ref: str, reply: Reply) -> None:
        """Add to the thread. The caller has looked into it before, if an earlier reply is in doubt."""
        channel, ts = parted(ref)
        text, blocks = render_reply(reply)
        self._post(channel, text, blocks, metadata_of(reply, self._cluster), ts)

    def attach(self, ref: str, picture: Attachment, text: str) -> None:
        """Add a picture to the thread; as `tell`. Bytes whose upload is not completed are thrown away by Slack."""
        channel, ts = parted(ref)
        answer = self._call(
            "files.getUploadURLExternal",
            lambda: self._client.files_getUploadURLExternal(
                filename=picture.name, length=len(picture.content), alt_txt=text[:_LONGEST_ALT]
            ),
        )
        url, file = answer.get("upload_url"), answer.get("file_id")
        if not isinstance(url, str) or not isinstance(file, str):
            raise garbled(self._client, "files.getUploadURLExternal", "a URL for the file")
        self._put(url, picture)
        self._call(
            "files.completeUploadExternal",
            lambda: self._client.files_completeUploadExternal(
                files=[{"id": file, "title": picture.name}],
                channel_id=channel,
                thread_ts=ts,
                initial_comment=f"{picture.name}: the evidence as it was recorded",
            ),
        )

    def _put(self, url: str, picture: Attachment) -> None:
        """The bytes. The URL is a secret by itself, and no token goes with them."""
        where = f"{urlsplit(url).scheme}://{urlsplit(url).hostname}"
        if urlsplit(url).scheme != urlsplit(self._client.base_url).scheme:
            raise NotifierRefused(f"Slack wants a file put to {where[:100]}, which is not where files are put")
        request = urllib.request.Request(  # noqa: S310  (of the API's own scheme, as was seen to)
            url, data=picture.content, method="POST", headers={"Content-Type": picture.media_type}
        )
        try:
            with urllib.request.urlopen(request, timeout=self._client.timeout) as answer:  # noqa: S310
                answer.read(1000)
        except HTTPError as error:
            status = error.code
            error.close()
            said = f"Slack took no file at {where[:100]} (status {status})"
            if 400 <= status < 500 and status != 429:
                raise NotifierRefused(f"{said}: see what is allowed to be uploaded to the workspace") from None
            raise NotifierUnavailable(f"{said}; a later cycle tries again") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotifierUnavailable(
                f"could not put a file to {where[:100]} ({type(error).__name__}); a later cycle tries again"
            ) from None

    def _rendered(self, what: Card | Fold) -> tuple[str, Sequence[dict[str, Any]]]:
        if isinstance(what, Card):
            return fallback(what), render(what, buttons=self._buttons)
        return fallback_of(what), render_fold(what, buttons=self._buttons)


def connect(
    token: str,
    channel: str,
    *,
    cluster: str,
    now: Callable[[], datetime],
    base_url: str = SLACK,
    timeout: timedelta = timedelta(seconds=10),
    look_back: timedelta = timedelta(days=7),
    buttons: bool = False,
) -> SlackNotifier:
    """A notifier of its own client. Nothing is asked yet; `check` does. `timeout` is for each wait on the network.

    Raises NotifierRefused on what cannot be a token, UsageError on what is no channel's id or no URL.
    """
    client = client_of(token, base_url, timeout)
    return SlackNotifier(client, channel, cluster=cluster, now=now, look_back=look_back, buttons=buttons)


def client_of(token: str, base_url: str, timeout: timedelta) -> WebClient:
    """A client that does not retry. Raises as `connect`."""
    if not _URL.fullmatch(base_url):
        raise UsageError(f"the base URL given for Slack is no URL: it must look like {SLACK}")
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise NotifierRefused(
            "the Slack token is empty or holds characters that no token has: give a bot token (xoxb-…)"
        )
    client = Client(
        token=token,
        base_url=base_url,
        timeout=max(1, round(timeout.total_seconds())),
        retry_handlers=[],
        logger=_SILENT,
    )
    # The SDK takes HTTPS_PROXY and ignores NO_PROXY; left to itself, urllib heeds both.
    client.proxy = None
    return client
