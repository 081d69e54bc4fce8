"""The session that is handed to prometheus-api-client: what the client leaves out is seen to here.

The client sets no limits, looks at nothing but `data.result`, and puts the query into the URL of a POST.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlencode

import requests
from requests.auth import AuthBase

from quarantine.adapters.exchange import CURRENT, BreakableAdapter
from quarantine.adapters.prometheus.answer import Reply, envelope
from quarantine.adapters.prometheus.clocks import compare
from quarantine.adapters.prometheus.options import PrometheusSettings
from quarantine.adapters.prometheus.problems import Problem, TooMuch
from quarantine.core.model import FailureKind

LONGEST_URL = 4096  # characters of a query string; proxies refuse 8 KiB
_CHUNK = 64 * 1024
_MATRIX_BODY = (
    16 * 1024**2
)  # bytes of an answer with many values: decoded, its many small numbers take ten times as much
_LONGER = 0.5  # seconds: the exchange is broken off at its end; a socket's own time-out only ends what was left behind


class Credentials(AuthBase):
    """Who is asking. Set for nobody too, or requests would look into ~/.netrc and send what it finds."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header. Raises Problem where a file with a secret cannot be used."""
        try:
            value = self._settings.authorization()
        except OSError as error:
            what = f"cannot be asked, since {error.filename} cannot be read ({error.strerror})"
            raise Problem(FailureKind.MISCONFIGURED, what, "check the file and who may read it") from error
        except ValueError as error:
            raise Problem(
                FailureKind.MISCONFIGURED, f"cannot be asked, since {error}", "write the secret there"
            ) from None
        if value is not None:
            request.headers["Authorization"] = value
        return request


class CheckedResponse(requests.Response):
    """An answer that was read to its end and found complete."""

    def __init__(self, checked: Mapping[str, Any]) -> None:
        super().__init__()
        self.status_code = 200
        self._checked = checked

    def json(self, **_: Any) -> Any:
        """The envelope, decoded once."""
        return self._checked


class AskingSession(requests.Session):
    """Asks within the current exchange's time, reads a bounded body, follows no redirect, takes no cookie."""

    def __init__(self, settings: PrometheusSettings) -> None:
        super().__init__()
        self._settings = settings
        self.headers.update(settings.all_headers())
        self.auth = Credentials(settings)
        self.verify = str(settings.ca_file) if settings.ca_file and settings.verify else settings.verify
        if settings.cert_file:
            key = settings.key_file
            self.cert = (str(settings.cert_file), str(key)) if key else str(settings.cert_file)
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    def use_breakable_connections(self) -> None:
        """In place of the transport that the client mounted on its own URL."""
        for adapter in self.adapters.values():
            adapter.close()
        self.adapters.clear()
        transport = BreakableAdapter(self._settings.max_parallel)
        for prefix in ("https://", "http://"):
            self.mount(prefix, transport)

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """As requests', of a query: its answer is complete and checked. Raises Problem, and what requests raises."""
        exchange = CURRENT.get()
        seconds = exchange.remaining() if exchange else self._settings.timeout.total_seconds()
        kwargs |= {"timeout": max(0.0, seconds) + _LONGER, "stream": True, "allow_redirects": False}
        if len(urlencode(kwargs.get("params") or {})) > LONGEST_URL:
            kwargs |= {"method": "POST", "params": None, "data": kwargs["params"]}
        matrix = exchange is not None and exchange.matrix
        limit = min(self._settings.max_body, _MATRIX_BODY) if matrix else self._settings.max_body
        response = super().request(*args, **kwargs)
        with response:
            if self._settings.now is not None:
                compare(response.headers.get("Date", ""), self._settings.now(), self._settings.clock_tolerance)
            body = self._settings.scrub(_body(response, limit))
        content_type = response.headers.get("Content-Type", "")
        reply = Reply(response.status_code, content_type, body, self._settings.mask)
        return CheckedResponse(envelope(reply, "matrix" if matrix else "vector"))


def _body(response: requests.Response, limit: int) -> bytes:
    announced = response.headers.get("Content-Length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > limit):
        raise _too_big(limit)
    body = io.BytesIO()
    for chunk in response.raw.stream(_CHUNK, decode_content=True):
        body.write(chunk)
        if body.tell() > limit:
            raise _too_big(limit)
    return body.getvalue()


def _too_big(limit: int) -> Problem:
    return TooMuch(
        FailureKind.GARBLED,
        f"sent an answer of more than {limit / 1024**2:.4g} MiB, which cannot be one of offenders only",
        "narrow the query, or check that prometheus.url leads to Prometheus",
    )
