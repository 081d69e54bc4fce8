"""Which devices might be bad, and which of those are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from quarantine.core.policy import LoadedPolicy
from quarantine.core.promql import absence
from quarantine.core.promql.bounds import beyond, branches, counted, measured
from quarantine.core.promql.value import (
    Scope,
    alive,
    driver_stayed,
    fresh,
    least,
    mapped,
    more,
    not_reset,
    plausible,
    unsaturated,
    value,
)
from quarantine.core.readings import Reading
from quarantine.core.selectors import Labels, grouping, number, select
from quarantine.core.trigger import Form, ModelBound, Outside, Trigger
from quarantine.core.units import format_duration, format_number


def candidates(policy: LoadedPolicy, reading: Reading) -> str | None:
    """The cheap superset of the bad devices, as raw series or as device groups; None: ask `bad` of all at once.

    `bad` of an expression cannot be narrowed: where this finds any device, it is asked of all at once.
    """
    trigger = policy.spec.trigger
    match trigger.form:
        case Form.ABSENT:
            return absence.candidates(trigger, reading)
        case Form.EVENTS:
            return _may_have_events(trigger, reading) if reading.metric is not None else _has_counted(trigger, reading)
        case Form.ABOVE | Form.BELOW | Form.OUTSIDE | Form.ABOVE_SIBLINGS:
            # Whatever is bad is bad now as well: a plain look at fresh samples finds every device that can qualify.
            each = [
                _touches(reading, Scope(model=model), bound)
                for bound, model in branches(reading, trigger.models, trigger)
            ]
            return each[0] if len(each) == 1 else " or ".join(f"({text})" for text in each)
        case _:
            assert_never(trigger.form)


def tells_emerging(policy: LoadedPolicy) -> bool:
    """Whether `candidates` names what is beyond the bound now, however lately, and machines are compared by it.

    What may have had enough events has had them, or its counter was set back: nothing emerges there.
    """
    lasting = policy.spec.trigger.form not in (Form.ABSENT, Form.EVENTS)
    return lasting and policy.spec.correlation is not None


def bad(policy: LoadedPolicy, reading: Reading, devices: Sequence[Labels] | None) -> str:
    """The devices that the trigger finds bad; the value is what people want to see.

    That is the value now, the distance from the siblings, the new events, or how many devices the node lacks.
    """
    trigger, grace = policy.spec.trigger, policy.spec.grace.driver
    scope = Scope.of(reading, devices)
    match trigger.form:
        case Form.ABSENT:
            return absence.bad(trigger, reading, scope, grace)
        case Form.EVENTS:
            text = _events(trigger, reading, scope)
        case Form.ABOVE | Form.BELOW | Form.OUTSIDE | Form.ABOVE_SIBLINGS:
            each = [
                _lasting(trigger, reading, scope.with_model(model), bound)
                for bound, model in branches(reading, trigger.models, trigger)
            ]
            text = each[0] if len(each) == 1 else "(" + " or ".join(f"({one})" for one in each) + ")"
            text += alive(reading, scope, (trigger.coverage, trigger.window))
        case _:
            assert_never(trigger.form)
    return text + driver_stayed(reading, scope, grace)


def _touches(reading: Reading, scope: Scope, bound: Trigger | ModelBound) -> str:
    """The series that are beyond a bound now."""
    if bound.above_siblings is not None:
        return beyond(reading, scope, bound)
    text = mapped(reading, scope, plausible(reading, fresh(reading, scope)))
    if isinstance(bound.outside, Outside):
        return f"{text} < {number(bound.outside.min)} or {text} > {number(bound.outside.max)}"
    if bound.above is not None:
        return f"{text} > {number(bound.above)}"
    assert bound.below is not None  # noqa: S101
    return f"{text} < {number(bound.below)}"


def _lasting(trigger: Trigger, reading: Reading, scope: Scope, bound: Trigger | ModelBound) -> str:
    share, form = format_number(1 - trigger.tolerate), trigger.form
    seen = counted(measured(reading, scope, form, intervals=1), trigger.window, reading)
    over = counted(beyond(reading, scope, bound, intervals=1), trigger.window, reading)
    return (
        f"({beyond(reading, scope, bound)}) and ({over} >= {share} * {seen} - 1e-9)"
        f" and ({seen} >= {least(trigger.coverage, trigger.window, reading)})"
    )


def _may_have_events(trigger: Trigger, reading: Reading) -> str:
    by = grouping(reading.group)
    # The exact form looks back further than its window: its first step takes samples from before.
    window = format_duration(trigger.window + 2 * reading.signal.interval)
    selector, scope = select(reading, None), Scope()
    high = f"max by ({by}) ({mapped(reading, scope, f'max_over_time({selector}[{window}])')})"
    low = f"min by ({by}) ({mapped(reading, scope, f'min_over_time({selector}[{window}])')})"
    return f"{high} - {low} >= {trigger.events}"


def _has_counted(trigger: Trigger, reading: Reading) -> str:
    """The devices that read at least as many events: nothing plausible is less than the least that is.

    No window, which would be a subquery. A counter that has counted long ago is among them.
    """
    series, top = value(reading, Scope()), reading.signal.saturates
    below = "" if top is None else f" < {number(top)}"
    return f"(({series}){below}) - {number(reading.signal.plausible.min)} >= {trigger.events}"


def _events(trigger: Trigger, reading: Reading, scope: Scope) -> str:
    series = value(reading, scope)
    text = f"({more(reading, series, trigger.window)} >= {trigger.events})"
    text = f"({text}{not_reset(reading, series, trigger.window)}){unsaturated(reading, series)}"
    return text + alive(reading, scope, None)
