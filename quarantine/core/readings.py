"""Readings: the metrics by which a signal is asked, each judged by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.signal import SignalSpec, Source


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
        return (*self.node_labels, *self.device_labels)


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
    """Where the load of a reading's devices is read: the recovery's load signal, by the same exporter or the one named.

    None where nothing recovers, or there is no such source.
    """
    recovery = policy.spec.recovery
    signal = rules.signals.get(recovery.load.signal) if recovery is not None else None
    if recovery is None or signal is None:
        return None
    exporter = recovery.load.exporter or reading.source.exporter
    same = (r for r in readings(signal, rules.fleet.matchers) if r.source.exporter == exporter)
    return next(same, None)
