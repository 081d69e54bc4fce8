"""How often machines fail, and what that means for a training job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from quarantine.core.case import Phase
from quarantine.core.record.milestones import Fate
from quarantine.core.record.report import job, poisson
from quarantine.core.record.report.material import CaseGroup, Column
from quarantine.core.record.report.measure import DAY, Window
from quarantine.core.record.report.pools import PoolTime

PER = 1000  # node-days


@dataclass(frozen=True, slots=True)
class FailureRate:
    """A pool's failures while its size is known, per 1,000 node-days, with the exact 95 % interval of that rate.

    `uncounted`: failures at times of which no size is known; they are in no rate. An empty pool: all that are known.
    """

    cluster: str
    pool: str
    failures: int
    confirmed: int  # of them
    uncounted: int
    node_days: float
    gpus_per_node: int | None
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """What a pool's rate means for a job of so many GPUs. `at_least` and `at_most` are by the ends of the interval.

    `mean` and the intervals between checkpoints are None where nothing failed: there is only a bound then.
    """

    cluster: str
    pool: str
    gpus: int
    nodes: int
    mean: timedelta | None  # time to failure
    at_least: timedelta
    at_most: timedelta | None
    young: timedelta | None
    daly: timedelta | None


def failed_at(group: CaseGroup) -> Column:
    """When a machine failed (ms), by each of these cases; None where it is no failure.

    One is what was taken out or confirmed, and not dismissed. A machine that is new here and has to prove itself has
    not been in service.
    """
    if group.phase == Phase.DISMISSED or group.fate == Fate.REFUTED or (group.gate and not group.policy):
        return []
    if group.fate != Fate.CONFIRMED:
        return group.out
    return [opened if out is None else out for opened, out in zip(group.opened, group.out, strict=True)]


@dataclass(slots=True)
class _Sum:
    failures: int = 0
    confirmed: int = 0
    uncounted: int = 0


@dataclass(slots=True)
class FailureTally:
    """Counts of one cluster's failures, filled group by group."""

    window: Window
    pools: Mapping[str, PoolTime]
    sums: dict[str, _Sum] = field(default_factory=dict)

    def add(self, group: CaseGroup) -> None:
        """What failed in the window."""
        known = self.pools.get(group.pool)
        failed = failed_at(group)
        total, counted = self.window.count(failed), 0
        if known is not None and known.node_ms:
            always = known.known_from == self.window.since
            counted = total if always else Window(known.known_from, self.window.until).count(failed)
        into = self.sums.setdefault(group.pool, _Sum())
        into.failures += counted
        into.confirmed += counted if group.fate == Fate.CONFIRMED else 0
        into.uncounted += total - counted

    def rates(self, cluster: str) -> tuple[FailureRate, ...]:
        """Of every pool whose size is known or of which a machine failed, by name."""
        return tuple(
            _rate(cluster, pool, self.sums.get(pool, _Sum()), self.pools.get(pool))
            for pool in sorted({*self.pools, *(pool for pool, total in self.sums.items() if total.uncounted)})
        )


def overall(rates: Sequence[FailureRate]) -> FailureRate | None:
    """All pools whose size is known, as one; None unless there are several."""
    known = [rate for rate in rates if rate.rate is not None]
    if len(known) < 2:
        return None
    total = _Sum(sum(r.failures for r in known), sum(r.confirmed for r in known), sum(r.uncounted for r in rates))
    node_ms = round(sum(r.node_days for r in known) * DAY)
    return _rate("", "", total, PoolTime(0, node_ms, 0))


def outlooks(rates: Iterable[FailureRate], sizes: Sequence[int], cost: timedelta) -> tuple[JobOutlook, ...]:
    """For jobs of so many GPUs, in each pool whose rate and GPUs are known; `cost`: of writing one checkpoint."""
    return tuple(
        _outlook(rate, gpus, cost)
        for rate in rates
        if rate.rate is not None and rate.gpus_per_node is not None
        for gpus in sizes
    )


def _rate(cluster: str, pool: str, total: _Sum, known: PoolTime | None) -> FailureRate:
    node_days = known.node_ms / DAY if known is not None else 0.0
    each = known.gpus_per_node if known is not None else None
    low = high = rate = None
    if node_days:
        rate = total.failures / node_days * PER
        low, high = (end / node_days * PER for end in poisson.interval(total.failures))
    return FailureRate(
        cluster=cluster,
        pool=pool,
        failures=total.failures,
        confirmed=total.confirmed,
        uncounted=total.uncounted,
        node_days=node_days,
        gpus_per_node=None if each is None else max(1, round(each)),
        rate=rate,
        low=low,
        high=high,
    )


def _outlook(rate: FailureRate, gpus: int, cost: timedelta) -> JobOutlook:
    nodes = -(-gpus // (rate.gpus_per_node or 1))
    mean = job.mean_time_to_failure(nodes, rate.rate / PER) if rate.rate else None
    return JobOutlook(
        cluster=rate.cluster,
        pool=rate.pool,
        gpus=gpus,
        nodes=nodes,
        mean=mean,
        at_least=job.mean_time_to_failure(nodes, (rate.high or 0.0) / PER),
        at_most=job.mean_time_to_failure(nodes, rate.low / PER) if rate.low else None,
        young=None if mean is None else job.young(cost, mean),
        daly=None if mean is None else job.daly(cost, mean),
    )
