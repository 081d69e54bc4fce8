"""The wall clock, not believed while it jumps.

Deadlines of remedies and phases are counted on it: one cycle with a clock that is two hours ahead would call a reset
late and have its machine replaced, and that cannot be taken back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

TOLERANCE = timedelta(seconds=10)  # by which the clock may be corrected between two looks
BELIEVED_AFTER = timedelta(minutes=10)  # a clock that was set, and stays so, is right


class SteadyClock:
    """Goes on as time passes when the wall clock is set, until that has stood for `BELIEVED_AFTER`. Thread-safe.

    Meanwhile Prometheus is asked at a time that may be wrong by as much: what it does not know then is unknown.
    """

    def __init__(self, wall: Callable[[], datetime] | None = None, elapsed: Callable[[], float] | None = None) -> None:
        """`wall`: aware, UTC. `elapsed`: seconds that pass whatever the wall clock is set to, also in a suspend."""
        self._wall = wall or _wall
        self._elapsed = elapsed or _elapsed
        self._lock = threading.Lock()
        self._at, self._since = self._wall(), self._elapsed()  # what was believed last, and when
        self._doubted: float | None = None

    def now(self) -> datetime:
        """Aware, UTC."""
        with self._lock:
            wall, elapsed = self._wall(), self._elapsed()
            expected = self._at + timedelta(seconds=elapsed - self._since)
            if abs(wall - expected) > TOLERANCE:
                if self._doubted is None:
                    self._doubted = elapsed
                    _told(wall, expected)
                if elapsed - self._doubted < BELIEVED_AFTER.total_seconds():
                    return expected
            self._at, self._since, self._doubted = wall, elapsed, None
            return wall


def _told(wall: datetime, expected: datetime) -> None:
    structlog.get_logger().warning(
        f"the clock of this machine was set from {expected:%Y-%m-%d %H:%M:%S} to {wall:%Y-%m-%d %H:%M:%S} UTC: it is "
        f"believed once it has stood for {BELIEVED_AFTER.total_seconds() / 60:.0f} minutes; is its time synchronised?"
    )


def _wall() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the one clock of the program


def _elapsed() -> float:
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux: unlike `monotonic`, it counts a suspend
    return time.monotonic() if boot is None else time.clock_gettime(boot)
