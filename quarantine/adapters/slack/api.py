"""One call of Slack's Web API by the SDK: its answer as a mapping, or our error, with no token in either."""

from __future__ import annotations

import http.client
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError, SlackRequestError
from slack_sdk.web import SlackResponse
from slack_sdk.webhook import WebhookClient

from quarantine.adapters.slack.errors import masked, translate
from quarantine.core.errors import NotifierRefused, NotifierUnavailable

_SILENT = logging.getLogger(f"{__name__}.sdk")
_SILENT.setLevel(logging.CRITICAL + 1)  # it would log URLs that are secrets


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """None of Slack's methods redirects: where one does, a proxy stands in between, and the answer is an error."""


class Client(WebClient):
    """The SDK's, which follows no redirect: urllib would send the token along, to whatever host it leads to."""

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        if not url.startswith(("https://", "http://")):
            raise SlackRequestError("Invalid URL detected")
        opener = build_opener(_NoRedirects, HTTPSHandler(context=self.ssl))
        with opener.open(req, timeout=self.timeout) as answer:
            charset = answer.headers.get_content_charset() or "utf-8"
            return {"status": answer.status, "headers": answer.headers, "body": answer.read().decode(charset)}


def asked(client: WebClient, method: str, call: Callable[[], SlackResponse]) -> Mapping[str, Any]:
    """What Slack answers to `call`, which is of `method`. Raises NotifierUnavailable and NotifierRefused."""
    where = masked(f"{client.base_url}{method}")
    try:
        data = call().data
    # Besides its own errors, the SDK lets through the network's, and those of parsing what is not Slack's JSON.
    except (SlackClientError, OSError, http.client.HTTPException, ValueError, LookupError, AttributeError) as error:
        told = translate(error, where)
        let_go(error)
        raise told from None  # the SDK's errors quote what was sent, tokens among it
    if not isinstance(data, Mapping):
        raise garbled(client, method, "Slack's JSON")
    return data


def reply(url: str, text: str, blocks: list[dict[str, Any]], *, timeout: int) -> None:
    """Answer at a response URL, to the one who acted alone. Raises as `asked`. The URL is a secret: none tells it."""
    client = WebhookClient(url, timeout=timeout, retry_handlers=[], logger=_SILENT)
    client.proxy = None  # the SDK takes HTTPS_PROXY and ignores NO_PROXY; left to itself, urllib heeds both
    try:
        answer = client.send(text=text, blocks=blocks, response_type="ephemeral")
    except (SlackClientError, OSError, http.client.HTTPException, ValueError) as error:
        let_go(error)
        raise NotifierUnavailable(f"could not answer a command on Slack ({type(error).__name__})") from None
    if answer.status_code != 200:
        raise NotifierRefused(f"Slack took no answer to a command (status {answer.status_code})")


def garbled(client: WebClient, method: str, missing: str) -> NotifierUnavailable:
    """The error for an answer that is not what Slack documents."""
    where = masked(f"{client.base_url}{method}")
    return NotifierUnavailable(f"Slack at {where} answered without {missing}; look for a proxy in between")


def let_go(error: BaseException | None) -> None:
    """Close what the SDK left open: after a broken answer its frames, kept by the traceback, hold the response.

    They hold the Authorization header too, which a log that shows local variables would print.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
