"""A sign of life outwards: a request to a URL that somebody else watches, and that rings when none comes any more.

Healthchecks.io, Cronitor, Better Stack, Dead Man's Snitch and Uptime Kuma's push monitors take it as it is. Its URL is
a secret: who has it can keep up the appearance. It is sent beside the cycle, which never waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import requests
import structlog

from quarantine.core.errors import UsageError

_WAIT = 5.0  # seconds for the connection, and for the answer's head; the rest of it is not read


class Heartbeat:
    """Implements `ports.Heart`; to be closed."""

    def __init__(self, url: str, now: Callable[[], datetime], *, every: timedelta = timedelta(minutes=1)) -> None:
        """`every`: no more often than this, however quick the cycles are. Raises UsageError for what is no URL."""
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("heartbeat.url is no URL: it must look like https://host/path")
        self._url, self._now, self._every = url.strip(), now, every
        self._runner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="heartbeat")
        self._sending: Future[None] | None = None
        self._last: datetime | None = None
        self._trouble = ""

    def beat(self) -> None:
        """Say that the controller lives, and sees. What goes wrong is logged when it begins and when it ends."""
        if self._sending is not None and not self._sending.done():
            return
        if self._last is not None and self._last <= self._now() < self._last + self._every:
            return
        self._last = self._now()
        self._sending = self._runner.submit(self._send)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.shutdown(wait=False, cancel_futures=True)

    def _send(self) -> None:
        try:
            with requests.post(
                self._url, timeout=_WAIT, stream=True, allow_redirects=False, headers={"User-Agent": "quarantine"}
            ) as answer:
                trouble = "" if answer.status_code < HTTPStatus.MULTIPLE_CHOICES else f"status {answer.status_code}"
        except (requests.RequestException, OSError) as error:
            trouble = type(error).__name__  # its text has the URL
        if trouble and trouble != self._trouble:
            said = f"the heartbeat does not arrive ({trouble}): look at heartbeat.url and the way there"
            structlog.get_logger().warning(said)
        elif self._trouble and not trouble:
            structlog.get_logger().info("the heartbeat arrives again")
        self._trouble = trouble
