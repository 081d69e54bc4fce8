"""What a trigger compared, for a while up to the moment of a finding: for charts, and for no verdict.

The samples as they were scraped, where those are what the trigger compares; else its value at even steps. A source's
gate is left out: it is put to the whole fleet, and a chart may show what did not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from quarantine.core.narrowing import NARROWED_AT_ONCE, parts
from quarantine.core.promql.bounds import excess
from quarantine.core.promql.value import Scope, more, value
from quarantine.core.readings import Reading
from quarantine.core.selectors import Labels, grouping, quote, select
from quarantine.core.series import Grid
from quarantine.core.trigger import Form, Outside, Trigger, bound_for
from quarantine.core.units import format_duration, format_number

MOST = 240  # points of a device
_OF_EXPRESSION = 60  # it is put to the whole fleet at each of them
_CONTEXT = timedelta(minutes=30)  # at least, with the trigger's window
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Bar:
    """The number that a value is bad beyond; of events also at it. `note`: what one number does not say."""

    bound: float | None
    above: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One query about some devices. `raw`: an instant query for samples, which lie on `grid`, one of milliseconds."""

    query: str
    grid: Grid
    raw: bool
    devices: tuple[Labels, ...]
    by: tuple[str, ...]  # the labels of its answer by which a device is known


def bar(trigger: Trigger, unit: str, model: str, found: float | None) -> Bar:
    """Where the bar is for a device of a model whose value was `found`; of two bounds the one that it is beyond."""
    if trigger.form is Form.ABSENT:
        return Bar(None)
    if trigger.events is not None:
        return Bar(float(trigger.events))
    bound = bound_for(trigger, model)
    if isinstance(bound.outside, Outside):
        low, high = bound.outside.min, bound.outside.max
        if found is not None and found < low:
            return Bar(low, above=False, note=f"it is bad above {format_number(high)} {unit} as well")
        return Bar(high, note=f"it is bad below {format_number(low)} {unit} as well")
    if bound.below is not None:
        return Bar(bound.below, above=False)
    return Bar(bound.above if bound.above is not None else bound.above_siblings)


def questions(
    trigger: Trigger, reading: Reading, devices: Sequence[Labels], at: datetime, *, above: bool
) -> Iterator[Question]:
    """What is asked about these devices, each named by the labels of the reading's group.

    Not about what is absent. An expression is asked about once, and about the first 40 devices. `above`: of several
    series of a device the highest counts, else the lowest.
    """
    if trigger.form is Form.ABSENT:
        return
    if reading.metric is None:
        devices = devices[:NARROWED_AT_ONCE]
    length, step = _span(trigger, reading)
    for part in parts(devices, reading):
        if step == reading.signal.interval and _is_scraped(trigger, reading):
            selector = select(reading, Scope.of(reading, part).devices)
            query, grid = f"{selector}[{format_duration(length)}]", _until(at, length, _MILLISECOND)
            yield Question(query, grid, raw=True, devices=tuple(part), by=reading.raw_labels)
        else:
            query, grid = _compared(trigger, reading, part, above=above), _until(at, length, step)
            yield Question(query, grid, raw=False, devices=tuple(part), by=reading.group)


def _is_scraped(trigger: Trigger, reading: Reading) -> bool:
    """Whether the trigger compares samples as they are; of a mapped metric they do not say which node they are of."""
    plain = trigger.form in (Form.ABOVE, Form.BELOW, Form.OUTSIDE)
    return plain and reading.metric is not None and reading.source.node.via is None


def _span(trigger: Trigger, reading: Reading) -> tuple[timedelta, timedelta]:
    """How far back, and in which steps: with as much before the trigger's window as there are points for, or more."""
    most = (MOST if reading.metric is not None else _OF_EXPRESSION) - 1
    interval, window = reading.signal.interval, trigger.window
    wanted = max(3 * window, _CONTEXT)
    if reading.metric is not None:
        wanted = max(min(wanted, most * interval), window * 5 / 4)
    step = interval * max(1, -(-wanted // (most * interval)))
    return max(step, wanted // step * step), step


def _until(at: datetime, length: timedelta, step: timedelta) -> Grid:
    """The steps that end at a moment, of which Prometheus is told the whole milliseconds."""
    last = at.replace(microsecond=at.microsecond // 1000 * 1000)
    count = length // step
    return Grid(last - count * step, step, count + 1)


def _compared(trigger: Trigger, reading: Reading, devices: Sequence[Labels], *, above: bool) -> str:
    ungated = replace(reading, source=reading.source.model_copy(update={"gate": None}))
    scope, only = Scope.of(ungated, devices), ""
    if reading.metric is None:
        scope, only = Scope(), f" and on ({grouping(reading.group)}) ({_named(reading, devices)})"
    if trigger.form is Form.ABOVE_SIBLINGS:
        return f"({excess(ungated, scope)}){only}" if only else excess(ungated, scope)
    series = value(ungated, scope, keep="max" if above else "min") + only
    return more(ungated, series, trigger.window) if trigger.form is Form.EVENTS else series


def _named(reading: Reading, devices: Iterable[Labels]) -> str:
    """A vector of these devices' labels: an expression has no selector that could be narrowed, its answer can."""
    each = []
    for device in devices:
        text = "vector(1)"
        for label in (name for name in reading.group if device.get(name)):
            literal = quote(device[label].replace("$", "$$"))
            text = f'label_replace({text}, "{label}", {literal}, "", "")'
        each.append(text)
    return " or ".join(each)
