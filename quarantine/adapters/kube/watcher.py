"""The thread that lists, watches, and lists again."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from quarantine.adapters.kube.api import ApiServer, Quiet
from quarantine.adapters.kube.cache import NodeCache
from quarantine.adapters.kube.records import node_record
from quarantine.adapters.kube.translate import Call, Expired, garbled, parse_status, quote
from quarantine.core.errors import ClusterUnavailable, QuarantineError, Unavailable

log = structlog.get_logger()

_random = secrets.SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a watch is kept. A quiet one may be dead, so it is given up after `quiet` and the nodes are listed."""

    quiet: timedelta = timedelta(seconds=90)  # the API server sends a bookmark about once a minute
    watch_for: timedelta = timedelta(minutes=5)  # asked of the server; twice that at most, so that watches spread
    relist_every: timedelta = timedelta(minutes=30)
    first_wait: timedelta = timedelta(milliseconds=500)  # before trying again; doubled each time
    longest_wait: timedelta = timedelta(seconds=30)


class NodeWatcher:
    """Keeps a `NodeCache` true from a background thread until `stop`."""

    def __init__(self, api: ApiServer, cache: NodeCache, pace: Pace, monotonic: Callable[[], float]) -> None:
        self._api = api
        self._cache = cache
        self._pace = pace
        self._monotonic = monotonic
        self._call = Call(api.url, "watching nodes", "watch on nodes")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-watch", daemon=True)
        self._version = ""  # to go on from; empty: list first
        self._listed_at = 0.0
        self._failures = 0  # in a row, without a line of a watch between
        self._lost = False

    def start(self) -> None:
        """Begin. Once only."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end. The caller closes the API, which wakes it, then calls `join`."""
        self._stop.set()

    def join(self, timeout: timedelta) -> bool:
        """Whether the thread has ended within `timeout`."""
        self._thread.join(timeout.total_seconds())
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            wish: timedelta | None = None
            try:
                self._round()
            except (Expired, Quiet) as error:  # in the nature of watches: no news for the log
                self._again()
                self._cache.failed(error)
            except QuarantineError as error:
                self._again()
                wish = self._stumbled(error)
            except Exception as error:
                # The thread must outlive a mistake in this code: the cache would go stale and stay so.
                self._again()
                log.exception("node watch: unexpected error")
                self._cache.failed(garbled(self._call, f"something that we cannot handle ({type(error).__name__})"))
            self._stop.wait(self._wait(wish))

    def _round(self) -> None:
        if not self._version:
            writes = self._cache.writes()
            listing = self._api.list_nodes()
            self._cache.replace(listing, writes)
            self._version, self._listed_at = listing.version, self._monotonic()
        told = self._follow()
        due = self._monotonic() >= self._listed_at + self._pace.relist_every.total_seconds()
        if due or not told:
            self._again(failed=not told)

    def _follow(self) -> int:
        """Apply a watch until it ends; how many lines it told. A break after the first line is an ordinary end."""
        now = self._monotonic()
        left = self._listed_at + self._pace.relist_every.total_seconds() - now
        lasting = min(self._pace.watch_for.total_seconds() * _random.uniform(1, 2), max(left, 1.0))
        told = 0
        lines = self._api.watch_nodes(self._version, lasting=timedelta(seconds=lasting), quiet=self._pace.quiet)
        try:
            with closing(lines):
                for line in lines:
                    self._apply(line)
                    told += 1
                    self._found()
                    if self._stop.is_set() or self._monotonic() > now + lasting + self._pace.quiet.total_seconds():
                        break  # a server that ignores timeoutSeconds
        except Unavailable as error:
            if not told or isinstance(error, (Expired, Quiet, _BadLine)):
                raise
        return told

    def _apply(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, obj = event["type"], event["object"]
            if kind == "ERROR":
                raise self._told_error(obj)
            self._version = _version_of(obj) or self._version
            match kind:
                case "ADDED" | "MODIFIED":
                    self._cache.put(node_record(obj, self._api.prefix, self._api.annotations))
                case "DELETED":
                    self._cache.remove(node_record(obj, self._api.prefix, self._api.annotations))
                case _:
                    self._cache.alive()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _BadLine(str(garbled(self._call, "a line that is no watch event"))) from error

    def _told_error(self, obj: Any) -> ClusterUnavailable:
        status = parse_status(obj)
        code = obj.get("code") if isinstance(obj, dict) else None
        words = self._api.transport.without_credentials(status.message)
        said = f"ended the watch with {code if isinstance(code, int) else 'no code'} ({quote(words)})"
        if code == 410 or status.reason == "Expired":
            return Expired(self._call.sentence(said, "list again"))
        return _BadLine(self._call.sentence(said, "the nodes will be listed again"))

    def _again(self, *, failed: bool = True) -> None:
        self._version = ""
        self._failures += failed

    def _stumbled(self, error: QuarantineError) -> timedelta | None:
        if self._stop.is_set():
            return None
        if not self._lost:
            self._lost = True
            log.warning("node watch lost", error=str(error))
        self._cache.failed(error)
        return error.retry_after if isinstance(error, Unavailable) else None

    def _found(self) -> None:
        self._failures = 0
        if self._lost:
            self._lost = False
            log.info("node watch regained", url=self._api.url)

    def _wait(self, wish: timedelta | None) -> float:
        """Seconds until the next try: doubled for each failure, jittered, and no sooner than the server asked."""
        first, longest = self._pace.first_wait.total_seconds(), self._pace.longest_wait.total_seconds()
        backoff = min(longest, first * (1 << min(self._failures, 16))) * _random.uniform(0.5, 1)
        return max(backoff, min(wish.total_seconds(), longest) if wish else 0.0)


class _BadLine(ClusterUnavailable):
    """A line that cannot be gone on from: list again, however much the watch had told before."""


def _version_of(obj: Any) -> str:
    version = obj["metadata"]["resourceVersion"]
    return version if isinstance(version, str) else ""
