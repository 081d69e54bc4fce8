"""Policy → query text. The forms, what they cost and what is wrong with the obvious ones: `docs/promql.md`.

A *reading* is one metric of one source of a signal; each is asked and judged by itself. For a reading there are four
questions: which devices *might* be bad (cheap, whole fleet), which of those *are* (exact, these devices alone), which
devices of open cases are *good again* (exact), and how many devices can be seen at all (slow pace).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

from quarantine.core.policy import LoadedPolicy
from quarantine.core.readings import Reading, readings
from quarantine.core.selectors import Labels, Narrow, grouping, names_node, narrowed, number, required_labels, select
from quarantine.core.trigger import Recovery, Trigger
from quarantine.core.units import format_duration, format_number

# --- The four questions -----------------------------------------------------------------------------------------------


def candidates(policy: LoadedPolicy, reading: Reading) -> str | None:
    """The cheap superset of the bad devices, as raw series or as device groups; None: ask `bad` of all at once."""
    trigger = policy.spec.trigger
    if reading.metric is None:
        return None
    if trigger.events is None:
        # Whatever is bad is bad now as well: a plain look at fresh samples finds every device that can qualify.
        return f"{_plausible(reading, _fresh(reading, None))} {_compare(trigger)}"
    selector = select(reading, None)
    by = grouping(reading.group)
    # The exact form looks back further than its window: its first step takes samples from before.
    window = format_duration(trigger.window + 2 * reading.signal.interval)
    high = f"max by ({by}) (max_over_time({selector}[{window}]))"
    low = f"min by ({by}) (min_over_time({selector}[{window}]))"
    return f"{high} - {low} >= {trigger.events}"


def bad(policy: LoadedPolicy, reading: Reading, devices: Sequence[Labels] | None) -> str:
    """The devices that the trigger finds bad; the value is what people want to see (now, or new events)."""
    trigger = policy.spec.trigger
    only = narrowed(reading.group, devices)
    series = _series(reading, only, trigger)
    if trigger.events is not None:
        text = f"({_more(reading, series, trigger.window)} >= {trigger.events})"
        text = f"({text}{_not_reset(reading, series, trigger.window)}){_unsaturated(reading, series)}"
        return text + _alive(reading, only, None)
    over = f"[{format_duration(trigger.window)}:{_step(reading)}]"
    bound, share = _compare(trigger), format_number(1 - trigger.tolerate)
    each = _series(reading, only, trigger, intervals=1)
    seen = f"count_over_time(({each}){over})"
    text = (
        f"(({series}) {bound})"
        f" and (count_over_time((({each}) {bound}){over}) >= {share} * {seen} - 1e-9)"
        f" and ({seen} >= {_least(trigger.coverage, trigger.window, reading)})"
    )
    return text + _alive(reading, only, (trigger.coverage, trigger.window))


def good(policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    """Those of `devices` that show positive evidence of health, under load, for the whole recovery time.

    Where the policy has other readings of the same exporter (several error counters), each that has a series of the
    device must say so: one that is quiet does not clear another's fault.
    """
    text = _healthy(policy, reading, load, devices)
    on = grouping(reading.group)
    for other in readings(reading.signal, reading.matchers):
        if other.key != reading.key and other.source.exporter == reading.source.exporter:
            seen = _series(other, narrowed(other.group, devices), policy.spec.trigger)
            text += f" unless on ({on}) (({seen}) unless on ({on}) ({_healthy(policy, other, load, devices)}))"
    return text


def _healthy(policy: LoadedPolicy, reading: Reading, load: Reading, devices: Sequence[Labels]) -> str:
    recovery = policy.spec.recovery
    assert recovery is not None  # noqa: S101  (nobody asks where nothing recovers)
    only = narrowed(reading.group, devices)
    each = _series(reading, only, policy.spec.trigger, intervals=1)
    over = f"[{format_duration(recovery.lasting)}:{_step(reading)}]"
    least = _least(recovery.coverage, recovery.lasting, reading)
    quiet = _quiet(recovery, reading, _series(reading, only, policy.spec.trigger), over)
    covered = f"(count_over_time(({each}){over}) >= {least})"
    work = _series(load, narrowed(load.group, devices), None, intervals=1)
    busy = (
        f"((avg_over_time(({work}){over}) > {format_number(recovery.load.above)})"
        f" and (count_over_time(({work}){over}) >= {least}))"
    )
    on = grouping(reading.group if load.device_labels else reading.node_labels)
    alive = _alive(reading, only, (recovery.coverage, recovery.lasting))
    return f"({quiet} and {covered} and on ({on}) {busy}{alive})"


def coverage(reading: Reading) -> str:
    """How many devices of each node can be seen now. One that no label names cannot be judged, and does not count."""
    required = tuple(f'{label}!=""' for label in required_labels(reading.source))
    named = reading.source.device.first if reading.source.device else ()
    either = [_series(reading, (*required, f'{label}!=""'), None) for label in named] or [_series(reading, None, None)]
    return f"count by ({grouping(reading.node_labels)}) ({' or '.join(either)})"


def describe(reading: Reading, devices: Sequence[Labels]) -> str:
    """The raw series of these devices, for the labels that people want to read (index, model, PCI address)."""
    if reading.metric is None:
        assert reading.source.expr is not None  # noqa: S101
        return reading.source.expr
    return _fresh(reading, narrowed(reading.group, devices))


def probes(policy: LoadedPolicy, reading: Reading, label: str, said: str) -> Mapping[str, str]:
    """What the trigger sees of the node that `label` names as `said`, in parts: `whynot` says what they mean."""
    trigger = policy.spec.trigger
    only = (names_node(reading, label, said),)
    series = _series(reading, only, trigger)
    over = f"[{format_duration(trigger.window)}:{_step(reading)}]"
    each = _series(reading, only, trigger, intervals=1)
    asked = {"now": series, "seen": f"count_over_time(({each}){over})"}
    if reading.metric is not None:
        raw = f"{select(reading, only)}[{format_duration(trigger.window)}]"
        asked["raw"] = f"max by ({grouping(reading.group)}) (last_over_time({raw}))"
        asked["raw_max"] = f"max by ({grouping(reading.group)}) (max_over_time({raw}))"
    if trigger.events is not None:
        asked["events"] = _more(reading, series, trigger.window)
        asked["resets"] = f"resets(({series})[{format_duration(2 * trigger.window)}:{_step(reading)}])"
    else:
        asked["over"] = f"count_over_time((({each}) {_compare(trigger)}){over})"
        extreme = "max" if trigger.above is not None else "min"
        asked["extreme"] = f"{extreme}_over_time(({series}){over})"
    return asked


def expected_samples(policy: LoadedPolicy, reading: Reading) -> tuple[int, int]:
    """(samples that the trigger's window should hold, the fewest that it must hold)."""
    trigger = policy.spec.trigger
    count = trigger.window / reading.signal.interval
    return math.floor(count), _least(trigger.coverage, trigger.window, reading)


# --- Pieces -----------------------------------------------------------------------------------------------------------


def _series(reading: Reading, only: Narrow, trigger: Trigger | None, *, intervals: int = 2) -> str:
    """The device's value, now: filtered and deduplicated before any window looks at it.

    A sample two intervals old is fresh enough to be seen. Where samples are counted over a window it stands for one:
    otherwise the last one before an exporter's death would be counted on and on.
    """
    keep = "min" if trigger is not None and trigger.below is not None else "max"
    value = f"({reading.source.expr})" if reading.metric is None else _fresh(reading, only, intervals)
    text = f"{keep} by ({grouping(reading.group)}) ({_plausible(reading, value)})"
    if reading.source.gate:
        text += f" and on ({grouping(reading.node_labels)}) ({reading.source.gate})"
    return text


def _fresh(reading: Reading, only: Narrow, intervals: int = 2) -> str:
    # Staleness markers and the five-minute lookback do not reach past last_over_time.
    return f"last_over_time({select(reading, only)}[{format_duration(intervals * reading.signal.interval)}])"


def _plausible(reading: Reading, text: str) -> str:
    bounds = reading.signal.plausible
    return f"{text} >= {number(bounds.min)} <= {number(bounds.max)}"


def _alive(reading: Reading, only: Narrow, over: tuple[float, timedelta] | None) -> str:
    """An exporter may serve its cache: the heartbeat must have moved all along, or within four intervals (None)."""
    beat = reading.source.heartbeat
    if beat is None:
        return ""
    share, window = over if over is not None else (0.0, 4 * reading.signal.interval)
    # It moves once an interval; at either end of the window one move may fall outside.
    moves = max(1, _least(share, window, reading) - 2)
    by = grouping(reading.group)
    changes = f"changes({select(reading, only, beat)}[{format_duration(window)}])"
    return f" and on ({by}) (sum by ({by}) ({changes}) >= {moves})"


def _more(reading: Reading, series: str, window: timedelta) -> str:
    """New events within the window. Not `increase`: it extrapolates, and rare events must be whole."""
    return f"({series}) - min_over_time(({series})[{format_duration(window)}:{_step(reading)}])"


def _not_reset(reading: Reading, series: str, window: timedelta) -> str:
    """A reset makes the window unknown, also one just before it: then the window's least value is the reset's."""
    over = f"[{format_duration(2 * window)}:{_step(reading)}]"
    return f" unless on ({grouping(reading.group)}) (resets(({series}){over}) > 0)"


def _quiet(recovery: Recovery, reading: Reading, series: str, over: str) -> str:
    if recovery.below is not None:
        return f"(max_over_time(({series}){over}) < {number(recovery.below)})"
    if recovery.above is not None:
        return f"(min_over_time(({series}){over}) > {number(recovery.above)})"
    still = f"({_more(reading, series, recovery.lasting)} == 0){_not_reset(reading, series, recovery.lasting)}"
    return f"({still}{_unsaturated(reading, series)})"


def _unsaturated(reading: Reading, series: str) -> str:
    """At its largest value a counter counts nothing more, so nothing is known."""
    top = reading.signal.saturates
    return "" if top is None else f" and (({series}) < {number(top)})"


def _compare(trigger: Trigger) -> str:
    if trigger.above is not None:
        return f"> {number(trigger.above)}"
    assert trigger.below is not None  # noqa: S101
    return f"< {number(trigger.below)}"


def _least(share: float, window: timedelta, reading: Reading) -> int:
    return max(1, math.floor(share * (window / reading.signal.interval) + 1e-9))


def _step(reading: Reading) -> str:
    return format_duration(reading.signal.interval)
