"""JSON over HTTPS with a ticket system: one try within bounds, and what went wrong said in the port's errors.

The answer counts only whole: cut off, too long or not JSON, it is an answer that did not come. A request that may have
changed something (anything but a GET) and has no such answer raises TicketsUncertain; what surely was not done raises
TicketsUnavailable, and a definite no TicketsRefused. Secrets are in no error, and no error has a cause that could
tell one.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import requests
from pydantic import SecretStr
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from quarantine.adapters.tickets.markdown import one_line
from quarantine.core.errors import TicketsRefused, TicketsUnavailable, TicketsUncertain
from quarantine.core.marks import shorten

WAIT = 10.0  # seconds for the connection, and for each piece of the answer
WHOLE = 30.0  # seconds for all requests of one call of the port
LARGEST = 16 * 1024 * 1024  # bytes of an answer: a page of a hundred of GitHub's longest bodies fits
_LONGEST_SECRET = 8192
_LONGEST_WAIT = 86_400.0  # seconds that a far side may ask us to stay away
_SAID = 200  # characters of the far side's own words in an error


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with a status below 300, or one of those the caller said it knows."""

    status: int
    headers: Mapping[str, str]  # looked up without regard to case
    body: object  # what the JSON says; None where the body is empty
    links: Mapping[str, str]  # of the Link header: relation to URL


def secret_of(value: SecretStr | None, file: Path | None, what: str) -> Callable[[], str]:
    """Reads a secret whenever it is called, so that a rotated file counts. It raises TicketsRefused without one."""

    def read() -> str:
        if file is None:
            text = value.get_secret_value() if value is not None else ""
        else:
            try:
                with file.open("rb") as handle:
                    text = handle.read(_LONGEST_SECRET + 1).decode("ascii")
            except (OSError, UnicodeDecodeError):
                raise TicketsRefused(f"the {what} cannot be read from {file}: mount it, or set it right") from None
        text = text.strip()
        if not text or len(text) > _LONGEST_SECRET or not (text.isascii() and text.isprintable()):
            raise TicketsRefused(f"the {what} is empty, or is no single line of ASCII: set it right")
        return text

    return read


def base_url(url: str) -> str:
    """The URL without its last slash. Raises ValueError: only https, or http on loopback, without a user or a query."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the URL of the ticket system cannot be read: write https://host/path") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of the ticket system has a user or a password in it: set the token option instead")
    if not host or parts.query or parts.fragment:
        raise ValueError("the URL of the ticket system must have a host, and no query and no fragment")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise ValueError("the URL of the ticket system must begin with https:// (http:// only on loopback)")
    return url.rstrip("/")


class Web:
    """One ticket system's API. Nothing is kept between calls: no cookie, no connection, no secret."""

    def __init__(
        self,
        base: str,
        authorization: Callable[[], str],
        *,
        name: str,
        headers: Mapping[str, str] | None = None,
        now: Callable[[], datetime],
        wait: float = WAIT,
        whole: float = WHOLE,
    ) -> None:
        """`authorization` gives the header of that name, anew for each call. `name`: the system's, for errors."""
        self.base = base_url(base)
        self.name = name
        self.now = now
        self.wait = wait
        self.whole = whole
        self.headers = {"Accept": "application/json", "User-Agent": "quarantine", **(headers or {})}
        self.authorization = authorization

    def call(self, doing: str) -> Call:
        """The requests of one call of the port; together they have `whole` seconds. `doing`: for errors, "find a …"."""
        return Call(self, doing, self.authorization())


class Call:
    """Requests that share one bound of time."""

    def __init__(self, web: Web, doing: str, authorization: str) -> None:
        self._web = web
        self._doing = doing
        self._authorization = authorization
        self._until = time.monotonic() + web.whole

    def get(self, path: str, query: Mapping[str, str] | None = None, known: tuple[int, ...] = ()) -> Answer:
        """Read. `known`: statuses of 300 and more that the caller understands."""
        return self._send("GET", path, query=query, known=known)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        known: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
        files: Mapping[str, tuple[str, bytes, str]] | None = None,
    ) -> Answer:
        """Write: `body` as JSON, or `files` as a form (field: file name, content, media type)."""
        return self._send(method, path, body=body, known=known, headers=headers, files=files)

    def garbled(self, answer: Answer | None = None, *, wrote: bool = False) -> NoReturn:
        """The answer is JSON, but not what the documentation promises."""
        status = "" if answer is None else f" ({answer.status})"
        self._lost(f"the answer{status} is not what its API promises", wrote)

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
    ) -> Answer:
        wrote = method != "GET"
        url = self._url(path)
        left = self._left()
        if left <= 0:
            raise TicketsUnavailable(self._said(f"it took more than {self._web.whole:g} s"))
        with requests.Session() as session:
            session.mount("https://", HTTPAdapter(max_retries=0))
            session.mount("http://", HTTPAdapter(max_retries=0))
            try:
                response = session.request(
                    method,
                    url,
                    params=query,
                    json=body,
                    files=files,
                    headers={**self._web.headers, **(headers or {})},
                    auth=_Header(self._authorization),
                    timeout=min(self._web.wait, left),
                    allow_redirects=False,
                    stream=True,
                )
                with response:
                    content = self._content(response, wrote)
            except requests.RequestException as error:
                self._failed(error, wrote)
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES and response.status_code not in known:
            self._denied(response, content, wrote)
        return self._answer(response, content, wrote)

    def _url(self, path: str) -> str:
        """Of a path, or of a page's link, which may lead to nowhere but this API: the secret goes with it."""
        if not path.startswith("/"):
            here, there = urlsplit(self._web.base), urlsplit(path)
            if (here.scheme, here.netloc) != (there.scheme, there.netloc):
                raise TicketsUnavailable(self._said("its link to the next page leads to another host"))
            return path
        return self._web.base + path

    def _content(self, response: requests.Response, wrote: bool) -> bytes:
        content = bytearray()
        for piece in response.iter_content(65_536):
            content += piece
            if len(content) > LARGEST:
                self._lost(f"the answer is longer than {LARGEST} bytes", wrote)
            if self._left() <= 0:
                self._lost(f"it took more than {self._web.whole:g} s", wrote)
        return bytes(content)

    def _answer(self, response: requests.Response, content: bytes, wrote: bool) -> Answer:
        body: object = None
        if content.strip():
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                if response.status_code < HTTPStatus.MULTIPLE_CHOICES:
                    self._lost("the answer is not JSON", wrote)
        links = {relation: link["url"] for relation, link in response.links.items() if "url" in link}
        return Answer(response.status_code, response.headers, body, links)

    def _failed(self, error: requests.RequestException, wrote: bool) -> NoReturn:
        """No answer. Where the connection was never made, nothing was asked for."""
        kind = type(error).__name__
        raise (TicketsUncertain if wrote and not _never_sent(error) else TicketsUnavailable)(
            self._said(f"no answer came ({kind})")
        ) from None

    def _denied(self, response: requests.Response, content: bytes, wrote: bool) -> NoReturn:
        status = response.status_code
        words = shorten(one_line(self._masked(content.decode("utf-8", "replace"))), _SAID)
        said = self._said(f"it answered {status}" + (f": {words}" if words else ""))
        after = retry_after(response.headers, self._web.now())
        limited = status == HTTPStatus.TOO_MANY_REQUESTS or (
            status == HTTPStatus.FORBIDDEN and (after is not None or b"rate limit" in content.lower())
        )
        if limited:
            raise TicketsUnavailable(said, retry_after=after)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
            raise (TicketsUncertain if wrote else TicketsUnavailable)(said, retry_after=after)
        raise TicketsRefused(said)

    def _lost(self, why: str, wrote: bool) -> NoReturn:
        raise (TicketsUncertain if wrote else TicketsUnavailable)(self._said(why)) from None

    def _said(self, why: str) -> str:
        return f"could not {self._doing} with {self._web.name} at {self._web.base}: {why}"

    def _masked(self, text: str) -> str:
        for part in (self._authorization, *self._authorization.split()[1:]):
            text = text.replace(part, "***")
        return text

    def _left(self) -> float:
        return self._until - time.monotonic()


class _Header(AuthBase):
    """The header is set last, and as `auth`: without one, requests would take a password of ~/.netrc instead."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        r.headers["Authorization"] = self._value
        return r


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Of Retry-After (seconds or a date), else of X-RateLimit-Reset (a time) where nothing remains; a day at most."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdigit():
        return _span(float(said))
    if said:
        try:
            when = parsedate_to_datetime(said)
        except ValueError:
            return None
        return _span(((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())
    reset = headers.get("X-RateLimit-Reset", "").strip()
    if headers.get("X-RateLimit-Remaining", "").strip() == "0" and reset.isascii() and reset.isdigit():
        return _span(float(reset) - now.timestamp())
    return None


def _span(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0.0), _LONGEST_WAIT))


def _never_sent(error: requests.RequestException) -> bool:
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.ProxyError | requests.exceptions.SSLError):
        return isinstance(error, requests.ConnectTimeout)
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
