"""The machines that cost most: lemons are found by what is held against them again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nsmallest

from quarantine.core.record.report.material import MachineSum
from quarantine.core.record.report.measure import HOUR


@dataclass(frozen=True, slots=True)
class WorstMachine:
    """A machine by what happened to it in the window.

    `score`: one for every case that was opened, one for every time that it was taken out, one for every one of which
    the provider was told; cases that were refuted count nothing.
    """

    machine: str  # `subjects.machine_key`; empty: what it is made of was not told
    nodes: tuple[str, ...]  # the names that it had, the latest first
    clusters: tuple[str, ...]
    pool: str
    provider: str
    score: int
    opened: int
    out: int
    told: int
    refuted: int
    hours_out: float


@dataclass(slots=True)
class _Sum:
    machine: str
    names: dict[tuple[str, str], int] = field(default_factory=dict)  # (cluster, node) → when a case was last opened
    last: int = -1
    pool: str = ""
    provider: str = ""
    score: int = 0
    opened: int = 0
    out: int = 0
    told: int = 0
    refuted: int = 0
    ms: int = 0


@dataclass(slots=True)
class MachineTally:
    """Sums by machine, of all clusters, filled row by row."""

    sums: dict[str, _Sum] = field(default_factory=dict)

    def add(self, cluster: str, row: MachineSum) -> None:
        """What happened to it under one name. One that does not tell its hardware is known by its node."""
        into = self.sums.setdefault(row.machine or f"{cluster}/{row.node}", _Sum(row.machine))
        into.opened += row.opened
        into.out += row.out
        into.told += row.told
        into.ms += row.out_ms
        if row.refuted:
            into.refuted += row.opened
        else:
            into.score += row.opened + row.out + row.told
        name = (cluster, row.node)
        into.names[name] = max(row.last, into.names.get(name, -1))
        if row.last > into.last:
            into.last, into.pool, into.provider = row.last, row.pool, row.provider

    def worst(self, most: int) -> tuple[WorstMachine, ...]:
        """Those that have a score at all, the highest first; then the one that was out the longest."""
        counted = ((key, total) for key, total in self.sums.items() if total.score)
        found = nsmallest(most, counted, key=lambda pair: (-pair[1].score, -pair[1].ms, pair[0]))
        return tuple(_worst(total) for _, total in found)


def _worst(total: _Sum) -> WorstMachine:
    names = sorted(total.names, key=lambda name: (-total.names[name], name))
    return WorstMachine(
        machine=total.machine,
        nodes=tuple(dict.fromkeys(node for _, node in names)),
        clusters=tuple(dict.fromkeys(cluster for cluster, _ in names)),
        pool=total.pool,
        provider=total.provider,
        score=total.score,
        opened=total.opened,
        out=total.out,
        told=total.told,
        refuted=total.refuted,
        hours_out=total.ms / HOUR,
    )
