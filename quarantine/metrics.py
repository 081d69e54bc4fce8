"""The controller's own metrics, for a Prometheus to scrape.

What stands is read off what the last cycle left (`quarantine.gauges`), and counted nowhere. What happened is counted by
this process: cycles, how long their stages took, decisions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from prometheus_client import Counter as Counting
from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from quarantine import __version__
from quarantine.controller import CycleReport
from quarantine.core.case import Effect
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.errors import LedgerUnavailable, OtherCluster, SchemaMismatch
from quarantine.core.law import Law
from quarantine.core.model import Mode
from quarantine.gauges import gauges

STAGES = ("load", "rules", "observe", "plan", "record", "act")
OUTCOMES = ("complete", "incomplete", "failed")  # all answered; it came to its end; it ended early
_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0)


# Of machines: what charts mark, and count from nought.
_CHARTED = (Action.QUARANTINE, Action.EVICT, Action.STEP, Action.SWAP, Action.RELEASE, Action.DISMISS)


class OwnMetrics(Collector):
    """Scraped by other threads than the cycle's."""

    def __init__(self, law: Law | None = None, interval: timedelta | None = None) -> None:
        """`law`: what is in force before the first cycle, where that is known. `interval`: from cycle to cycle."""
        self._law = law
        self._interval = interval
        self._stood: tuple[GaugeMetricFamily, ...] = ()
        self._cycles = Counting("quarantine_cycles", "Cycles of this process by outcome.", ["outcome"], registry=None)
        self._stages = Histogram(
            "quarantine_cycle_duration_seconds",
            "How long the stages of cycles took that came to their end.",
            ["stage"],
            registry=None,
            buckets=_BUCKETS,
        )
        self._decisions = Counting(
            "quarantine_decisions",
            "What this process decided; `held`: it would have, had nothing stood in the way; `suspected`: to end a "
            "case whose machine was never out.",
            ["action", "kind", "pool"],
            registry=None,
        )
        for outcome in OUTCOMES:
            self._cycles.labels(outcome)
        for stage in STAGES:
            self._stages.labels(stage)
        self._completed: datetime | None = None
        self._writable: bool | None = None
        if law is not None:
            self._show_zeros(law)

    def begun(self, law: Law) -> None:
        """The cycles begin, with this in force."""
        self._law = law
        self._show_zeros(law)

    def without_ledger(self) -> None:
        """They cannot begin for want of the ledger."""
        self._writable = False

    def standby(self) -> None:
        """Another replica leads: what this one saw when it led itself is of the past, and told no more."""
        self._stood, self._completed, self._writable = (), None, None

    def after(self, report: CycleReport) -> None:
        """A cycle ended."""
        self._law = report.law or self._law
        if report.law is not None:
            self._show_zeros(report.law)
        self._completed = report.at if report.error is None else self._completed
        self._writable = not isinstance(report.error, LedgerUnavailable | SchemaMismatch | OtherCluster)
        self._stood = tuple(gauges(report)) or self._stood
        self._count(report)

    def _count(self, report: CycleReport) -> None:
        if report.error is not None:
            self._cycles.labels("failed").inc()
            return
        self._cycles.labels("complete" if report.complete else "incomplete").inc()
        for stage, seconds in report.seconds.items():
            self._stages.labels(stage).observe(seconds)
        for decision in report.plan.decisions if report.plan is not None else ():
            self._decisions.labels(decision.action.value, _kind(decision), _pool(decision, report.state)).inc()

    def _show_zeros(self, law: Law) -> None:
        """What begins at 1 has not increased, to Prometheus: the first decision of its kind would be on no chart."""
        for pool in law.rules.fleet.pools:
            for action in _CHARTED:
                self._decisions.labels(action.value, Kind.DECIDED.value, pool.name)

    def collect(self) -> Iterator[Metric]:
        """For the registry."""
        for counted in (self._cycles, self._stages, self._decisions):
            yield from counted.collect()
        yield from self._stood
        yield GaugeMetricFamily(
            "quarantine_leader",
            "1 where this process was its cluster's writer in its last cycle.",
            bool(self._writable),
        )
        if self._interval is not None:
            yield GaugeMetricFamily(
                "quarantine_cycle_interval_seconds",
                "From one cycle's start to the next, by the settings.",
                self._interval.total_seconds(),
            )
        build = GaugeMetricFamily("quarantine_build_info", "1, of this version.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        if self._writable is not None:
            yield GaugeMetricFamily(
                "quarantine_ledger_writable",
                "1 where the last cycle could write its ledger; 0: nothing is done to the cluster until one can.",
                self._writable,
            )
        if self._law is not None:
            yield from self._in_force(self._law)
        if self._completed is not None:
            yield GaugeMetricFamily(
                "quarantine_cycle_last_completed_timestamp_seconds",
                "Unix time that the last completed cycle looked at.",
                self._completed.timestamp(),
            )

    def _in_force(self, law: Law) -> Iterator[GaugeMetricFamily]:
        files = {one.file: 0 for one in law.in_force.files} | {one.file: 1 for one in law.in_force.broken}
        broken = GaugeMetricFamily(
            "quarantine_policy_file_broken",
            "1 where the present version of a policy file, or of a directory of them, is not in force.",
            labels=["file"],
        )
        for file, value in sorted(files.items()):
            broken.add_metric([file.encode("utf-8", "backslashreplace").decode()], value)
        yield broken
        yield GaugeMetricFamily(
            "quarantine_policy_files", "Policy files of which a version is in force.", len(law.in_force.files)
        )
        modes = Counter(policy.spec.mode for policy in law.rules.policies)
        policies = GaugeMetricFamily(
            "quarantine_policies",
            "Policies in force by mode; one that is new in its version counts as observing until it has settled.",
            labels=["mode"],
        )
        for mode in Mode:
            policies.add_metric([mode.value], modes[mode])
        yield policies


def _kind(decision: Decision) -> str:
    if decision.held_by is not None:
        return "held"
    suspected = decision.action is Action.DISMISS and Effect.UNMARK not in decision.effects
    return "suspected" if suspected else decision.kind.value


def _pool(decision: Decision, state: State | None) -> str:
    """Of the machine that a decision is about; empty where it is about none, or about one of no pool."""
    case = state.cases.get(decision.case) if state is not None and decision.case is not None else None
    return case.pool if case is not None else decision.pool
