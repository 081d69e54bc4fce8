"""The pager kept in step with what stands: fired once, said again where it changed or would be forgotten, and cleared.

It remembers what it said for as long as the process lives. One that starts says all that stands again, which doubles
nothing, and clears what ended shortly before: an alarm must not outlive its cause because a pod was moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core.alarms import Alarm
from quarantine.core.errors import Refused, Unavailable
from quarantine.ports import Clock, Pager

AT_ONCE = 10  # calls to one pager in a cycle; what is left waits for the next one
LONGEST_WAIT = timedelta(minutes=5)
MEMORY = timedelta(days=2)  # for how long before the start what has ended is cleared


@dataclass(slots=True)
class _Kept:
    """What one pager was told, and how it goes with it."""

    fired: dict[str, tuple[Alarm, datetime]] = field(default_factory=dict)  # with when it was said last
    to_clear: dict[str, Alarm] = field(default_factory=dict)
    refused: dict[str, Alarm] = field(default_factory=dict)  # as it was: it is not said again as it is
    tries: int = 0
    earliest: datetime | None = None


@dataclass(slots=True)
class Paging:
    """All pagers of one cluster. `ended`: the alarms that ended since a moment, some of which may stand again."""

    pagers: Sequence[Pager]
    clock: Clock
    ended: Callable[[datetime], Iterable[Alarm]]
    _kept: list[_Kept] = field(default_factory=list)  # one for each pager

    def reconcile(self, standing: Sequence[Alarm]) -> list[str]:
        """Say what is due. Returns a sentence for each pager that could not be told. Raises as `ended` does."""
        if not self.pagers:
            return []
        now, wanted = self.clock.now(), {alarm.key: alarm for alarm in standing}
        if not self._kept:
            over = {alarm.key: alarm for alarm in self.ended(now - MEMORY)}
            self._kept = [_Kept(to_clear=dict(over)) for _ in self.pagers]
        steps = (self._step(*pair, wanted) for pair in zip(self.pagers, self._kept, strict=True))
        return [said for said in steps if said is not None]

    def _step(self, pager: Pager, kept: _Kept, wanted: Mapping[str, Alarm]) -> str | None:
        now = self.clock.now()
        kept.to_clear |= {key: alarm for key, (alarm, _) in kept.fired.items() if key not in wanted}
        kept.to_clear = {key: alarm for key, alarm in kept.to_clear.items() if key not in wanted}
        kept.refused = {key: alarm for key, alarm in kept.refused.items() if wanted.get(key) == alarm}
        if kept.earliest is not None and now < kept.earliest:
            return None
        due = [alarm for alarm in wanted.values() if self._is_due(pager, kept, alarm, now)]
        calls = [(pager.fire, alarm) for alarm in due] + [(pager.clear, alarm) for alarm in kept.to_clear.values()]
        trouble = None
        for call, alarm in calls[:AT_ONCE]:
            try:
                call(alarm)
            except Refused as error:
                # It is wrong as it is: another one is not kept waiting for it, and it is not said again unchanged.
                trouble = f"{pager.name} refuses an alarm ({alarm.summary}): {error}"
                kept.refused[alarm.key] = alarm
                kept.to_clear.pop(alarm.key, None)
                kept.fired.pop(alarm.key, None)
                continue
            except Unavailable as error:
                return self._put_off(pager, kept, error)
            kept.tries, kept.earliest = 0, None
            if alarm.key in wanted:
                kept.fired[alarm.key] = (alarm, now)
            else:
                kept.fired.pop(alarm.key, None)
                kept.to_clear.pop(alarm.key, None)
        return trouble

    @staticmethod
    def _is_due(pager: Pager, kept: _Kept, alarm: Alarm, now: datetime) -> bool:
        if kept.refused.get(alarm.key) == alarm:
            return False
        said = kept.fired.get(alarm.key)
        if said is None or said[0] != alarm:
            return True
        return pager.repeats is not None and now >= said[1] + pager.repeats

    def _put_off(self, pager: Pager, kept: _Kept, error: Unavailable) -> str:
        kept.tries += 1
        wait = min(timedelta(seconds=2 ** min(kept.tries, 9)), LONGEST_WAIT)
        kept.earliest = self.clock.now() + max(wait, error.retry_after or wait)
        return f"telling {pager.name} is put off: {error}"
