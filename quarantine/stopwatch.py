"""How long the parts of something took, by the monotonic clock: for the controller's own metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stopwatch:
    """Runs from when it is made. A part's time is what passed since the part before it ended."""

    _last: float = field(default_factory=time.monotonic)
    _seconds: dict[str, float] = field(default_factory=dict)

    def ended(self, part: str) -> None:
        """This part ends now. Of one that comes more than once the times are added."""
        now = time.monotonic()
        self._seconds[part] = self._seconds.get(part, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> Mapping[str, float]:
        """By part, in the order in which they first ended."""
        return dict(self._seconds)
