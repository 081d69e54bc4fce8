"""APScheduler as the timer of the cycle: one at a time, never in a backlog, woken at once when somebody asks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any


class CycleTimer:
    """Runs `cycle` every `interval` until `stop()` is called or `cycle` raises."""

    def __init__(self, cycle: Callable[[], object], interval: timedelta) -> None:
        from apscheduler.executors.pool import ThreadPoolExecutor
        from apscheduler.schedulers.background import BackgroundScheduler

        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._cycle = cycle
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._scheduler: Any = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(1)})
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

    def _run(self) -> None:
        if self._stopped.is_set():
            return
        try:
            self._cycle()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in `run`
            self._failure = error
            self._stopped.set()

    def wake(self) -> None:
        """Run a cycle now, or right after the one that runs."""
        self._scheduler.modify_job("cycle", next_run_time=_now())

    def stop(self) -> None:
        """Let the running cycle end, and start no other. Safe to call from a signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Block until stopped. Raises what the cycle raised (Superseded, or a defect)."""
        self._scheduler.start()
        try:
            self._stopped.wait()
        finally:
            self._scheduler.shutdown(wait=True)
        if self._failure is not None:
            raise self._failure


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - APScheduler counts in wall-clock time
