"""JSON over HTTPS with a vendor's API: one try within bounds, and what went wrong said in the port's errors.

The answer counts only whole: cut off, too long or not JSON, it is an answer that did not come. A request that may have
changed something (anything but a GET) and has no such answer raises the port's `uncertain`; what surely was not done
raises `unavailable`, and a definite no `refused`. Secrets are in no error, and no error has a cause that tells one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from threading import Timer
from typing import NoReturn
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from quarantine.adapters.exchange import CURRENT, BreakableAdapter, Exchange
from quarantine.adapters.web.patience import LIMITED, retry_after
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.marks import shorten

WAIT = 10.0  # seconds for the connection, and for each piece of the answer
WHOLE = 30.0  # seconds for all requests of one call of the port
LARGEST = 16 * 1024 * 1024  # bytes of an answer: a page of a hundred of GitHub's longest bodies fits
_SHORTEST = 6  # characters of a secret that is looked for in an answer: a shorter one is in many a word
_SAID = 200  # characters of the far side's own words in an error


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with a status below 300, or one of those the caller said it knows."""

    status: int
    headers: Mapping[str, str]  # looked up without regard to case
    body: object  # what the JSON says; None where the body is empty
    links: Mapping[str, str]  # of the Link header: relation to URL


@dataclass(frozen=True, slots=True)
class Errors:
    """What a port says of what went wrong."""

    unavailable: type[Unavailable]  # nothing was done
    uncertain: type[Unavailable]  # it may have been done
    refused: type[Refused]


class Web:
    """One system's API. Nothing is kept between calls: no cookie, no connection, no secret."""

    def __init__(
        self,
        base: str,
        authorization: Callable[[], str],
        *,
        name: str,
        errors: Errors,
        headers: Mapping[str, str] | None = None,
        now: Callable[[], datetime],
        wait: float = WAIT,
        whole: float = WHOLE,
        authorize: Callable[[str], AuthBase] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """`base` as `base_url` gives it. `name`: the system's, for errors. `ca_file`: authorities, if not the usual.

        `authorization` gives the header of that name, anew for each call; empty: none is sent. `authorize`: for systems
        that want more than the header: what is made of the secret that `authorization` gives, and changes each request
        as it goes out.
        """
        self.base = base
        self.name = name
        self.now = now
        self.wait = wait
        self.whole = whole
        self.headers = {"Accept": "application/json", "User-Agent": "quarantine", **(headers or {})}
        self.authorization = authorization
        self.authorize = authorize or _Header
        self.errors = errors
        self.ca_file = ca_file

    def call(self, doing: str, *, secrets: Sequence[str] = ()) -> Call:
        """The requests of one call of the port; together they have `whole` seconds. `doing`: for errors, "find a …".

        `secrets`: what is sent elsewhere than in the header, and must be in no error either.
        """
        return Call(self, doing, self.authorization(), secrets)


class Call:
    """Requests that share one bound of time."""

    def __init__(self, web: Web, doing: str, authorization: str, secrets: Sequence[str] = ()) -> None:
        self._web = web
        self._doing = doing
        self._authorization = authorization
        self._secrets = (*secrets, authorization, *authorization.split()[1:])
        self._until = time.monotonic() + web.whole

    def get(self, path: str, query: Mapping[str, str] | None = None, known: tuple[int, ...] = ()) -> Answer:
        """Read. `known`: statuses of 300 and more that the caller understands."""
        return self._send("GET", path, query=query, known=known, wrote=False)

    def ask(self, path: str, body: object) -> Answer:
        """Read, where that takes a POST: nothing is changed by it."""
        return self._send("POST", path, body=body, wrote=False)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        known: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Write: `body` as JSON, or `files` as a form (field: file name, content, media type), or `content` as it is.

        The media type of `content` is among the `headers`.
        """
        return self._send(
            method, path, query=query, body=body, known=known, headers=headers, files=files, content=content
        )

    def garbled(self, answer: Answer | None = None, *, wrote: bool = False, why: str = "") -> NoReturn:
        """The answer is JSON, but not what the documentation promises. `why`: nothing of the far side's own words."""
        status = "" if answer is None else f" ({answer.status})"
        self._lost(f"the answer{status} is not what its API promises" + (f": {why}" if why else ""), wrote)

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        known: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
        content: bytes | None = None,
        wrote: bool = True,
    ) -> Answer:
        left = self._left()
        if left <= 0:
            raise self._web.errors.unavailable(self._said(self._too_long))
        request = requests.Request(
            method,
            self._url(path),
            params=query,
            json=body,
            data=content,
            files=files,
            headers={**self._web.headers, **(headers or {})},
            auth=self._web.authorize(self._authorization),
        )
        exchange = Exchange(left)
        try:
            response, said = self._exchanged(request, exchange, wrote)
        except (requests.RequestException, HTTPError) as error:
            why = self._too_long if exchange.broken_off else f"no answer came ({type(error).__name__})"
            # Where the connection was never made, nothing was asked for.
            self._lost(why, wrote and exchange.connected)
        if exchange.broken_off:  # a connection that is shut down may look like an answer's end
            self._lost(self._too_long, wrote)
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES and response.status_code not in known:
            self._denied(response, said, wrote)
        return self._answer(response, said, wrote)

    def _exchanged(self, request: requests.Request, exchange: Exchange, wrote: bool) -> tuple[requests.Response, bytes]:
        """The answer, to its end. A server that sends a byte now and then passes each wait, but not the timer."""
        timer = Timer(exchange.remaining(), exchange.break_off)
        timer.daemon = True
        token = CURRENT.set(exchange)
        try:
            with requests.Session() as session:
                for prefix in ("https://", "http://"):
                    session.mount(prefix, BreakableAdapter(1))
                prepared = session.prepare_request(request)
                environment = session.merge_environment_settings(prepared.url, {}, True, self._verify(), None)
                timer.start()
                wait = min(self._web.wait, exchange.remaining())
                with session.send(prepared, **environment, timeout=wait, allow_redirects=False) as response:
                    return response, self._content(response, wrote)
        finally:
            timer.cancel()
            exchange.finish()
            CURRENT.reset(token)

    def _verify(self) -> str | None:
        file = self._web.ca_file
        if file is None:
            return None
        if not file.is_file():
            raise self._web.errors.refused(self._said(f"the file of authorities {file} is not there: look at ca_file"))
        return str(file)

    def _url(self, path: str) -> str:
        """Of a path, or of a page's link, which may lead to nowhere but this API: the secret goes with it."""
        if not path.startswith("/"):
            here, there = urlsplit(self._web.base), urlsplit(path)
            if (here.scheme, here.netloc) != (there.scheme, there.netloc):
                raise self._web.errors.unavailable(self._said("its link to the next page leads to another host"))
            return path
        return self._web.base + path

    def _content(self, response: requests.Response, wrote: bool) -> bytes:
        content = bytearray()
        for piece in response.iter_content(65_536):
            content += piece
            if len(content) > LARGEST:
                self._lost(f"the answer is longer than {LARGEST} bytes", wrote)
        return bytes(content)

    def _answer(self, response: requests.Response, content: bytes, wrote: bool) -> Answer:
        body: object = None
        content = self._scrubbed(content)
        if content.strip():
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                if response.status_code < HTTPStatus.MULTIPLE_CHOICES:
                    self._lost("the answer is not JSON", wrote)
        links = {relation: link["url"] for relation, link in response.links.items() if "url" in link}
        return Answer(response.status_code, response.headers, body, links)

    def _denied(self, response: requests.Response, content: bytes, wrote: bool) -> NoReturn:
        status = response.status_code
        words = shorten(plain(self._masked(content.decode("utf-8", "replace"))), _SAID)
        said = self._said(f"it answered {status}" + (f": {words}" if words else ""))
        after = retry_after(response.headers, self._web.now())
        limited = status == HTTPStatus.TOO_MANY_REQUESTS or (
            status == HTTPStatus.FORBIDDEN and (after is not None or b"rate limit" in content.lower())
        )
        if limited:
            raise self._web.errors.unavailable(said, retry_after=after or LIMITED)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
            raise self._unsure(wrote)(said, retry_after=after)
        raise self._web.errors.refused(said)

    def _lost(self, why: str, wrote: bool) -> NoReturn:
        raise self._unsure(wrote)(self._said(why)) from None

    def _unsure(self, wrote: bool) -> type[Unavailable]:
        return self._web.errors.uncertain if wrote else self._web.errors.unavailable

    @property
    def _too_long(self) -> str:
        return f"it took more than {self._web.whole:g} s"

    def _said(self, why: str) -> str:
        return f"could not {self._doing} with {self._web.name} at {self._web.base}: {why}"

    def _scrubbed(self, content: bytes) -> bytes:
        """What is read may be kept for years: a far side that says what it was sent must not bring our secrets back."""
        for secret in self._secrets:
            if len(secret) >= _SHORTEST:
                content = content.replace(secret.encode(), b"***")
        return content

    def _masked(self, text: str) -> str:
        for secret in filter(None, self._secrets):
            text = text.replace(secret, "***")
        return text

    def _left(self) -> float:
        return self._until - time.monotonic()


class _Header(AuthBase):
    """The header is set last, and as `auth`: without one, requests would take a password of ~/.netrc instead."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._value:
            r.headers["Authorization"] = self._value
        return r


def plain(text: str) -> str:
    """On one line, without anything that does not print: control characters, marks of direction, lone surrogates."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))
