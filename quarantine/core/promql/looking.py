"""How many devices can be seen, and what is told to people about some of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

from quarantine.core.model import Device, DeviceKind
from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql import absence
from quarantine.core.promql.bounds import beyond, branches, counted, measured
from quarantine.core.promql.value import (
    Scope,
    each_name,
    fresh,
    least,
    mapped,
    more,
    seen_within,
    step,
    value,
    within,
)
from quarantine.core.readings import Reading
from quarantine.core.selectors import Labels, grouping, named_devices, number, select
from quarantine.core.trigger import Form
from quarantine.core.units import format_duration


def coverage(policy: LoadedPolicy, reading: Reading) -> str:
    """How many devices of each node can be seen now; for a trigger of absence, during the whole of its `for`."""
    if policy.spec.trigger.form is Form.ABSENT:
        return absence.coverage(policy.spec.trigger, reading, policy.spec.grace.driver)
    each = [value(reading, Scope(devices=named or None)) for named in each_name(reading)]
    return f"count by ({grouping(reading.node_key)}) ({' or '.join(each)})"


def uptime(reading: Reading, grace: timedelta) -> str:
    """For how many seconds each node has been up, at most a time: of more than the longest grace nothing depends.

    Of every node: one that is not told of may have booted just now.
    """
    return f"clamp_max({value(reading, Scope(), keep='min')}, {number(grace.total_seconds())})"


def describe(reading: Reading, devices: Sequence[Labels], since: timedelta | None = None) -> str:
    """The raw series of these devices, for the labels that people want to read (index, model, PCI address).

    `since`: also of those that were last seen so long ago.
    """
    scope = Scope.of(reading, devices)
    if reading.metric is None:
        assert reading.source.expr is not None  # noqa: S101
        return reading.source.expr
    return mapped(reading, scope, fresh(reading, scope) if since is None else within(reading, scope, since))


def others(policy: LoadedPolicy, reading: Reading, devices: Sequence[Device]) -> str | None:
    """What this reading says now of devices that another one finds bad; None where it cannot be told.

    A trigger of absence wants to know whether they are seen at all.
    """
    trigger = policy.spec.trigger
    scopes = [Scope(devices=only) for only in named_devices(reading, devices)]
    if not scopes or trigger.form is Form.ABOVE_SIBLINGS:
        return None
    if trigger.form is Form.ABSENT:
        each = [seen_within(reading, scope, trigger.window) for scope in scopes]
    elif trigger.form is Form.EVENTS:
        each = [more(reading, value(reading, scope), trigger.window) for scope in scopes]
    else:
        each = [measured(reading, scope, trigger.form) for scope in scopes]
    return each[0] if len(each) == 1 else " or ".join(f"({text})" for text in each)


def probes(policy: LoadedPolicy, reading: Reading, label: str, said: str) -> Mapping[str, str]:
    """What the trigger sees of the node that `label` names as `said`, in parts: `whynot` says what they mean."""
    trigger, form = policy.spec.trigger, policy.spec.trigger.form
    scope = Scope.of_node(reading, label, said)
    if form is Form.ABSENT:
        asked = {"seen": counted(value(reading, scope, intervals=1), trigger.window, reading)}
        of_node = reading.signal.device is DeviceKind.NODE
        return asked if of_node else asked | absence.lacking(trigger, reading, scope)
    series = measured(reading, scope, form)
    over = f"[{format_duration(trigger.window)}:{step(reading)}]"
    asked = {"now": series, "seen": counted(measured(reading, scope, form, intervals=1), trigger.window, reading)}
    asked |= _raw(policy, reading, scope)
    if form is Form.EVENTS:
        asked["events"] = more(reading, series, trigger.window)
        asked["resets"] = f"resets(({series})[{format_duration(2 * trigger.window)}:{step(reading)}])"
        return asked
    each = [
        counted(beyond(reading, scope.with_model(model), bound, intervals=1), trigger.window, reading)
        for bound, model in branches(reading, trigger.models, trigger)
    ]
    asked["over"] = " or ".join(each)
    asked["highest"] = f"max_over_time(({series}){over})"
    low = value(reading, scope, keep="min") if form is Form.OUTSIDE else series
    asked["lowest"] = f"min_over_time(({low}){over})"
    return asked


def _raw(policy: LoadedPolicy, reading: Reading, scope: Scope) -> dict[str, str]:
    """What the exporter said, implausible or not, with the device's model."""
    if reading.metric is None:
        return {}
    window = format_duration(policy.spec.trigger.window)
    model = (reading.source.model,) if reading.source.model else ()
    by, selector = grouping((*reading.group, *model)), select(reading, scope.devices)

    def last(function: str) -> str:
        return mapped(reading, scope, f"{function}({selector}[{window}])")

    return {
        "raw": f"max by ({by}) ({last('last_over_time')})",
        "raw_max": f"max by ({by}) ({last('max_over_time')})",
        "raw_min": f"min by ({by}) ({last('min_over_time')})",
    }


def expected_samples(policy: LoadedPolicy, reading: Reading) -> tuple[int, int]:
    """(samples that the trigger's window should hold, the fewest that it must hold)."""
    trigger = policy.spec.trigger
    count = trigger.window / reading.signal.interval
    return math.floor(count), least(trigger.coverage, trigger.window, reading)
