"""How providers did: how fast they answered and replaced, whether they found what we did, and what they owe."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from quarantine.core.record.milestones import Fate
from quarantine.core.record.report.material import MS, CaseGroup, Column
from quarantine.core.record.report.measure import HOUR, Spread, Window, spread
from quarantine.core.record.report.times import lengths


@dataclass(frozen=True, slots=True)
class ProviderScore:
    """One provider. `told`, `asked` and `replaced`: in the window; an empty name: the fleet file does not say."""

    provider: str
    told: int  # cases of which it got a ticket
    asked: int  # cases for which it was asked for another machine
    acknowledged: Spread | None  # from asking to its word that it has seen that
    replaced: Spread | None  # from asking to the arrival
    waiting: int  # at the window's end: asked for, and neither come nor given up
    waiting_longest: timedelta | None
    confirmed: int  # of those that it was told of or asked for in the window
    refuted: int  # no fault found
    unsaid: int
    same_returned: int  # what came was what was sent away, or had a part of it that was bad
    hours_owed: float  # machine-hours in the window from asking for a replacement to its arrival


@dataclass(slots=True)
class _Sum:
    told: int = 0
    asked: int = 0
    acknowledged: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)
    same_returned: int = 0
    owed_ms: int = 0

    @property
    def anything(self) -> bool:
        """Whether anything of it is in the window."""
        return bool(self.told or self.asked or self.acknowledged or self.replaced or self.owed_ms)

    def score(self, provider: str) -> ProviderScore:
        return ProviderScore(
            provider=provider,
            told=self.told,
            asked=self.asked,
            acknowledged=spread(self.acknowledged),
            replaced=spread(self.replaced),
            waiting=len(self.waiting),
            waiting_longest=max(self.waiting) * MS if self.waiting else None,
            confirmed=self.fates[Fate.CONFIRMED.value],
            refuted=self.fates[Fate.REFUTED.value],
            unsaid=self.fates[Fate.RETURNED.value] + self.fates[Fate.OPEN.value],
            same_returned=self.same_returned,
            hours_owed=self.owed_ms / HOUR,
        )


@dataclass(slots=True)
class ProviderTally:
    """Sums by provider, filled group by group."""

    window: Window
    sums: dict[str, _Sum] = field(default_factory=dict)

    def add(self, group: CaseGroup) -> None:
        """Whatever a provider was told, asked or did in the window, or was still to do."""
        if not (any(group.ticket) or any(group.asked)):
            return
        into = self.sums.setdefault(group.provider, _Sum())
        since, until = self.window.since, self.window.until
        concerned = len(
            [
                True
                for told, asked in zip(group.ticket, group.asked, strict=True)
                if (told is not None and since <= told < until) or (asked is not None and since <= asked < until)
            ]
        )
        into.told += self.window.count(group.ticket)
        into.asked += self.window.count(group.asked)
        into.acknowledged += lengths(self.window, group.asked, group.acknowledged)
        into.replaced += lengths(self.window, group.asked, group.swapped)
        into.fates[group.fate] += concerned
        into.same_returned += concerned if group.same_returned else 0
        ends = _ends(group)
        into.owed_ms += sum(self.window.overlaps(group.asked, ends))
        into.waiting += [
            until - at
            for at, end in zip(group.asked, ends, strict=True)
            if at is not None and at < until and (end is None or end >= until)
        ]

    def scores(self) -> tuple[ProviderScore, ...]:
        """By name."""
        return tuple(total.score(provider) for provider, total in sorted(self.sums.items()) if total.anything)


def _ends(group: CaseGroup) -> Column:
    """When waiting ended: another machine came, or the case is over without one."""
    return [
        swapped if swapped is not None else ended if back is None or (ended is not None and ended < back) else back
        for swapped, back, ended in zip(group.swapped, group.back, group.ended, strict=True)
    ]
