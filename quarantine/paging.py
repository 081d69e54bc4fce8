"""The pager kept in step with what stands: fired once, said again where it changed or would be forgotten, and cleared.

It remembers what it said for as long as the process leads. One that begins to lead, for the first time or again, says
all that stands again, which doubles nothing, and clears what ended shortly before: an alarm must not outlive its cause
because a pod was moved.

Nothing is ever given up: what was refused is tried again too, since a refusal may be about the moment (a key that is
being rotated). An alarm that fails rests by itself, and comes after the others, so that it keeps none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from quarantine.core.alarms import Alarm, Urgency
from quarantine.core.errors import Refused, Unavailable
from quarantine.pacing import Tries
from quarantine.ports import Clock, Pager

AT_ONCE = 10  # calls to one pager in a cycle; what is left waits for the next one
AWAY_AFTER = 2  # alarms that fail in a row, and the pager itself is let rest
LONGEST_WAIT = timedelta(minutes=5)  # also where a pager asks for more: what wakes people is not put off for hours
MEMORY = timedelta(days=2)  # for how long before the start what has ended is cleared

_RANK = {urgency: rank for rank, urgency in enumerate(Urgency)}  # the worst first


class _Said(NamedTuple):
    """What the far side has of an alarm. `at` is None where it may have it, or not: the answer was lost."""

    alarm: Alarm
    at: datetime | None


class _Call(NamedTuple):
    """`stands`: to be fired, or else cleared."""

    alarm: Alarm
    stands: bool


@dataclass(slots=True)
class _Failed:
    """An alarm that could not be told, and rests."""

    tries: Tries = field(default_factory=Tries)
    refused: _Call | None = None  # it rests as it was said; None: whatever it says by then


@dataclass(slots=True)
class _Kept:
    """What one pager was told, by the alarms' keys, and how it goes with it."""

    fired: dict[str, _Said] = field(default_factory=dict)
    to_clear: dict[str, Alarm] = field(default_factory=dict)
    failed: dict[str, _Failed] = field(default_factory=dict)
    tries: Tries = field(default_factory=Tries)  # of the pager itself

    def begins(self, over: Mapping[str, Alarm]) -> None:
        """What stands is said anew; what is `over`, and what was said, is cleared where it does not stand."""
        self.to_clear |= {key: said.alarm for key, said in self.fired.items()} | dict(over)
        self.fired.clear()

    def tries_of(self, call: _Call) -> int:
        """How often in a row this alarm could not be told."""
        failed = self.failed.get(call.alarm.key)
        return failed.tries.count if failed is not None else 0

    def rests(self, call: _Call, now: datetime) -> bool:
        """Whether it is too early to try this again."""
        failed = self.failed.get(call.alarm.key)
        return failed is not None and not failed.tries.due(now) and failed.refused in (None, call)

    def took(self, call: _Call, now: datetime) -> None:
        """The far side has it."""
        key = call.alarm.key
        self.tries.done()
        self.failed.pop(key, None)
        if call.stands:
            self.fired[key] = _Said(call.alarm, now)
        else:
            self.fired.pop(key, None)
            self.to_clear.pop(key, None)

    def refused(self, call: _Call, now: datetime) -> None:
        """The far side will have none of it, as it is or for the moment."""
        self._fails(call, now, refused=call, at_least=LONGEST_WAIT)

    def unanswered(self, call: _Call, now: datetime) -> None:
        """It may have been done: what stands is said again whatever was said before, and what ends is cleared."""
        self.fired[call.alarm.key] = _Said(call.alarm, None)
        self._fails(call, now)

    def put_off(self, now: datetime, asked: timedelta) -> None:
        """The pager itself is let rest, for what it asked or longer."""
        self.tries.failed(now, LONGEST_WAIT, at_least=min(asked, LONGEST_WAIT))

    def _fails(
        self, call: _Call, now: datetime, *, refused: _Call | None = None, at_least: timedelta | None = None
    ) -> None:
        failed = self.failed.setdefault(call.alarm.key, _Failed())
        failed.refused = refused
        failed.tries.failed(now, LONGEST_WAIT, at_least=at_least)


@dataclass(slots=True)
class Paging:
    """All pagers of one cluster. `ended`: the alarms that ended since a moment, some of which may stand again."""

    pagers: Sequence[Pager]
    clock: Clock
    ended: Callable[[datetime], Iterable[Alarm]]
    may: Callable[[], bool] = lambda: True  # whether this process may still tell anything
    tenure: Callable[[], int] = lambda: 0  # another one: another process may have told meanwhile
    _tenure: int = 0
    _kept: list[_Kept] = field(default_factory=list)  # one for each pager

    def reconcile(self, standing: Sequence[Alarm]) -> list[str]:
        """Say what is due. Returns a sentence for each pager that could not be told. Raises as `ended` does."""
        if not self.pagers:
            return []
        now, wanted = self.clock.now(), {alarm.key: alarm for alarm in standing}
        tenure = self.tenure()
        if not self._kept or self._tenure != tenure:
            over = {alarm.key: alarm for alarm in self.ended(now - MEMORY)}
            self._kept = self._kept or [_Kept() for _ in self.pagers]
            for kept in self._kept:
                kept.begins(over)
            self._tenure = tenure
        steps = (self._step(*pair, wanted) for pair in zip(self.pagers, self._kept, strict=True))
        return [said for said in steps if said is not None]

    def _step(self, pager: Pager, kept: _Kept, wanted: Mapping[str, Alarm]) -> str | None:
        now = self.clock.now()
        kept.to_clear |= {key: said.alarm for key, said in kept.fired.items()}
        kept.to_clear = {key: alarm for key, alarm in kept.to_clear.items() if key not in wanted}
        kept.failed = {key: one for key, one in kept.failed.items() if key in wanted or key in kept.to_clear}
        if not kept.tries.due(now):
            return None
        trouble, silent = None, 0
        for call in _due(pager, kept, wanted, now)[:AT_ONCE]:
            if not self.may():
                break
            try:
                (pager.fire if call.stands else pager.clear)(call.alarm)
            except Refused as error:
                kept.refused(call, self.clock.now())  # no other one is kept waiting for it
                trouble = f"{pager.name} refuses an alarm ({call.alarm.summary}): {error}"
                continue
            except Exception as error:  # noqa: BLE001  (said, and put off: a pager may be anybody's code)
                kept.unanswered(call, self.clock.now())
                trouble, silent = _put_off(pager, error), silent + 1
                asked = error.retry_after if isinstance(error, Unavailable) else None
                if asked is not None or silent >= AWAY_AFTER:
                    kept.put_off(self.clock.now(), asked or timedelta(0))
                    return trouble
                continue
            kept.took(call, now)
            silent = 0
        return trouble


def _put_off(pager: Pager, error: Exception) -> str:
    if isinstance(error, Unavailable):
        return f"telling {pager.name} is put off: {error}"
    structlog.get_logger().error("a defect of a pager; please report it with this traceback", exc_info=error)
    return f"telling {pager.name} is put off by a defect ({type(error).__name__}: {error})"


def _due(pager: Pager, kept: _Kept, wanted: Mapping[str, Alarm], now: datetime) -> list[_Call]:
    """What is to be said, in its order: what has failed least, news before ends before repetitions, the worst first.

    Among repetitions the one that was said longest ago is first, or many alarms would keep the last ones for ever.
    """
    found: list[tuple[int, datetime, _Call]] = []
    for alarm in wanted.values():
        said = kept.fired.get(alarm.key)
        if said is None or said.at is None or said.alarm != alarm:
            found.append((0, now, _Call(alarm, stands=True)))
        elif pager.repeats is not None and now >= said.at + pager.repeats:
            found.append((2, said.at, _Call(alarm, stands=True)))
    found += [(1, now, _Call(alarm, stands=False)) for alarm in kept.to_clear.values()]
    found.sort(key=lambda one: (kept.tries_of(one[2]), *one[:2], _RANK[one[2].alarm.urgency]))
    return [call for _, _, call in found if not kept.rests(call, now)]
