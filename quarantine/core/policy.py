"""The policy language. The pydantic models are its only source: schema, reference and messages come from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from quarantine.core.model import DeviceKind, Mode, Severity
from quarantine.core.units import Count, Duration, Number, Share, format_duration, format_number, format_share

API_VERSION = "quarantine.gpu/v1alpha1"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _pattern(pattern: re.Pattern[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is no {what}: it must match {pattern.pattern}")
        return value

    return AfterValidator(check)


Name = Annotated[str, _pattern(_NAME, "name")]
MetricName = Annotated[str, _pattern(_METRIC, "metric name")]
LabelName = Annotated[str, _pattern(_LABEL, "label name")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]


class Model(BaseModel):
    """Strict about keys, written in camelCase, never changed after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Metadata(Model):
    """What a document is called."""

    name: Name = Field(description="Unique among the documents of its kind; lower case, digits, `-` and `.`.")


# --- Signal -----------------------------------------------------------------------------------------------------------


class NodeLabel(Model):
    """How a series names its node: the first of these labels that is not empty."""

    first: tuple[LabelName, ...] = Field(min_length=1)
    means: Literal["name", "address"] = Field(
        default="name",
        description="`name`: the Node object's name. `address`: one of its addresses; a port after it is ignored.",
    )


class DeviceLabel(Model):
    """How a series names its device: the first of these labels that is not empty, or several joined by `/`."""

    first: tuple[LabelName, ...] = ()
    join: tuple[LabelName, ...] = ()
    index: LabelName | None = Field(default=None, description="A label with the device's index, for people only.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.first) == bool(self.join):
            raise ValueError("give either first or join")
        return self


class Source(Model):
    """One exporter's metric (or several that are judged one by one) for a signal."""

    exporter: Name = Field(description="Which exporter; a recovery's load is looked up under the same name.")
    metrics: tuple[MetricName, ...] = Field(default=(), description="Metric names, each asked and judged by itself.")
    expr: str | None = Field(
        default=None,
        description="Instead of metrics: PromQL for an instant vector. Every selector in it must be inside a range "
        "function (`last_over_time(x[1m])`), since Prometheus serves a bare one up to five minutes stale.",
    )
    match: dict[LabelName, str] = Field(default_factory=dict, description="Labels that the series must carry.")
    node: NodeLabel
    device: DeviceLabel | None = Field(default=None, description="Left out where the device is the node.")
    gate: str | None = Field(
        default=None,
        description="PromQL that must have a series with the same node label, or the sample does not count: "
        "for instance that the exporter's collector succeeded.",
    )
    heartbeat: MetricName | None = Field(
        default=None,
        description="A metric of the same device that always moves; standing still, the exporter serves its cache.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.metrics) == (self.expr is not None):
            raise ValueError("give either metrics or expr")
        if self.expr is not None and (self.match or self.heartbeat):
            raise ValueError("match and heartbeat go with metrics; write them into expr")
        return self


class Plausible(Model):
    """What a sample may be; anything outside is no measurement (blank sentinels, garbage), so `unknown`."""

    min: Number
    max: Number

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.min >= self.max:
            raise ValueError(f"min {format_number(self.min)} is not below max {format_number(self.max)}")
        return self


class SignalSpec(Model):
    """A named, unit-carrying measurement of a device, and where each exporter has it."""

    description: Text = Field(description="What is measured.")
    unit: Text = Field(description="Shown with every value: °C, events, W.")
    device: DeviceKind = Field(description="What the signal is about.")
    type: Literal["gauge", "counter"]
    plausible: Plausible
    saturates: Number | None = Field(
        default=None, description="A counter's largest value: at it nothing more is counted, so nothing is known."
    )
    interval: Duration = Field(description="How often a new value can be expected; twice this is fresh.")
    sources: tuple[Source, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _devices(self) -> Self:
        for source in self.sources:
            if (source.device is None) != (self.device is DeviceKind.NODE):
                raise ValueError(f"source {source.exporter}: device labels are needed, except where device is node")
        return self


class Signal(Model):
    """A document of kind Signal."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Signal"]
    metadata: Metadata
    spec: SignalSpec


# --- Policy -----------------------------------------------------------------------------------------------------------


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


# --- Fleet ------------------------------------------------------------------------------------------------------------


class Budget(Model):
    """How much of a pool may be out of service. A share is rounded down, and is never less than one machine."""

    quarantined: Share | Count = Field(default=0.05, description="Standing number that the controller took out.")
    unavailable: Share | Count = Field(default=0.1, description="Standing number out of service for any reason.")
    per_hour: Share | Count = Field(default=0.02, description="How many it may take out within an hour.")


class Pool(Model):
    """Machines that are interchangeable, and whose budget is one."""

    name: Name
    node_selector: dict[str, str] = Field(min_length=1)
    size: Count | None = Field(default=None, description="Declared size; left out, the known nodes are counted.")
    budget: Budget = Budget()
    provider: Name = Field(default="provider", description="Who replaces its machines.")


class FleetSpec(Model):
    """The cluster that is judged."""

    matchers: dict[LabelName, str] = Field(
        default_factory=dict, description="Labels that every selector carries: which cluster, in a shared Prometheus."
    )
    pools: tuple[Pool, ...] = Field(min_length=1)
    never_touch: tuple[str, ...] = Field(default=(), description="Names of nodes that are never acted on.")

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [p.name for p in self.pools]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"pool names must differ: {', '.join(sorted(twice))}")
        return self


class Fleet(Model):
    """A document of kind Fleet; there is one."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Fleet"]
    metadata: Metadata
    spec: FleetSpec


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
