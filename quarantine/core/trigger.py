"""What is bad, and what is good again: the two halves of a policy that Prometheus is asked about."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from quarantine.core import globs
from quarantine.core.document import Model, Name
from quarantine.core.units import Bound, Count, Duration, Share, format_duration, format_number, format_share


class Form(StrEnum):
    """How a trigger tells bad from good; each is the name of a field, written in camelCase in the file."""

    ABOVE = "above"
    BELOW = "below"
    OUTSIDE = "outside"
    ABOVE_SIBLINGS = "above_siblings"
    EVENTS = "events"
    ABSENT = "absent"


class Outside(Model):
    """A range; what is below `min` or above `max` is bad."""

    min: Bound
    max: Bound

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.min >= self.max:
            raise ValueError(f"min {format_number(self.min)} is not below max {format_number(self.max)}")
        return self


class ModelBound(Model):
    """Another bound for devices of one model; it has the same form as the trigger's own."""

    model: str = Field(
        min_length=1, max_length=100, description="The model as the exporter names it; `*` stands for any text."
    )
    above: Bound | None = None
    below: Bound | None = None
    outside: Outside | None = None
    above_siblings: Bound | None = None

    @property
    def regex(self) -> str:
        """The glob as an RE2 regular expression, for Prometheus; `globs.matches` is for here."""
        return _regex(self.model)

    @property
    def given(self) -> list[str]:
        """The names of the bounds that it gives."""
        return [n for n in ("above", "below", "outside", "above_siblings") if getattr(self, n) is not None]


class Trigger(Model):
    """What is bad: exactly one of `above`, `below`, `outside`, `aboveSiblings`, `events` and `absent`."""

    above: Bound | None = None
    below: Bound | None = None
    outside: Outside | None = Field(default=None, description="Bad below its min and above its max.")
    above_siblings: Bound | None = Field(
        default=None,
        description="By how much the value exceeds the median of the same node's devices, itself included; "
        "four of them must be seen.",
    )
    absent: bool | None = Field(
        default=None,
        strict=True,
        description="`true`: a device that was seen within `within` and is no more while others of its node are, or "
        "a node that shows fewer than it is expected to have. Where the signal is about nodes: a node without it.",
    )
    lasting: Duration | None = Field(default=None, alias="for", description="How long it must last; not for events.")
    tolerate: Share = Field(default=0.1, description="The share of samples in that time that may be otherwise.")
    coverage: Share = Field(default=0.8, description="The share of expected samples that must be there at all.")
    events: Count | None = Field(default=None, description="At least so many new events of a counter.")
    within: Duration | None = Field(
        default=None,
        description="The time in which the events happen. For absent: how long a device is remembered (6h).",
    )
    models: tuple[ModelBound, ...] = Field(
        default=(), description="Bounds for some models; the first that matches counts, before the trigger's own."
    )

    @model_validator(mode="after")
    def _shape(self) -> Self:
        given = [form for form in Form if getattr(self, form) is not None]
        names = ", ".join(camel(form) for form in Form)
        if len(given) != 1 or self.absent is False:
            raise ValueError(f"give exactly one of {names} (given: {', '.join(map(camel, given)) or 'none'})")
        if given == [Form.EVENTS]:
            if self.within is None or self.lasting is not None:
                raise ValueError("events need within, and no for")
        elif self.lasting is None or (self.within is not None and given != [Form.ABSENT]):
            raise ValueError(f"{camel(given[0])} needs for" + ("" if given == [Form.ABSENT] else ", and no within"))
        if self.tolerate > 0.5:
            raise ValueError(
                f"tolerate {format_share(self.tolerate)} is more than half: the rule would mean its opposite"
            )
        for bound in self.models:
            if bound.given != [given[0].value]:
                raise ValueError(
                    f"models: give {camel(given[0])} for {bound.model}, as the trigger does, and only that"
                )
        return self

    @property
    def form(self) -> Form:
        """Which of them it is."""
        return next(form for form in Form if getattr(self, form) is not None)

    @property
    def window(self) -> timedelta:
        """How far back the trigger looks."""
        window = self.lasting or self.within
        assert window is not None  # noqa: S101  (the validator saw to it)
        return window

    @property
    def memory(self) -> timedelta:
        """How long ago a device may have been seen last to be missed (absent)."""
        return self.within or timedelta(hours=6)


class Load(Model):
    """Real work during recovery: an idle machine proves nothing (invariant 2)."""

    signal: Name
    above: Bound = Field(description="The average that this signal must exceed over the whole time.")
    exporter: Name | None = Field(
        default=None,
        description="Which source of that signal; left out, that of the exporter that found the device bad.",
    )


class ModelRecovery(Model):
    """Another recovery bound for devices of one model."""

    model: str = Field(min_length=1, max_length=100, description="As in the trigger.")
    below: Bound | None = None
    above: Bound | None = None

    @property
    def regex(self) -> str:
        """The glob as an RE2 regular expression, for Prometheus; `globs.matches` is for here."""
        return _regex(self.model)


class Recovery(Model):
    """What is good again: positive evidence under load, never the absence of a finding.

    Of what the trigger measures: where that is the distance from the siblings, `below` is one too.
    """

    below: Bound | None = None
    above: Bound | None = None
    lasting: Duration = Field(alias="for", description="How long it must be good.")
    coverage: Share = Field(default=0.9, description="The share of expected samples that must be there.")
    load: Load
    models: tuple[ModelRecovery, ...] = Field(default=(), description="Bounds for some models.")


def camel(name: str) -> str:
    """A field's name as it is written in a file."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _regex(glob: str) -> str:
    return ".*".join(re.escape(part).replace("\\ ", " ").replace("\\-", "-") for part in glob.split("*"))


def bound_for(trigger: Trigger, model: str) -> Trigger | ModelBound:
    """The bound that counts for a device of this model: the first that matches, or the trigger's own."""
    return next((bound for bound in trigger.models if globs.matches(bound.model, model)), trigger)


def is_beyond(bound: Trigger | ModelBound, value: float) -> bool:
    """Whether a value is on the bad side. False for events and absence, which have no sides."""
    if isinstance(bound.outside, Outside):
        return not bound.outside.min <= value <= bound.outside.max
    if bound.below is not None:
        return value < bound.below
    high = bound.above if bound.above is not None else bound.above_siblings
    return high is not None and value > high


def bound_text(bound: Trigger | ModelBound, unit: str) -> str:
    """`above 78 °C`."""
    if isinstance(bound.outside, Outside):
        return f"outside {format_number(bound.outside.min)} to {format_number(bound.outside.max)} {unit}"
    if bound.above_siblings is not None:
        return f"more than {format_number(bound.above_siblings)} {unit} above the median of its siblings"
    side, value = ("above", bound.above) if bound.above is not None else ("below", bound.below)
    assert value is not None  # noqa: S101  (events and absence are told otherwise)
    return f"{side} {format_number(value)} {unit}"


def threshold_text(trigger: Trigger, unit: str, model: str = "") -> str:
    """The trigger in words: `above 78 °C for 5m, 10% tolerated`. `model`: of the device it is about, if known."""
    if trigger.form is Form.EVENTS:
        return f"at least {trigger.events} new {unit} within {format_duration(trigger.window)}"
    if trigger.form is Form.ABSENT:
        return f"absent for {format_duration(trigger.window)}"
    lasts = f"for {format_duration(trigger.window)}, {format_share(trigger.tolerate)} tolerated"
    return f"{bound_text(bound_for(trigger, model), unit)} {lasts}"


def recovery_text(trigger: Trigger, recovery: Recovery, unit: str, model: str = "") -> str:
    """What is good again, in words: `below 72 °C for 30m, under load (gpu.tensor above 0.1)`."""
    load = f"{recovery.load.signal} above {format_number(recovery.load.above)}"
    lasts = f"for {format_duration(recovery.lasting)}, under load ({load})"
    if trigger.form is Form.EVENTS:
        return f"no new {unit} {lasts}"
    if trigger.form is Form.ABSENT:
        return f"there {lasts}"
    bound = next((bound for bound in recovery.models if globs.matches(bound.model, model)), recovery)
    siblings = trigger.form is Form.ABOVE_SIBLINGS
    side, of = ("less than", " above the median of its siblings") if siblings else ("below", "")
    sides = [f"{side} {format_number(bound.below)} {unit}{of}"] if bound.below is not None else []
    sides += [f"above {format_number(bound.above)} {unit}"] if bound.above is not None else []
    return f"{' and '.join(sides)} {lasts}"
