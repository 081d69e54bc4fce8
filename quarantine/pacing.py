"""How often something may be done, and when it is tried again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

LONGEST_WAIT = timedelta(hours=1)  # between two tries of what was refused


@dataclass(slots=True)
class Pace:
    """At most `most` times within any stretch of `within`."""

    most: int
    within: timedelta
    _times: deque[datetime] = field(default_factory=deque)

    def free(self, now: datetime) -> bool:
        """Whether it may be done now. A clock that was set back forgets what was done."""
        while self._times and not now - self.within < self._times[0] <= now:
            self._times.popleft()
        return len(self._times) < self.most

    def spend(self, now: datetime) -> None:
        """It is done now."""
        self._times.append(now)


@dataclass(slots=True)
class Tries:
    """Of one thing, how often in a row it failed, and from when on it is tried again."""

    count: int = 0
    earliest: datetime | None = None

    def due(self, now: datetime) -> bool:
        """Whether it may be tried."""
        return self.earliest is None or now >= self.earliest

    def failed(self, now: datetime, longest: timedelta = LONGEST_WAIT, *, at_least: timedelta | None = None) -> None:
        """It is tried again after twice the time that it was before. `at_least`: who asks to wait is waited for."""
        self.count += 1
        wait = min(timedelta(seconds=2 ** min(self.count, 20)), longest)
        self.earliest = now + max(wait, at_least or wait)

    def done(self) -> None:
        """It worked."""
        self.count, self.earliest = 0, None
