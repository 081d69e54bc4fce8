"""Which devices are good again: positive evidence, under load. Not being found bad is none."""

from __future__ import annotations

from collections.abc import Sequence

from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql.absence import NOTHING, how_many
from quarantine.core.promql.bounds import branches, counted, excess, measured
from quarantine.core.promql.value import (
    Scope,
    alive,
    driver_stayed,
    each_name,
    least,
    more,
    not_reset,
    step,
    unsaturated,
    value,
)
from quarantine.core.readings import Reading, readings, tie
from quarantine.core.selectors import Labels, grouping, number, one_of, quote
from quarantine.core.trigger import Form, ModelRecovery, Recovery
from quarantine.core.units import format_duration, format_number

_SAID = "quarantine_said"  # the name by which a node was asked for


def good(policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    """Those of `devices` that show positive evidence of health, under load, for the whole recovery time.

    Where the policy has other readings of the same exporter (several error counters), each that has a series of the
    device must say so: one that is quiet does not clear another's fault.

    What was absent and is no device, but a node, is named by its node's label alone: the answer has how many devices it
    shows, each of them good by itself, under the name that was asked for.
    """
    nodes = [labels for labels in devices if _is_node(policy, reading, labels)]
    named = [labels for labels in devices if not _is_node(policy, reading, labels)]
    each = [_devices_again(policy, reading, load, named)] if named or not nodes else []
    for label in reading.node_key:
        said = sorted({labels[label] for labels in nodes if labels.get(label)})
        each += [_nodes_again(policy, reading, load, label, said)] if said else []
    return each[0] if len(each) == 1 else " or ".join(f"({text})" for text in each) or NOTHING


def _is_node(policy: LoadedPolicy, reading: Reading, labels: Labels) -> bool:
    absent = policy.spec.trigger.form is Form.ABSENT
    return absent and not any(labels.get(label) for label in reading.device_labels)


def _devices_again(policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    work = Scope.of(load, devices)
    text = _healthy(policy, reading, load, Scope.of(reading, devices), work)
    on, form = grouping(reading.group), policy.spec.trigger.form
    for other in readings(reading.signal, reading.matchers):
        if other.key != reading.key and other.source.exporter == reading.source.exporter:
            scope = Scope.of(other, devices)
            healthy = _healthy(policy, other, load, scope, work)
            text += f" unless on ({on}) (({measured(other, scope, form)}) unless on ({on}) ({healthy}))"
    return text


def _nodes_again(policy: LoadedPolicy, reading: Reading, load: Reading, label: str, said: Sequence[str]) -> str:
    """How many good devices each of the nodes has that `label` names.

    An address comes with the port of the exporter, and there may be two: the one that shows more is taken.
    """
    work = Scope.of_nodes(load, label, said) if label in load.node_key else Scope()
    each = [
        _healthy(policy, reading, load, Scope.of_nodes(reading, label, said, also=named), work)
        for named in each_name(reading)
    ]
    count = how_many(reading, " or ".join(each))
    most = f'max by ({_SAID}) (label_replace({count}, "{_SAID}", "$1", "{label}", {quote(one_of(reading, said))}))'
    return f'max by ({label}) (label_replace({most}, "{label}", "$1", "{_SAID}", "(.+)"))'


def _healthy(policy: LoadedPolicy, reading: Reading, load: Reading, scope: Scope, work: Scope) -> str:
    recovery, form = policy.spec.recovery, policy.spec.trigger.form
    assert recovery is not None  # noqa: S101  (nobody asks where nothing recovers)
    wanted = least(recovery.coverage, recovery.lasting, reading)
    quiet = _quiet(policy, recovery, reading, scope)
    covered = f"({counted(measured(reading, scope, form, intervals=1), recovery.lasting, reading)} >= {wanted})"
    grace = driver_stayed(reading, scope, policy.spec.grace.driver)
    tied = grouping(tie(reading, load) or reading.group)  # by all of its labels no device has another's load
    return (
        f"({quiet} and {covered} and on ({tied}) {_busy(recovery, reading, load, work)}"
        f"{alive(reading, scope, (recovery.coverage, recovery.lasting))}{grace})"
    )


def _busy(recovery: Recovery, reading: Reading, load: Reading, scope: Scope) -> str:
    wanted = least(recovery.coverage, recovery.lasting, reading)
    work = value(load, scope, intervals=1)
    over = f"[{format_duration(recovery.lasting)}:{step(reading)}]"
    average = f"avg_over_time(({work}){over}) > {format_number(recovery.load.above)}"
    return f"(({average}) and (count_over_time(({work}){over}) >= {wanted}))"


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
