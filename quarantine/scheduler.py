"""APScheduler as the timer of the cycle: one at a time, never in a backlog, woken at once when somebody asks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from quarantine.core.errors import QuarantineError

LOOK_FOR_REQUESTS = timedelta(seconds=1)
PULSE_S = 1.0  # how often the timer looks after itself, by the monotonic clock
LATE_S = 120.0  # a cycle that runs for so long is told, and told again
GRACE_S = 25.0  # what a running cycle gets to end in; Kubernetes gives thirty seconds before it kills


class CycleTimer:
    """Runs `cycle` every `interval` until `stop()` is called or `cycle` raises.

    `asked` gives the ids of requests that wait; it is looked at every second, and a new one wakes the cycle.
    """

    def __init__(
        self, cycle: Callable[[], object], interval: timedelta, asked: Callable[[], Collection[str]] | None = None
    ) -> None:
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._cycle = cycle
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        executors = {"default": ThreadPoolExecutor(1), "requests": ThreadPoolExecutor(1)}
        self._scheduler: Any = BackgroundScheduler(timezone=UTC, executors=executors)
        self._asked = asked
        self._known: frozenset[str] = frozenset()
        self._interval_s = interval.total_seconds()
        self._since = time.monotonic()  # when the running cycle began, or the last one ended
        self._told_s = 0.0
        self._idle = threading.Event()
        self._idle.set()
        self._scheduler.add_job(
            self._run,
            "interval",
            id="cycle",
            seconds=interval.total_seconds(),
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,  # a late cycle is run, not dropped: it looks at the world as it is then
            next_run_time=_now(),
        )

        if asked is not None:
            self._scheduler.add_job(
                self._look,
                "interval",
                id="requests",
                executor="requests",
                seconds=LOOK_FOR_REQUESTS.total_seconds(),
                max_instances=1,
                coalesce=True,
                misfire_grace_time=None,
            )

    def _look(self) -> None:
        assert self._asked is not None  # noqa: S101
        # A ledger that does not answer is the cycle's to tell of. A request that was seen does not wake it again.
        with suppress(QuarantineError):
            waiting = frozenset(self._asked())
            if waiting - self._known:
                self.wake()
            self._known = waiting

    def _run(self) -> None:
        if self._stopped.is_set():
            return
        self._since = time.monotonic()
        self._idle.clear()
        try:
            self._cycle()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in `run`
            self._failure = error
            self._stopped.set()
        finally:
            self._since = time.monotonic()
            self._idle.set()

    def wake(self) -> None:
        """Run a cycle now, or right after the one that runs."""
        self._scheduler.modify_job("cycle", next_run_time=_now())

    def stop(self) -> None:
        """Let the running cycle end, and start no other. Safe to call from a signal handler."""
        self._stopped.set()

    def run(self) -> bool:
        """Block until stopped; whether the last cycle ended within the grace time.

        Raises what the cycle raised (Superseded, or a defect). Where it returns False a thread is stuck (a database
        that hangs), and only the end of the process ends it.
        """
        self._scheduler.start()
        try:
            while not self._stopped.wait(PULSE_S):
                self._watch()
        finally:
            ended = self._idle.wait(GRACE_S)
            self._scheduler.shutdown(wait=ended)
        if self._failure is not None:
            raise self._failure
        return ended

    def _watch(self) -> None:
        """APScheduler sleeps by the wall clock: after a step back it would sleep until the old time comes again."""
        waited = time.monotonic() - self._since
        if self._idle.is_set() and waited > 2 * self._interval_s + PULSE_S:
            self._since = time.monotonic()
            self.wake()
        elif not self._idle.is_set() and waited > self._told_s + LATE_S:
            self._told_s = waited
            log = structlog.get_logger()
            log.error("a cycle does not end: is the ledger's database or another dependency hanging?", s=round(waited))
        elif self._idle.is_set():
            self._told_s = 0.0


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - APScheduler counts in wall-clock time
