"""What keeps cycles from doing anything, told without filling the log: when it begins, ever more rarely, at its end."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import structlog

MOST_KINDS = 100  # that are remembered at once
RARELY = 64  # cycles from one telling to the next at most: a quarter of an hour, at fifteen seconds each


@dataclass(slots=True)
class Trouble:
    """One cycle after the other, of one process. Remembers kinds of trouble and not cycles, however long it lasts."""

    _cycles: int = 0  # in a row that failed
    _kinds: dict[str, int] = field(default_factory=dict)  # by kind: cycles of this trouble that met it

    def failed(self, sentence: str) -> None:
        """A cycle, or a try to begin, ended with this, for people."""
        self._cycles += 1
        kind = _kind(sentence)
        if len(self._kinds) > MOST_KINDS:
            self._kinds.clear()
        met = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        log = structlog.get_logger()
        if met % RARELY and met & (met - 1):  # neither a power of two nor a multiple
            log.debug(sentence)
        elif self._cycles == 1:
            log.warning(sentence)
        else:
            log.warning(sentence, cycles_in_a_row=self._cycles)

    def ended(self) -> None:
        """A cycle went well."""
        if self._cycles > 1:
            structlog.get_logger().info(f"it goes on, after {self._cycles} times in a row that came to nothing")
        self._cycles = 0
        self._kinds.clear()


def _kind(sentence: str) -> str:
    """Without what differs from one time to the next: numbers, and what the driver said in brackets."""
    return re.sub(r"\d+", "", sentence.partition(" (")[0])
