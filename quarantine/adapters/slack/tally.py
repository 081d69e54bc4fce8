"""How many acts of people there were on Slack, and what became of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """How many acts there were, since the start: for metrics. Two threads count."""

    taken: int = 0  # became a request, or were shown what they asked for
    refused: int = 0  # were told no: outsiders, cases that ended, commands that were not understood
    garbled: int = 0  # were nothing that we know
    failed: int = 0  # could not be carried out, or not be answered
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def more(self, of: str) -> None:
        """One more of these."""
        with self._lock:
            setattr(self, of, getattr(self, of) + 1)
