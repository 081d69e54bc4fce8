"""What is not there any more. A node that shows nothing at all is blind, which says nothing of its devices.

Devices: those that are remembered and had no sample during the whole of the trigger's `for`, while others of their node
were seen, and while the node shows fewer than it did at most within the memory. Machines that are swapped and exporters
that rename a label change names and not numbers. How many there should be is not known here: `core.absence` compares
`coverage` with the inventory.

Nodes: coverage alone tells.
"""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.model import DeviceKind
from quarantine.core.promql.bounds import counted
from quarantine.core.promql.value import (
    Scope,
    alive,
    driver_stayed,
    each_name,
    least,
    mapped,
    seen_within,
    step,
    value,
    within,
)
from quarantine.core.readings import Reading
from quarantine.core.selectors import grouping
from quarantine.core.trigger import Trigger
from quarantine.core.units import format_duration

NOTHING = "vector(0) > 0"  # a question without an answer
_NAME = "quarantine_device"  # the device's name, whichever of its labels has it


def candidates(trigger: Trigger, reading: Reading) -> str | None:
    """Devices that were there and are not now, of nodes that still show others."""
    if reading.signal.device is DeviceKind.NODE or reading.metric is None:
        return None
    now = value(reading, Scope())
    gone = f"{_remembered(trigger, reading, Scope())} unless on ({_device(reading)}) ({_named(reading, now)})"
    return f"({gone}) and on ({grouping(reading.node_key)}) ({now})"


def bad(trigger: Trigger, reading: Reading, scope: Scope, grace: timedelta | None) -> str:
    """The devices that are absent; the value is how many their node lacks, which may be fewer than are named."""
    if reading.signal.device is DeviceKind.NODE:
        return NOTHING
    node, siblings = grouping(reading.node_key), scope.siblings
    seen = counted(value(reading, siblings, intervals=1), trigger.window, reading)
    # Also by the look that `coverage` counts: what is named here is not counted there, and is there until it is named.
    gone = _remembered(trigger, reading, scope)
    for look in (seen, _lately(trigger, reading, siblings)):
        gone += f" unless on ({_device(reading)}) ({_named(reading, look)})"
    enough = f"max by ({node}) ({seen}) >= {least(trigger.coverage, trigger.window, reading)}"
    return (
        f"(({gone}) * 0 + on ({node}) group_left () ({_lacking(trigger, reading, siblings)}))"
        f" and on ({node}) ({enough})"
        + alive(reading, siblings, (trigger.coverage, trigger.window), of_node=True)
        + driver_stayed(reading, siblings, grace, of_node=True)
    )


def coverage(trigger: Trigger, reading: Reading, grace: timedelta | None) -> str:
    """How many devices of each node were seen during the whole of `for`; one that was seen once counts.

    Only of nodes that were seen at its beginning and are now, by an exporter that is alive: one that has just begun to
    report, or has ceased to, lacks nothing that is known. (Of a node as the device, having been seen once is all.)
    Plain windows and looks: no subquery over the fleet, except for a grace of the driver.
    """
    node, window, fleet = grouping(reading.node_key), trigger.window, Scope()
    each = [_lately(trigger, reading, Scope(devices=named or None)) for named in each_name(reading)]
    text = how_many(reading, " or ".join(each))
    if reading.signal.device is DeviceKind.NODE or reading.metric is None:
        return text
    look = min(2 * reading.signal.interval, window)
    begun = mapped(reading, fleet, within(reading, fleet, look, window - look))
    return (
        f"{text} and on ({node}) (count by ({node}) ({begun}))"
        f" and on ({node}) (count by ({node}) ({value(reading, fleet)}))"
        + alive(reading, fleet, (trigger.coverage, window), of_node=True)
        + driver_stayed(reading, fleet, grace, of_node=True)
    )


def _lately(trigger: Trigger, reading: Reading, scope: Scope) -> str:
    """The devices that were seen during `for`; an interval longer, since the first sample in it may stand for that."""
    of_node = reading.signal.device is DeviceKind.NODE
    return seen_within(reading, scope, trigger.window + (timedelta(0) if of_node else reading.signal.interval))


def lacking(trigger: Trigger, reading: Reading, scope: Scope) -> dict[str, str]:
    """For people: how many a node shows now, and at most within the memory."""
    shown = how_many(reading, value(reading, scope))
    return {"shown": shown, "most": _most(trigger, reading, shown)}


def how_many(reading: Reading, text: str) -> str:
    """The devices of each node, by their names: while an exporter renames a label, both are there for a while."""
    if _alternatives(reading):
        text = f"count by ({_device(reading)}) ({_named(reading, text)})"
    return f"count by ({grouping(reading.node_key)}) ({text})"


def _lacking(trigger: Trigger, reading: Reading, siblings: Scope) -> str:
    shown = how_many(reading, value(reading, siblings))
    return f"({_most(trigger, reading, shown)} - {shown}) > 0"


def _most(trigger: Trigger, reading: Reading, shown: str) -> str:
    return f"max_over_time(({shown})[{format_duration(trigger.memory)}:{step(reading)}])"


def _remembered(trigger: Trigger, reading: Reading, scope: Scope) -> str:
    """The devices that were there, whatever they said: a GPU that is lost may leave nonsense behind before it goes.

    To look through all of the memory takes seconds of a fleet. So it is looked into thrice, each time as long as `for`:
    just before, after a quarter, and at its end. A device that goes is found by the first, in as many cycles as `for`
    holds; the others are for a controller that was away meanwhile.
    """
    window, longest = trigger.window, max(trigger.window, trigger.memory - trigger.window)
    looks = sorted({window, min(longest, max(window, trigger.memory / 4)), longest})
    text = " or ".join(mapped(reading, scope, within(reading, scope, window, ago)) for ago in looks)
    return _named(reading, f"count by ({grouping(reading.group)}) ({text})")


def _device(reading: Reading) -> str:
    """By which labels a device is the same as before."""
    return grouping((*reading.node_key, _NAME) if _alternatives(reading) else reading.group)


def _named(reading: Reading, text: str) -> str:
    """With the device's name in one label, where several may have it."""
    for label in reversed(_alternatives(reading)):
        text = f'label_replace({text}, "{_NAME}", "$1", "{label}", "(.+)")'
    return text


def _alternatives(reading: Reading) -> tuple[str, ...]:
    device = reading.source.device
    return device.first if device is not None and len(device.first) > 1 else ()
