"""The policy language. The pydantic models are its only source: schema, reference and messages come from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from quarantine.core.defaults import Defaults
from quarantine.core.document import Metadata, Model, Name, Text, Written
from quarantine.core.fleet import Fleet, FleetSpec
from quarantine.core.model import DeviceKind, Mode, Severity
from quarantine.core.procedure import Procedure, ProcedureSpec
from quarantine.core.response import Breaker, Correlation, Escalation, Grace, Response
from quarantine.core.signal import DeviceLabel, NodeLabel, Plausible, Signal, SignalSpec, Source
from quarantine.core.trigger import Recovery, Trigger
from quarantine.core.units import Duration, Number

OWN_QUERY = "query"  # the exporter that a policy's own PromQL is said to come from


class OwnQuery(Model):
    """Free PromQL in place of a signal, for what no other policy asks."""

    expr: str = Field(description="PromQL for an instant vector; every selector inside a range function.")
    unit: Text = Field(description="Shown with every value.")
    device: DeviceKind = Field(description="What each of its series is about.")
    type: Literal["gauge", "counter"] = "gauge"
    plausible: Plausible
    saturates: Number | None = Field(default=None, description="As in a signal.")
    interval: Duration = Field(description="How often a new value can be expected; twice this is fresh.")
    node: NodeLabel
    labels: DeviceLabel | None = Field(default=None, description="Which labels name the device.")
    gate: str | None = Field(default=None, description="As in a signal's source.")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        self.as_signal("a policy's own query")
        return self

    def as_signal(self, description: str) -> SignalSpec:
        """The signal that it stands for, with one source."""
        return SignalSpec(
            description=description,
            unit=self.unit,
            device=self.device,
            type=self.type,
            plausible=self.plausible,
            saturates=self.saturates,
            interval=self.interval,
            sources=(Source(exporter=OWN_QUERY, expr=self.expr, node=self.node, device=self.labels, gate=self.gate),),
        )


class PolicySpec(Model):
    """Which signal, what is bad, what is good again, and what to do."""

    description: Text = Field(description="Why this policy exists; shown in tickets and on Slack.")
    owner: Text = Field(description="Who answers for it.")
    severity: Severity
    mode: Mode = Mode.OBSERVE
    node_selector: dict[str, str] = Field(default_factory=dict, description="Only nodes with these labels.")
    signal: Name | None = Field(default=None, description="What is judged; or give a query of your own.")
    query: OwnQuery | None = Field(default=None, description="PromQL in place of a signal.")
    trigger: Trigger
    grace: Grace = Grace()
    recovery: Recovery | None = Field(
        default=None, description="Left out, no measurement clears a finding: a remedy or a person does."
    )
    escalation: Escalation | None = Field(default=None, description="Acts only on the nth finding within a time.")
    breaker: Breaker = Breaker()
    correlation: Correlation | None = Field(
        default=None, description="Held where machines that share something fail together: that is the suspect."
    )
    response: Response = Response()

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.signal is None) == (self.query is None):
            raise ValueError("give either signal or query")
        return self


class Policy(Model):
    """A document of kind Policy."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Policy"]
    metadata: Metadata
    spec: PolicySpec


Document = Signal | Policy | Fleet | Defaults | Procedure
KINDS: Mapping[str, type[Signal] | type[Policy] | type[Fleet] | type[Defaults] | type[Procedure]] = {
    "Signal": Signal,
    "Policy": Policy,
    "Fleet": Fleet,
    "Defaults": Defaults,
    "Procedure": Procedure,
}


# --- What is loaded ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy with what the trail must know of its text."""

    name: str
    spec: PolicySpec
    hash: str  # sha256 of the text
    text: str  # the document's, then that of the Defaults and of the procedures that it names, where there are any
    revision: str | None  # git revision of the directory it came from
    place: str  # file:line

    @property
    def measures(self) -> str:
        """What it judges, by a name that outlives the policy's where it is a signal."""
        return self.spec.signal or f"{OWN_QUERY}/{self.name}"


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """A document that decides along with every policy, the Fleet or the Defaults: what the trail must know of it."""

    name: str  # `fleet/NAME` or `defaults/NAME`, as no policy can be called
    hash: str  # sha256 of the text
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
    procedures: Mapping[str, ProcedureSpec] = field(default_factory=dict)
    documents: tuple[LoadedDocument, ...] = ()  # whose versions the trail follows, beside the policies

    @property
    def written(self) -> tuple[Written, ...]:
        """Everything whose versions the trail follows; a policy stands behind what it is read with."""
        return (*self.documents, *self.policies)

    def policy(self, name: str) -> LoadedPolicy | None:
        """By name."""
        return next((p for p in self.policies if p.name == name), None)

    def provider_of(self, pool: str) -> str:
        """Who replaces the machines of the pool of this name; empty where there is no such pool."""
        return next((known.provider for known in self.fleet.pools if known.name == pool), "")

    def signal_of(self, policy: LoadedPolicy) -> SignalSpec:
        """What a policy judges: the signal it names, or its own query as one."""
        if policy.spec.query is not None:
            return policy.spec.query.as_signal(policy.spec.description)
        assert policy.spec.signal is not None  # noqa: S101  (the validator saw to it)
        return self.signals[policy.spec.signal]
