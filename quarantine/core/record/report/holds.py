"""What was held back, by what, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import compress

from quarantine.core.record.report.material import MS, OF_CASE, OF_NODE, Column, HoldGroup
from quarantine.core.record.report.measure import HOUR, Spread, Window, spread


@dataclass(frozen=True, slots=True)
class HoldCost:
    """Holds of one kind that stood at some time in the window, each for as long as it stood in it."""

    held_by: str
    policy: str  # empty: no policy's word was held back
    count: int
    began: int  # of them, in the window
    standing: int  # of them, at its end
    total: timedelta
    lengths: Spread
    led_to_quarantine: int  # the machine was taken out by the decision that ended the hold, in the window
    in_service: float  # machine-hours that a suspect stayed in service under it
    machines: int


@dataclass(slots=True)
class _Sum:
    lengths: list[int] = field(default_factory=list)
    began: int = 0
    standing: int = 0
    led: int = 0
    in_service: int = 0
    nodes: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True)
class HoldTally:
    """Sums of holds, of all clusters, filled group by group."""

    window: Window
    sums: dict[tuple[str, str], _Sum] = field(default_factory=dict)

    def add(self, cluster: str, group: HoldGroup) -> None:
        """Whatever stood in the window."""
        standing = _standing(group, self.window)
        begun, over, out = standing.since, standing.until, standing.out
        if not begun:
            return
        into = self.sums.setdefault((group.held_by, group.policy), _Sum())
        since, until = self.window.since, self.window.until
        lengths = self.window.overlaps(begun, over)
        into.lengths += lengths
        into.began += len([True for at in begun if at >= since])
        into.standing += len([True for at in over if at is None or at >= until])
        into.nodes.update((cluster, node) for node in set(standing.node) if node)
        if group.about == OF_NODE:
            into.in_service += sum(lengths)
        elif group.about == OF_CASE:
            taken_out = [end for end, at in zip(over, out, strict=True) if end is not None and end == at]
            into.led += len([True for at in taken_out if at < until])
            into.in_service += sum(self.window.overlaps(begun, _first(over, out)))

    def costs(self) -> tuple[HoldCost, ...]:
        """What kept suspects in service for longest first, then what stood for longest."""
        found = [_cost(*key, total) for key, total in self.sums.items() if total.lengths]
        return tuple(sorted(found, key=lambda cost: (-cost.in_service, -cost.total, cost.held_by, cost.policy)))


def _standing(group: HoldGroup, window: Window) -> HoldGroup:
    """Those of the group that stood in the window."""
    stood = [
        since < window.until and (until is None or until >= window.since)
        for since, until in zip(group.since, group.until, strict=True)
    ]
    if all(stood):
        return group
    return group._replace(
        node=list(compress(group.node, stood)),
        since=list(compress(group.since, stood)),
        until=list(compress(group.until, stood)),
        out=list(compress(group.out, stood)),
    )


def _first(over: Column, out: Column) -> Column:
    """Until when the suspect was in service under it: the hold was over, or its machine was taken out."""
    return [end if at is None or (end is not None and end < at) else at for end, at in zip(over, out, strict=True)]


def _cost(held_by: str, policy: str, total: _Sum) -> HoldCost:
    lengths = spread(total.lengths)
    if lengths is None:
        raise ValueError(f"no hold by {held_by} was counted")
    return HoldCost(
        held_by=held_by,
        policy=policy,
        count=lengths.count,
        began=total.began,
        standing=total.standing,
        total=sum(total.lengths) * MS,
        lengths=lengths,
        led_to_quarantine=total.led,
        in_service=total.in_service / HOUR,
        machines=len(total.nodes),
    )
