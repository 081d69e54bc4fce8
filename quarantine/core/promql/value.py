"""The device's value, now: filtered and deduplicated before any window looks at it. What all questions are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal, Self

from quarantine.core.readings import NODE_PART, Reading
from quarantine.core.selectors import (
    Labels,
    Narrow,
    grouping,
    names_node,
    names_nodes,
    narrowed,
    narrowed_to_nodes,
    number,
    quote,
    required_labels,
    select,
)
from quarantine.core.units import format_duration

Keep = Literal["max", "min"]  # of several series of one device, the one that the trigger would mind


@dataclass(frozen=True, slots=True)
class Scope:
    """Which series a question is put to. None of a field means: the whole fleet's."""

    devices: Narrow = None
    nodes: Narrow = None  # all devices of the nodes that `devices` are on
    mapped: tuple[str, ...] = ()  # matchers of the mapping metric, where there is one
    model: tuple[str, ...] = ()  # matchers of one model's devices

    @classmethod
    def of(cls, reading: Reading, devices: Sequence[Labels] | None) -> Self:
        """That of some devices, named by the labels of their group."""
        if devices is None:
            return cls()
        by_node = narrowed_to_nodes(reading, devices)
        own = narrowed(reading.raw_labels, devices) or None
        if reading.source.node.via is not None:
            return cls(devices=own, mapped=by_node)
        return cls(devices=own, nodes=by_node or None)

    @classmethod
    def of_node(cls, reading: Reading, label: str, said: str) -> Self:
        """That of all devices of a node, which `label` names as `said`."""
        only = (names_node(reading, label, said),)
        return cls(mapped=only) if reading.source.node.via is not None else cls(devices=only, nodes=only)

    @classmethod
    def of_nodes(cls, reading: Reading, label: str, said: Sequence[str], *, also: Iterable[str] = ()) -> Self:
        """That of all devices of some nodes, which `label` of the reading's node key names.

        `also`: what the series must say besides; they must name what the reading requires anyhow.
        """
        by_node = names_nodes(reading, label, said)
        named = (*(f'{name}!=""' for name in required_labels(reading.source)), *also)
        if reading.source.node.via is not None:
            return cls(devices=tuple(dict.fromkeys(named)), mapped=by_node)
        only = tuple(dict.fromkeys((*by_node, *named)))
        return cls(devices=only, nodes=by_node)

    @property
    def siblings(self) -> Self:
        """All devices of the nodes, of whatever model."""
        return replace(self, devices=self.nodes, model=())

    def with_model(self, matchers: tuple[str, ...]) -> Self:
        """Only the devices of one model."""
        return replace(self, model=matchers)


def value(reading: Reading, scope: Scope, *, keep: Keep = "max", intervals: int = 2) -> str:
    """One value for each device, whatever the exporter adds to its labels.

    A sample two intervals old is fresh enough to be seen. Where samples are counted over a window it stands for one:
    otherwise the last one before an exporter's death would be counted on and on.
    """
    return _one_each(reading, scope, fresh(reading, scope, intervals), keep)


def seen_within(reading: Reading, scope: Scope, window: timedelta) -> str:
    """The devices of which there was a plausible sample within a window. The value says nothing.

    Plain windows, no subquery: what is nonsense now was none a while ago, and that is one end of the values or the
    other. (Nonsense at both ends within one window hides what was between.)
    """
    if reading.metric is None:
        return f"count_over_time(({value(reading, scope)})[{format_duration(window)}:{step(reading)}])"
    raw = f"({select(reading, scope.devices, also=scope.model)}[{format_duration(window)}])"
    ends = (_one_each(reading, scope, f"{end}_over_time{raw}", "max") for end in ("max", "min"))
    return " or ".join(ends)


def within(reading: Reading, scope: Scope, window: timedelta, ago: timedelta = timedelta(0)) -> str:
    """The last sample of each series within a window that ended a while ago, as it is."""
    offset = f" offset {format_duration(ago)}" if ago else ""
    if reading.metric is None:
        return f"last_over_time(({reading.source.expr})[{format_duration(window)}:{step(reading)}]{offset})"
    return f"last_over_time({select(reading, scope.devices, also=scope.model)}[{format_duration(window)}]{offset})"


def fresh(reading: Reading, scope: Scope, intervals: int = 2) -> str:
    """The last sample of each series, if it is no older than some intervals.

    Staleness markers and the five-minute lookback do not reach past `last_over_time`. An expression brings its own.
    """
    if reading.metric is None:
        return f"({reading.source.expr})"
    return within(reading, scope, intervals * reading.signal.interval)


def plausible(reading: Reading, text: str) -> str:
    """Without blank sentinels and garbage, which are no measurement."""
    bounds = reading.signal.plausible
    return f"{text} >= {number(bounds.min)} <= {number(bounds.max)}"


def mapped(reading: Reading, scope: Scope, text: str) -> str:
    """With the node's label, where another metric has it, and with the part of it that is the name."""
    text = _joined(reading, scope, text)
    if reading.source.node.part is not None:
        for label in reversed(reading.node_labels):
            text = f'label_replace({text}, "{NODE_PART}", "$1", "{label}", {quote(reading.source.node.part)})'
    return text


def _joined(reading: Reading, scope: Scope, text: str) -> str:
    """What is mapped to two nodes at once is on neither."""
    via = reading.source.node.via
    if via is None:
        return text
    on, (label,) = grouping(via.by), reading.node_labels
    fixed = [f"{k}={quote(v)}" for k, v in reading.matchers.items()]
    named = [f'{name}!=""' for name in (*via.by, label)]
    window = format_duration(2 * reading.signal.interval)

    def known(matchers: Iterable[str]) -> str:
        series = f"last_over_time({via.metric}{{{','.join(dict.fromkeys(matchers))}}}[{window}])"
        return f"max by ({on}, {label}) ({series}) ^ 0"

    everywhere = known([*fixed, *named])
    one = f"({known([*fixed, *named, *scope.mapped])}) unless on ({on}) (count by ({on}) ({everywhere}) > 1)"
    return f"({text}) * on ({on}) group_left ({label}) ({one})"


def gated(reading: Reading, text: str) -> str:
    """Only where the source's gate has the node."""
    gate = reading.source.gate
    return text if gate is None else f"{text} and on ({grouping(reading.node_labels)}) ({gate})"


def alive(reading: Reading, scope: Scope, over: tuple[float, timedelta] | None, *, of_node: bool = False) -> str:
    """An exporter may serve its cache: the heartbeat must have moved all along, or within four intervals (None).

    `of_node`: that of any device of the node is enough.
    """
    beat = reading.source.heartbeat
    if beat is None:
        return ""
    share, window = over if over is not None else (0.0, 4 * reading.signal.interval)
    # It moves once an interval; at either end of the window one move may fall outside.
    moves = max(1, least(share, window, reading) - 2)
    by, node = grouping(reading.group), grouping(reading.node_key)
    changes = f"changes({select(reading, scope.devices, beat)}[{format_duration(window)}])"
    moved = f"sum by ({by}) ({mapped(reading, scope, changes)}) >= {moves}"
    return f" and on ({node}) (max by ({node}) ({moved}))" if of_node else f" and on ({by}) ({moved})"


def driver_stayed(reading: Reading, scope: Scope, grace: timedelta | None, *, of_node: bool = False) -> str:
    """The driver was not loaded within the grace: then the heartbeat, which counts from there, would have fallen.

    Asked the positive way: within the grace it was never less than the last time before. `resets` would miss a fall
    behind a gap that the window cuts, and a device that is seen for the first time.
    """
    beat = reading.source.heartbeat
    if grace is None or beat is None:
        return ""
    by, node = grouping(reading.group), grouping(reading.node_key)
    lookback = format_duration(2 * reading.signal.interval)
    raw = f"last_over_time({select(reading, scope.devices, beat)}[{lookback}])"
    beats = f"(max by ({by}) ({mapped(reading, scope, raw)}))[{format_duration(grace)}:{step(reading)}]"
    stayed = f"min_over_time({beats}) >= last_over_time({beats} offset {format_duration(grace)})"
    return f" and on ({node}) (count by ({node}) ({stayed}))" if of_node else f" and on ({by}) ({stayed})"


def more(reading: Reading, series: str, window: timedelta) -> str:
    """New events within the window. Not `increase`: it extrapolates, and rare events must be whole."""
    return f"({series}) - min_over_time(({series})[{format_duration(window)}:{step(reading)}])"


def not_reset(reading: Reading, series: str, window: timedelta) -> str:
    """A reset makes the window unknown, also one just before it: then the window's least value is the reset's."""
    over = f"[{format_duration(2 * window)}:{step(reading)}]"
    return f" unless on ({grouping(reading.group)}) (resets(({series}){over}) > 0)"


def unsaturated(reading: Reading, series: str) -> str:
    """At its largest value a counter counts nothing more, so nothing is known."""
    top = reading.signal.saturates
    return "" if top is None else f" and (({series}) < {number(top)})"


def least(share: float, window: timedelta, reading: Reading) -> int:
    """The fewest samples that prove anything of a window."""
    return max(1, math.floor(share * (window / reading.signal.interval) + 1e-9))


def step(reading: Reading) -> str:
    """How far apart the samples are that a window is looked at by."""
    return format_duration(reading.signal.interval)


def each_name(reading: Reading) -> list[tuple[str, ...]]:
    """Matchers for each label that may name the device: one that no label names cannot be judged, and does not count.

    Where a label has no alternative, it is required anyhow, and one empty set of matchers comes back.
    """
    named = reading.source.device.first if reading.source.device else ()
    if reading.metric is None or len(named) < 2:
        return [()]
    required = tuple(f'{label}!=""' for label in required_labels(reading.source))
    return [(*required, f'{label}!=""') for label in named]


def _one_each(reading: Reading, scope: Scope, text: str, keep: Keep) -> str:
    named = mapped(reading, scope, plausible(reading, text))
    return gated(reading, f"{keep} by ({grouping(reading.group)}) ({named})")
