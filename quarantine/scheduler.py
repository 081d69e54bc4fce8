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

LOOK_S = 1.0  # between two looks for requests
LOOK_END_S = 0.5  # what a look under way gets to end in; one that hangs begins nothing, and is left behind
PULSE_S = 1.0  # how often the timer looks after itself, by the monotonic clock
LATE_S = 120.0  # a cycle that runs for so long is told, and told again
GRACE_S = 25.0  # what the running step gets to end in, once the process is asked to stop
LEAVE_S = 50.0  # what all of the stop may take, the Lease and connections too; the Deployment's grace is longer


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
        self._scheduler: Any = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(1)})
        self._asked = asked
        self.on_stop: Callable[[], None] = lambda: None  # to break off what the running cycle only waits to read
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
        # Not of APScheduler's: its threads are waited for when the interpreter ends, and this one may hang in a driver.
        self._looks = threading.Thread(target=self._look_on, name="requests", daemon=True)

    def _look_on(self) -> None:
        while not self._stopped.wait(LOOK_S):
            try:
                with suppress(QuarantineError):  # a ledger that does not answer is the cycle's to tell of
                    self._look()
            except Exception:  # noqa: BLE001  (said; the next cycle finds the requests all the same)
                structlog.get_logger().exception("a defect kept requests from being seen at once; report it")

    def _look(self) -> None:
        """Wake the cycle for a request that is new: one that was seen does not wake it again."""
        assert self._asked is not None  # noqa: S101
        waiting = frozenset(self._asked())
        if waiting - self._known:
            self.wake()
        self._known = waiting

    def _run(self) -> None:
        self._since = time.monotonic()
        self._idle.clear()
        try:
            if not self._stopped.is_set():  # asked once it is no longer idle: who stops it then waits for it
                self._cycle()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in `run`
            self._failure = error
            self._stopped.set()
        finally:
            self._since = time.monotonic()
            self._idle.set()

    def wake(self) -> None:
        """Run a cycle now, or right after the one that runs; none once the timer has ended. From any thread."""
        from apscheduler.jobstores.base import JobLookupError

        with suppress(JobLookupError):
            self._scheduler.modify_job("cycle", next_run_time=_now())

    def stop(self) -> None:
        """Let the running step end, and start no other. From any thread.

        Not from the handler of a signal: it interrupts `run` in the very wait for this, which holds a lock.
        """
        self._stopped.set()

    def is_stopping(self) -> bool:
        """Whether nothing more is to be begun. A running cycle asks before each of its steps."""
        return self._stopped.is_set()

    def run(self) -> bool:
        """Block until stopped; whether the last cycle ended within the grace time.

        Raises what the cycle raised (Superseded, or a defect). Where it returns False a thread is stuck (a database
        that hangs), and only the end of the process ends it.
        """
        self._scheduler.start()
        if self._asked is not None:
            self._looks.start()
        try:
            while not self._stopped.wait(PULSE_S):
                self._watch()
        finally:
            self.on_stop()
            ended = self._idle.wait(GRACE_S)
            self._scheduler.shutdown(wait=ended)
            if self._asked is not None:
                self._looks.join(LOOK_END_S)
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
