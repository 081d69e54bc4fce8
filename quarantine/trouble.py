"""What keeps cycles from doing anything, told without filling the log: when it begins, ever more rarely, at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from quarantine.loglines import kind_of

MOST_KINDS = 100  # that are remembered at once
RARELY = 64  # cycles from one telling to the next at most: a quarter of an hour, at fifteen seconds each


@dataclass(slots=True)
class Trouble:
    """One cycle after the other, of one process. Remembers kinds of trouble and not cycles, however long it lasts."""

    _cycles: int = 0  # in a row that failed
    _kinds: dict[str, int] = field(default_factory=dict)  # by kind: cycles of this trouble that met it

    def failed(self, sentence: str, defect: Exception | None = None) -> None:
        """A cycle, or a try to begin, ended with this, for people. `defect`: whose traceback is told with it."""
        self._cycles += 1
        kind = kind_of(sentence)
        if len(self._kinds) > MOST_KINDS:
            self._kinds.clear()
        met = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        log = structlog.get_logger().bind(about="cycle")
        if met % RARELY and met & (met - 1):  # neither a power of two nor a multiple
            log.debug(sentence)
            return
        say = log.warning if defect is None else log.bind(exc_info=defect).error
        say(sentence, **({"cycles_in_a_row": self._cycles} if self._cycles > 1 else {}))

    def ended(self) -> None:
        """A cycle went well."""
        if self._cycles > 1:
            structlog.get_logger().info(f"it goes on, after {self._cycles} times in a row that came to nothing")
        self._cycles = 0
        self._kinds.clear()
