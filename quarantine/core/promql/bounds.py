"""From where on a value is bad: the forms of a lasting trigger, and another bound for some models."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TypeVar

from quarantine.core.promql.value import Scope, alive, step, value
from quarantine.core.readings import Reading
from quarantine.core.selectors import grouping, number, quote
from quarantine.core.trigger import Form, ModelBound, ModelRecovery, Outside, Recovery, Trigger
from quarantine.core.units import format_duration

SIBLINGS = 4  # a median of fewer says nothing of who is odd


OfModel = TypeVar("OfModel", ModelBound, ModelRecovery)
Default = TypeVar("Default", Trigger, Recovery)


def branches(
    reading: Reading, models: tuple[OfModel, ...], default: Default
) -> Iterator[tuple[OfModel | Default, tuple[str, ...]]]:
    """Each bound with the matchers of the devices that it is for: the first model that matches counts.

    Where any has a bound of its own, a series that does not say its model is judged by none: it may be one of these.
    """
    label = reading.source.model
    passed: tuple[str, ...] = ()
    if models and label is not None and reading.metric is not None:
        passed = (f'{label}!=""',)
        for bound in models:
            pattern = quote(bound.regex)
            yield bound, (*passed, f"{label}=~{pattern}")
            passed = (*passed, f"{label}!~{pattern}")
    yield default, passed


def measured(reading: Reading, scope: Scope, form: Form, *, intervals: int = 2) -> str:
    """What the trigger compares, now."""
    if form is Form.ABOVE_SIBLINGS:
        return excess(reading, scope, intervals=intervals)
    return value(reading, scope, keep="min" if form is Form.BELOW else "max", intervals=intervals)


def excess(reading: Reading, scope: Scope, *, intervals: int = 2) -> str:
    """By how much a device's value exceeds the median of those that are seen of its node, itself among them.

    One whose heartbeat stands still is not seen: frozen values would make a median by which a healthy device is odd.
    """
    node = grouping(reading.node_key)
    own = value(reading, scope, intervals=intervals)
    all_of_node = value(reading, scope.siblings, intervals=intervals) + alive(reading, scope.siblings, None)
    enough = f"count by ({node}) ({all_of_node}) >= {SIBLINGS}"
    median = f"(quantile by ({node}) (0.5, {all_of_node})) and on ({node}) ({enough})"
    return f"({own}) - on ({node}) group_left () ({median})"


def beyond(reading: Reading, scope: Scope, bound: Trigger | ModelBound, *, intervals: int = 2) -> str:
    """The devices that are beyond a bound now, with what is compared."""
    if bound.above_siblings is not None:
        return f"({excess(reading, scope, intervals=intervals)}) > {number(bound.above_siblings)}"
    high = f"({value(reading, scope, intervals=intervals)})"
    if bound.above is not None:
        return f"{high} > {number(bound.above)}"
    low = f"({value(reading, scope, keep='min', intervals=intervals)})"
    if isinstance(bound.outside, Outside):
        return f"{low} < {number(bound.outside.min)} or {high} > {number(bound.outside.max)}"
    assert bound.below is not None  # noqa: S101
    return f"{low} < {number(bound.below)}"


def counted(text: str, window: timedelta, reading: Reading) -> str:
    """In how many of the samples of a window it was so."""
    return f"count_over_time(({text})[{format_duration(window)}:{step(reading)}])"
