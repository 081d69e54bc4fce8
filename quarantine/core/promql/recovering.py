"""Which devices are good again: positive evidence, under load. Not being found bad is none."""

from __future__ import annotations

from collections.abc import Sequence

from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql.bounds import branches, counted, excess, measured
from quarantine.core.promql.value import (
    Scope,
    alive,
    driver_stayed,
    least,
    more,
    not_reset,
    step,
    unsaturated,
    value,
)
from quarantine.core.readings import Reading, readings
from quarantine.core.selectors import Labels, grouping, number
from quarantine.core.trigger import Form, ModelRecovery, Recovery
from quarantine.core.units import format_duration, format_number


def good(policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    """Those of `devices` that show positive evidence of health, under load, for the whole recovery time.

    Where the policy has other readings of the same exporter (several error counters), each that has a series of the
    device must say so: one that is quiet does not clear another's fault.
    """
    text = _healthy(policy, reading, load, devices)
    on, form = grouping(reading.group), policy.spec.trigger.form
    for other in readings(reading.signal, reading.matchers):
        if other.key != reading.key and other.source.exporter == reading.source.exporter:
            seen = measured(other, Scope.of(other, devices), form)
            text += f" unless on ({on}) (({seen}) unless on ({on}) ({_healthy(policy, other, load, devices)}))"
    return text


def _healthy(policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    recovery, form = policy.spec.recovery, policy.spec.trigger.form
    assert recovery is not None  # noqa: S101  (nobody asks where nothing recovers)
    scope = Scope.of(reading, devices)
    wanted = least(recovery.coverage, recovery.lasting, reading)
    quiet = _quiet(policy, recovery, reading, scope)
    covered = f"({counted(measured(reading, scope, form, intervals=1), recovery.lasting, reading)} >= {wanted})"
    grace = driver_stayed(reading, scope, policy.spec.grace.driver)
    return (
        f"({quiet} and {covered} and on ({_shared(reading, load)}) {_busy(recovery, reading, load, devices)}"
        f"{alive(reading, scope, (recovery.coverage, recovery.lasting))}{grace})"
    )


def _busy(recovery: Recovery, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    wanted = least(recovery.coverage, recovery.lasting, reading)
    work = value(load, Scope.of(load, devices), intervals=1)
    over = f"[{format_duration(recovery.lasting)}:{step(reading)}]"
    average = f"avg_over_time(({work}){over}) > {format_number(recovery.load.above)}"
    return f"(({average}) and (count_over_time(({work}){over}) >= {wanted}))"


def _shared(reading: Reading, load: Reading) -> str:
    """Which labels tie a device to its load: all of the load's, if the device has them.

    The load of an NVLink is its GPU's, that of a port may be its node's. A load that names its device by a label that
    this one does not have ties to nothing: then all labels must agree, and none is evidence.
    """
    return grouping(load.group if set(load.group) <= set(reading.group) else reading.group)


def _quiet(policy: LoadedPolicy, recovery: Recovery, reading: Reading, scope: Scope) -> str:
    trigger = policy.spec.trigger
    if trigger.form is Form.ABSENT:
        return f"({value(reading, scope)})"  # it is there
    if trigger.form is Form.EVENTS:
        series = value(reading, scope)
        still = f"({more(reading, series, recovery.lasting)} == 0){not_reset(reading, series, recovery.lasting)}"
        return f"({still}{unsaturated(reading, series)})"
    each = [
        _within(recovery, reading, scope.with_model(model), bound, siblings=trigger.form is Form.ABOVE_SIBLINGS)
        for bound, model in branches(reading, recovery.models, recovery)
    ]
    return each[0] if len(each) == 1 else f"({' or '.join(each)})"


def _within(
    recovery: Recovery, reading: Reading, scope: Scope, bound: Recovery | ModelRecovery, *, siblings: bool
) -> str:
    """The whole time on the right side of a bound, or of two."""
    over = f"[{format_duration(recovery.lasting)}:{step(reading)}]"
    sides = []
    if bound.below is not None:
        series = excess(reading, scope) if siblings else value(reading, scope)
        sides.append(f"(max_over_time(({series}){over}) < {number(bound.below)})")
    if bound.above is not None:
        sides.append(f"(min_over_time(({value(reading, scope, keep='min')}){over}) > {number(bound.above)})")
    return sides[0] if len(sides) == 1 else f"({' and '.join(sides)})"
