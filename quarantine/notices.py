"""Tell people, once, of policy files that broke: when the trail learns of it, and until it has been said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core import rulefiles
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.rulefiles import FILE, BrokenFile
from quarantine.ports import Clock, Notices

LONGEST_WAIT = timedelta(minutes=5)


@dataclass(slots=True)
class _Untold:
    broken: Sequence[BrokenFile]
    earliest: datetime
    attempts: int = 0


@dataclass(slots=True)
class Teller:
    """Remembers what is still to be said. What a process that ended did not get to say stands in `status` alone."""

    notices: Notices | None
    clock: Clock
    cluster: str
    _untold: dict[str, _Untold] = field(default_factory=dict)

    def broke(self, broken: Sequence[BrokenFile], at: datetime) -> None:
        """These broke together; the trail has it."""
        if broken and self.notices is not None:
            self._untold[f"{FILE}{at.isoformat()}"] = _Untold(broken, at)

    def tell(self, still: Sequence[BrokenFile]) -> list[str]:
        """Say what is due. `still`: what is broken now, since what was repaired meanwhile concerns nobody.

        Returns a sentence for each notice that is put off.
        """
        standing = {one.file for one in still}
        put_off = []
        for key, notice in list(self._untold.items()):
            lines = [one.reason for one in notice.broken if one.file in standing]
            if lines and self.clock.now() < notice.earliest:
                continue
            try:
                if lines:
                    self._say(key, notice, lines)
            except (Unavailable, Refused) as error:
                self._wait(notice, error)
                put_off.append(f"telling people of broken policy files is put off: {error}")
            else:
                del self._untold[key]
        return put_off

    def _say(self, key: str, notice: _Untold, lines: Sequence[str]) -> None:
        assert self.notices is not None  # noqa: S101  (nothing is remembered without it)
        notice.attempts += 1
        # An earlier attempt may have got through without its answer reaching us.
        if notice.attempts == 1 or self.notices.find(key) is None:
            self.notices.tell(key, rulefiles.title(len(lines), self.cluster), lines)

    def _wait(self, notice: _Untold, error: Exception) -> None:
        wait = min(timedelta(seconds=2 ** min(notice.attempts, 9)), LONGEST_WAIT)
        asked = error.retry_after if isinstance(error, Unavailable) else None
        notice.earliest = self.clock.now() + (max(wait, asked) if asked is not None else wait)
