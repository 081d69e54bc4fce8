"""The report itself: one pass over the material."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from quarantine.core.record.report import failures, outages
from quarantine.core.record.report.causes import Cause, CauseTally, PolicyScore, ScoreTally
from quarantine.core.record.report.failures import FailureRate, FailureTally, JobOutlook
from quarantine.core.record.report.holds import HoldCost, HoldTally
from quarantine.core.record.report.machines import MachineTally, WorstMachine
from quarantine.core.record.report.material import CaseGroup, Material, Part, ms_of
from quarantine.core.record.report.measure import Spread, Window
from quarantine.core.record.report.outages import OutageTally, PoolOutage, ProviderOutage
from quarantine.core.record.report.pools import PoolTime, pool_times
from quarantine.core.record.report.providers import ProviderScore, ProviderTally
from quarantine.core.record.report.times import TimeTally


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked besides the time: for jobs of how many GPUs, what a checkpoint costs, how many of the worst."""

    gpus: tuple[int, ...] = (1024,)
    checkpoint: timedelta = timedelta(minutes=5)
    worst: int = 10


@dataclass(frozen=True, slots=True)
class Report:
    """What the trail says about the time from `since` until before `until`. The rules of counting: docs/report.md."""

    since: datetime
    until: datetime
    wanted: Wanted
    clusters: tuple[str, ...]
    cases: int  # that were open, or their machines out, at some time
    causes: tuple[Cause, ...]
    times: Mapping[str, Spread | None]
    pools: tuple[PoolOutage, ...]
    providers: tuple[ProviderOutage, ...]
    provider_scores: tuple[ProviderScore, ...]
    failures: tuple[FailureRate, ...]
    all_failures: FailureRate | None  # of several pools together
    jobs: tuple[JobOutlook, ...]
    worst: tuple[WorstMachine, ...]
    machines: int  # that these cases were about
    policies: tuple[PolicyScore, ...]
    holds: tuple[HoldCost, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing happened, nothing was out and nothing was held."""
        return not (self.cases or self.pools or self.holds)


@dataclass(frozen=True, slots=True)
class _Local:
    """What is summed up cluster by cluster: pools of one name in two of them are two."""

    cluster: str
    outages: OutageTally
    failures: FailureTally


def report(material: Material, wanted: Wanted) -> Report:
    """Sum it up. Raises ValueError where the time is empty."""
    window = Window(ms_of(material.since), ms_of(material.until))
    if window.since >= window.until:
        raise ValueError(f"there is no time from {material.since} to {material.until}")
    everywhere = _Everywhere.of(window)
    local = [everywhere.part(part, pool_times(part.sizes, window)) for part in material.parts]
    rates = tuple(chain.from_iterable(one.failures.rates(one.cluster) for one in local))
    return Report(
        since=material.since,
        until=material.until,
        wanted=wanted,
        clusters=tuple(one.cluster for one in local),
        cases=everywhere.cases,
        causes=everywhere.causes.causes(),
        times=everywhere.times.times(),
        pools=tuple(chain.from_iterable(one.outages.by_pool(one.cluster) for one in local)),
        providers=outages.by_provider([one.outages for one in local]),
        provider_scores=everywhere.providers.scores(),
        failures=rates,
        all_failures=failures.overall(rates),
        jobs=failures.outlooks(rates, wanted.gpus, wanted.checkpoint),
        worst=everywhere.machines.worst(wanted.worst),
        machines=len(everywhere.machines.sums),
        policies=everywhere.scores.scores(),
        holds=everywhere.holds.costs(),
    )


@dataclass(slots=True)
class _Everywhere:
    """What is summed up over all clusters."""

    window: Window
    causes: CauseTally
    scores: ScoreTally
    times: TimeTally
    providers: ProviderTally
    machines: MachineTally
    holds: HoldTally
    cases: int = 0

    @classmethod
    def of(cls, window: Window) -> _Everywhere:
        return cls(
            window,
            CauseTally(window),
            ScoreTally(window),
            TimeTally(window),
            ProviderTally(window),
            MachineTally(),
            HoldTally(window),
        )

    def part(self, part: Part, pools: Mapping[str, PoolTime]) -> _Local:
        """Add a cluster, and sum up what is its own."""
        local = _Local(part.cluster, OutageTally(self.window, pools), FailureTally(self.window, pools))
        for group in part.cases:
            self._add(group, local)
        for machine in part.machines:
            self.machines.add(part.cluster, machine)
        for holds in part.holds:
            self.holds.add(part.cluster, holds)
        return local

    def _add(self, group: CaseGroup, local: _Local) -> None:
        self.cases += _lasting(group, self.window)
        local.outages.add(group)
        for tally in (self.causes, self.scores, self.times, self.providers, local.failures):
            tally.add(group)


def _lasting(group: CaseGroup, window: Window) -> int:
    """How many were open, or their machines out, at some time of the window."""
    since, until = window.since, window.until
    found = [
        True
        for opened, marked, back, ended in zip(group.opened, group.marked, group.back, group.ended, strict=True)
        if opened < until
        and (ended is None or ended >= since or (back >= since if back is not None else marked is not None))
    ]
    return len(found)
