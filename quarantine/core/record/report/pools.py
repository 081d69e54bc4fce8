"""How large pools were over time: what shares and rates are measured by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quarantine.core.record.report.material import Counted, ms_of
from quarantine.core.record.report.measure import Window


@dataclass(frozen=True, slots=True)
class PoolTime:
    """A pool's nodes and GPUs, each times how long it had them (ms), from `known_from` to the window's end.

    Nothing is known of the time before: it is no part of any share or rate.
    """

    known_from: int
    node_ms: int
    gpu_ms: int

    @property
    def gpus_per_node(self) -> float | None:
        """On average; None where its nodes do not say how many they have."""
        return self.gpu_ms / self.node_ms if self.node_ms and self.gpu_ms else None


def pool_times(sizes: Iterable[Counted], window: Window) -> Mapping[str, PoolTime]:
    """By pool; one of which nothing was counted before the window's end is not there."""
    by_pool: dict[str, list[Counted]] = {}
    for counted in sizes:
        by_pool.setdefault(counted.pool, []).append(counted)
    found = {pool: _pool_time(counts, window) for pool, counts in by_pool.items()}
    return {pool: time for pool, time in sorted(found.items()) if time.known_from < window.until}


def _pool_time(counts: list[Counted], window: Window) -> PoolTime:
    counts.sort(key=lambda counted: counted.census.at)
    starts = [ms_of(counted.census.at) for counted in counts]
    node_ms = gpu_ms = 0
    lengths = window.overlaps(starts, [*starts[1:], window.until])
    for counted, lasted in zip(counts, lengths, strict=True):
        node_ms += lasted * counted.census.nodes
        gpu_ms += lasted * counted.census.gpus
    return PoolTime(max(starts[0], window.since), node_ms, gpu_ms)
