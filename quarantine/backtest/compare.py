"""Two versions of the policies over the same history: what the newer one does otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from quarantine.backtest.result import Outage, Result


@dataclass(frozen=True, slots=True)
class Moved:
    """A machine that both take out, at another time or by another policy."""

    before: Outage
    after: Outage

    @property
    def sooner(self) -> timedelta:
        """By how much the newer version is sooner; negative: later."""
        return self.before.start - self.after.start


@dataclass(frozen=True, slots=True)
class Difference:
    """From `base` to `head`."""

    base: Result
    head: Result
    added: tuple[Outage, ...]  # only the newer version takes these out
    spared: tuple[Outage, ...]  # only the older one does
    moved: tuple[Moved, ...]
    same: int  # outages that begin at the same time, by the same policy

    @property
    def gpu_hours(self) -> float:
        """How many more GPU-hours are out of service; negative: fewer."""
        return self.head.gpu_hours_out() - self.base.gpu_hours_out()

    @property
    def nothing(self) -> bool:
        """Whether both take out the same machines at the same times."""
        return not (self.added or self.spared or self.moved)


def compare(base: Result, head: Result) -> Difference:
    """A machine's outages are paired in order of time; what is left over on a side is its own."""
    before, after = base.by_node(), head.by_node()
    added: list[Outage] = []
    spared: list[Outage] = []
    moved: list[Moved] = []
    same = 0
    for node in sorted(before.keys() | after.keys()):
        for old, new in _paired(before.get(node, ()), after.get(node, ())):
            if old is None and new is not None:
                added.append(new)
            elif new is None and old is not None:
                spared.append(old)
            elif old is not None and new is not None:
                if (old.start, old.policy) == (new.start, new.policy):
                    same += 1
                else:
                    moved.append(Moved(old, new))
    by_start = sorted(moved, key=lambda pair: pair.after.start)
    return Difference(
        base, head, tuple(sorted(added, key=_start)), tuple(sorted(spared, key=_start)), tuple(by_start), same
    )


def _start(outage: Outage) -> tuple[object, str]:
    return (outage.start, outage.node)


def _paired(old: tuple[Outage, ...], new: tuple[Outage, ...]) -> Iterator[tuple[Outage | None, Outage | None]]:
    for number in range(max(len(old), len(new))):
        yield (old[number] if number < len(old) else None, new[number] if number < len(new) else None)
