"""The policy language. The pydantic models are its only source: schema, reference and messages come from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, StrictBool, model_validator

from quarantine.core.document import Metadata, Model, Name, Text
from quarantine.core.fleet import Fleet, FleetSpec
from quarantine.core.model import Mode, Severity
from quarantine.core.signal import Signal, SignalSpec
from quarantine.core.units import Count, Duration, Number, Share, format_duration, format_number, format_share


class Trigger(Model):
    """What is bad. One of `above`, `below` (a gauge, for a time) or `events` (a counter, within a time)."""

    above: Number | None = None
    below: Number | None = None
    lasting: Duration | None = Field(default=None, alias="for", description="How long it must last (above, below).")
    tolerate: Share = Field(default=0.1, description="The share of samples in that time that may be otherwise.")
    coverage: Share = Field(default=0.8, description="The share of expected samples that must be there at all.")
    events: Count | None = Field(default=None, description="At least so many new events.")
    within: Duration | None = Field(default=None, description="The time in which they happen (events).")

    @model_validator(mode="after")
    def _shape(self) -> Self:
        given = [n for n in ("above", "below", "events") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of above, below and events (given: {', '.join(given) or 'none'})")
        if given == ["events"]:
            if self.within is None or self.lasting is not None:
                raise ValueError("events need within, and no for")
        elif self.lasting is None or self.within is not None:
            raise ValueError(f"{given[0]} needs for, and no within")
        if self.tolerate > 0.5:
            raise ValueError(
                f"tolerate {format_share(self.tolerate)} is more than half: the rule would mean its opposite"
            )
        return self

    @property
    def window(self) -> timedelta:
        """How far back the trigger looks."""
        window = self.within or self.lasting
        assert window is not None  # noqa: S101  (the validator saw to it)
        return window


class Load(Model):
    """Real work during recovery: an idle machine proves nothing (invariant 2)."""

    signal: Name
    above: Number = Field(description="The average that this signal must exceed over the whole time.")


class Recovery(Model):
    """What is good again: positive evidence under load, never the absence of a finding."""

    below: Number | None = None
    above: Number | None = None
    lasting: Duration = Field(alias="for")
    coverage: Share = 0.9
    load: Load


class Breaker(Model):
    """How much of what it covers a policy may find bad before it is the policy that is suspect (invariant 6)."""

    max_share: Share = Field(default=0.1)


class Response(Model):
    """What is done about a bad verdict, in enforce mode."""

    cordon: StrictBool = True
    ticket: Literal["none", "report"] = "none"
    notify: StrictBool = True


class PolicySpec(Model):
    """Which signal, what is bad, what is good again, and what to do."""

    description: Text = Field(description="Why this policy exists; shown in tickets and on Slack.")
    owner: Text = Field(description="Who answers for it.")
    severity: Severity
    mode: Mode = Mode.OBSERVE
    node_selector: dict[str, str] = Field(default_factory=dict, description="Only nodes with these labels.")
    signal: Name
    trigger: Trigger
    recovery: Recovery
    breaker: Breaker = Breaker()
    response: Response = Response()


class Policy(Model):
    """A document of kind Policy."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Policy"]
    metadata: Metadata
    spec: PolicySpec


Document = Signal | Policy | Fleet
KINDS: Mapping[str, type[Signal] | type[Policy] | type[Fleet]] = {"Signal": Signal, "Policy": Policy, "Fleet": Fleet}


# --- What is loaded ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy with what the trail must know of its text."""

    name: str
    spec: PolicySpec
    hash: str  # sha256 of the document's text
    text: str
    revision: str | None  # git revision of the directory it came from
    place: str  # file:line


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that people wrote and the planner obeys."""

    policies: tuple[LoadedPolicy, ...]
    signals: Mapping[str, SignalSpec]
    fleet: FleetSpec
    prefix: str = "quarantine.gpu"
    dismissal: timedelta = field(default=timedelta(days=7))

    def policy(self, name: str) -> LoadedPolicy | None:
        """By name."""
        return next((p for p in self.policies if p.name == name), None)


def threshold_text(spec: PolicySpec, unit: str) -> str:
    """The trigger in words: `above 78 °C for 5m, 10% tolerated`."""
    t = spec.trigger
    if t.events is not None:
        return f"at least {t.events} new {unit} within {format_duration(t.window)}"
    side, bound = ("above", t.above) if t.above is not None else ("below", t.below)
    assert bound is not None  # noqa: S101
    return f"{side} {format_number(bound)} {unit} for {format_duration(t.window)}, {format_share(t.tolerate)} tolerated"
