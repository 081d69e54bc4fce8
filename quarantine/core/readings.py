"""Readings: the metrics by which a signal is asked, each judged by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.signal import SignalSpec, Source
from quarantine.core.trigger import Form

NODE_PART = "quarantine_node"  # the label that a query gives the part of a node's label which is its name


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric of one source. `key` names it in answers and in the trail."""

    key: str
    signal: SignalSpec
    source: Source
    metric: str | None  # None: the source is an expression, which cannot be narrowed to devices
    matchers: Mapping[str, str]

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The labels that may name the node."""
        return self.source.node.first

    @property
    def device_labels(self) -> tuple[str, ...]:
        """The labels that may name the device; empty where it is the node."""
        device = self.source.device
        return (*device.first, *device.join) if device else ()

    @property
    def group(self) -> tuple[str, ...]:
        """What a device is aggregated by, so that a job change, MIG or a second exporter does not split it."""
        by_part = self.node_key if self.source.node.part is not None else ()
        return (*self.node_labels, *self.device_labels, *by_part)

    @property
    def node_key(self) -> tuple[str, ...]:
        """What a node is aggregated by: its labels, or one that the query makes of their part that is the name."""
        return self.node_labels if self.source.node.part is None else (NODE_PART,)

    @property
    def raw_labels(self) -> tuple[str, ...]:
        """Those of the group that the metric itself has: its node's may come from another one."""
        return self.device_labels if self.source.node.via is not None else (*self.node_labels, *self.device_labels)


def readings(signal: SignalSpec, matchers: Mapping[str, str]) -> tuple[Reading, ...]:
    """All readings of a signal, in the order in which its sources are written."""
    found = []
    for source in signal.sources:
        for metric in source.metrics or (None,):
            key = f"{source.exporter}/{metric or 'expr'}"
            found.append(Reading(key, signal, source, metric, matchers))
    return tuple(found)


def readings_of(policy: LoadedPolicy, rules: Rules) -> tuple[Reading, ...]:
    """The readings that a policy is judged by."""
    return readings(rules.signal_of(policy), rules.fleet.matchers)


def load_reading(policy: LoadedPolicy, rules: Rules, reading: Reading) -> Reading | None:
    """Where the load of a reading's devices is read; None where nothing recovers, or there is no such source."""
    recovery = policy.spec.recovery
    work = rules.signals.get(recovery.load.signal) if recovery is not None else None
    return load_among(work, reading, recovery.load.exporter) if recovery is not None and work is not None else None


def load_among(work: SignalSpec, reading: Reading, exporter: str | None) -> Reading | None:
    """The load signal's reading by the same exporter, or by the one named.

    Where the load is what the policy judges, that is the reading itself.
    """
    same = [r for r in readings(work, reading.matchers) if r.source.exporter == (exporter or reading.source.exporter)]
    return next((r for r in same if r == reading), next(iter(same), None))


def tie(reading: Reading, load: Reading) -> tuple[str, ...]:
    """Which labels tie a device to its load: all of the one that has fewer. Empty: the two cannot be told to be one.

    The load of an NVLink is its GPU's, that of a port may be its node's. A load that names its device by a label that
    this one does not have ties to nothing, unless it has all of this one's besides.
    """
    ours, theirs = frozenset(reading.group), frozenset(load.group)
    return load.group if theirs <= ours else reading.group if ours <= theirs else ()


def boot_grace(rules: Rules) -> timedelta | None:
    """The longest grace after boot that any policy grants; None: nobody needs to know how long a node has been up."""
    return max((p.spec.grace.boot for p in rules.policies if p.spec.grace.boot is not None), default=None)


def uptime_readings(rules: Rules) -> tuple[Reading, ...]:
    """The readings of the fleet's uptime signal; none where it names none."""
    signal = rules.signals.get(rules.fleet.uptime) if rules.fleet.uptime is not None else None
    return readings(signal, rules.fleet.matchers) if signal is not None else ()


def needs_uptime(policy: LoadedPolicy, *, found: bool) -> bool:
    """Whether a policy cannot be judged without the nodes' uptime, where its trigger's answers name something or not.

    What is absent may be found by counting, without any answer that names it.
    """
    return policy.spec.grace.boot is not None and (found or policy.spec.trigger.form is Form.ABSENT)
