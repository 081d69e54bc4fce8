"""Machines out of service: for how many hours, of which pool, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from quarantine.core.record.report.material import CaseGroup
from quarantine.core.record.report.measure import HOUR, Window
from quarantine.core.record.report.pools import PoolTime


@dataclass(frozen=True, slots=True)
class PoolOutage:
    """A pool's machine-hours out of service because of us: from the taint until it was taken off.

    `hours_of_pool`: those that all of its machines had while its size is known; `share` and `gpu_hours` are None where
    that was at no time, and `gpu_hours` where its nodes do not say how many GPUs they have.
    """

    cluster: str
    pool: str
    outages: int  # that were under way at some time
    still_out: int  # at the window's end
    hours: float
    hours_of_pool: float | None
    share: float | None
    gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class ProviderOutage:
    """As `PoolOutage`, by who replaces the machine; an empty name: the fleet file does not say."""

    provider: str
    outages: int
    still_out: int
    hours: float


@dataclass(slots=True)
class _Sum:
    outages: int = 0
    still_out: int = 0
    ms: int = 0
    known_ms: int = 0  # while the pool's size is known


@dataclass(slots=True)
class OutageTally:
    """Sums of one cluster's outages, filled group by group."""

    window: Window
    pools: Mapping[str, PoolTime]
    sums: dict[tuple[str, str], _Sum] = field(default_factory=dict)  # by pool and provider

    def add(self, group: CaseGroup) -> None:
        """Whatever was out at some time in the window."""
        out = self.window.overlaps(group.marked, group.back)
        into = self.sums.setdefault((group.pool, group.provider), _Sum())
        into.outages += len(out) - out.count(0)
        into.still_out += _still_out(group, self.window.until)
        into.ms += sum(out)
        known = self.pools.get(group.pool)
        if known is not None:
            always = known.known_from == self.window.since
            within = out if always else Window(known.known_from, self.window.until).overlaps(group.marked, group.back)
            into.known_ms += sum(within)

    def by_pool(self, cluster: str) -> tuple[PoolOutage, ...]:
        """Those of which machines were out, by name."""
        return tuple(
            _pool_outage(cluster, pool, total, self.pools.get(pool))
            for pool, total in sorted(_total({key: key[0] for key in self.sums}, self.sums).items())
            if total.outages
        )


def by_provider(tallies: Sequence[OutageTally]) -> tuple[ProviderOutage, ...]:
    """Of all clusters, by name."""
    found: dict[str, _Sum] = {}
    for tally in tallies:
        for provider, total in _total({key: key[1] for key in tally.sums}, tally.sums).items():
            _add(found.setdefault(provider, _Sum()), total)
    return tuple(
        ProviderOutage(name, s.outages, s.still_out, s.ms / HOUR) for name, s in sorted(found.items()) if s.outages
    )


def _still_out(group: CaseGroup, until: int) -> int:
    still = [
        True
        for marked, back in zip(group.marked, group.back, strict=True)
        if marked is not None and marked < until and (back is None or back >= until)
    ]
    return len(still)


def _total(names: Mapping[tuple[str, str], str], sums: Mapping[tuple[str, str], _Sum]) -> dict[str, _Sum]:
    found: dict[str, _Sum] = {}
    for key, name in names.items():
        _add(found.setdefault(name, _Sum()), sums[key])
    return found


def _add(into: _Sum, more: _Sum) -> None:
    into.outages += more.outages
    into.still_out += more.still_out
    into.ms += more.ms
    into.known_ms += more.known_ms


def _pool_outage(cluster: str, pool: str, total: _Sum, known: PoolTime | None) -> PoolOutage:
    found = PoolOutage(cluster, pool, total.outages, total.still_out, total.ms / HOUR, None, None, None)
    if known is None or not known.node_ms:
        return found
    each = known.gpus_per_node
    return replace(
        found,
        hours_of_pool=known.node_ms / HOUR,
        share=total.known_ms / known.node_ms,
        gpu_hours=None if each is None else found.hours * each,
    )
