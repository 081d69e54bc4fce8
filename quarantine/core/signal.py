"""Signals: named, unit-carrying measurements of a device, and where each exporter has them."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from quarantine.core.document import LabelName, Metadata, MetricName, Model, Name, Text
from quarantine.core.model import DeviceKind
from quarantine.core.units import Duration, Number, format_number


class Via(Model):
    """A mapping metric: one series for each value of `by`, which carries the node's label."""

    metric: MetricName
    by: tuple[LabelName, ...] = Field(min_length=1, description="Labels that both metrics have.")


class NodeLabel(Model):
    """How a series names its node: the first of these labels that is not empty."""

    first: tuple[LabelName, ...] = Field(min_length=1)
    means: Literal["name", "address"] = Field(
        default="name",
        description="`name`: the Node object's name. `address`: one of its addresses; a port after it is ignored.",
    )
    part: str | None = Field(
        default=None,
        max_length=200,
        description="A regular expression that the whole value matches; its first group is the name or the address. "
        "A value that does not match names no node.",
    )
    via: Via | None = Field(
        default=None, description="Where the series name no node: the metric that maps them to one which does."
    )

    @model_validator(mode="after")
    def _pattern(self) -> Self:
        if self.part is not None:
            try:
                groups = re.compile(self.part).groups
            except re.error as error:
                raise ValueError(f"part {self.part!r} is no regular expression: {error}") from None
            if groups < 1:
                raise ValueError(f"part {self.part!r} has no group: put the node's name into parentheses")
        if self.via is not None and len(self.first) != 1:
            raise ValueError("via takes exactly one label of its metric: give one in first")
        return self


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
    model: LabelName | None = Field(
        default=None, description="A label with the device's model, for thresholds that differ by model."
    )
    heartbeat: MetricName | None = Field(
        default=None,
        description="A metric of the same device that always moves; standing still, the exporter serves its cache.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if bool(self.metrics) == (self.expr is not None):
            raise ValueError("give either metrics or expr")
        if self.expr is not None and (self.match or self.heartbeat or self.model or self.node.via):
            raise ValueError("match, heartbeat, model and via go with metrics; write them into expr")
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
