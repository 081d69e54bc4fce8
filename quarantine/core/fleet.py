"""The fleet: which cluster is judged, which machines share a budget, what is never touched."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from quarantine.core.document import LabelName, Metadata, Model, Name, Text
from quarantine.core.model import Severity
from quarantine.core.units import Count, Share


class Budget(Model):
    """How much of a pool may be out of service. A share is rounded down, and is never less than one machine."""

    quarantined: Share | Count = Field(default=0.05, description="Standing number that the controller took out.")
    unavailable: Share | Count = Field(default=0.1, description="Standing number out of service for any reason.")
    per_hour: Share | Count = Field(default=0.02, description="How many it may take out within an hour.")


class Expected(Model):
    """What each machine of a pool has."""

    gpus: Count | None = Field(default=None, description="Left out, the capacity that the node declares counts.")
    ib_ports: Count | None = Field(default=None, description="InfiniBand ports that are in use.")


class Pool(Model):
    """Machines that are interchangeable, and whose budget is one."""

    name: Name
    node_selector: dict[str, str] = Field(min_length=1)
    size: Count | None = Field(default=None, description="Declared size; left out, the known nodes are counted.")
    spares: int | None = Field(
        default=None,
        strict=True,
        ge=0,
        description="Machines held in reserve. When as many are out of service, only fatal findings take out more.",
    )
    budget: Budget = Budget()
    provider: Name = Field(default="provider", description="Who replaces its machines.")
    expected: Expected = Field(default=Expected(), description="For triggers of absence.")


class Provider(Model):
    """Who replaces machines."""

    name: Name
    description: Text = Field(description="For people: what it is, and under which contract.")
    contact: Text | None = Field(default=None, description="Whom the ticket names for questions, on our side.")


class Route(Model):
    """Where messages about some machines go. The first route that matches counts; none: the settings' channel."""

    pool: Name | None = None
    provider: Name | None = None
    severity: Severity | None = Field(default=None, description="This severity, and worse.")
    channel: Annotated[str, Field(pattern=r"^[CG][A-Z0-9]{2,20}$")] = Field(
        description="A Slack channel's id, such as C0123456789; its history cannot be read by its name."
    )


def _one_or_more(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Values = Annotated[
    tuple[str, ...],
    BeforeValidator(_one_or_more),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class Maintenance(Model):
    """What on a Node object means that planned work is under way: nothing new is held against the node meanwhile."""

    labels: dict[str, Values] = Field(
        default_factory=dict,
        description="Label → a value, or a list of values; `*` means any. For instance a driver upgrade's states.",
    )
    annotations: dict[str, Values] = Field(default_factory=dict, description="Annotation → as with labels.")
    taints: tuple[str, ...] = Field(default=(), description="Keys of taints.")


class FleetSpec(Model):
    """The cluster that is judged."""

    matchers: dict[LabelName, str] = Field(
        default_factory=dict, description="Labels that every selector carries: which cluster, in a shared Prometheus."
    )
    pools: tuple[Pool, ...] = Field(min_length=1)
    never_touch: tuple[str, ...] = Field(default=(), description="Names of nodes that are never acted on.")
    uptime: Name | None = Field(
        default=None,
        description="The signal that tells how long a node has been up, in seconds; for the grace after boot.",
    )
    topology: dict[Name, str] = Field(
        default_factory=dict,
        description="What machines share (rack, leafswitch, nvlink-domain) → the node label that says it.",
    )
    providers: tuple[Provider, ...] = Field(default=(), description="Where given, each pool must name one of them.")
    routes: tuple[Route, ...] = ()
    maintenance: Maintenance = Maintenance()
    automata: tuple[Text, ...] = Field(
        default=(),
        description="Field managers of programs that rewrite taints or cordons of nodes (a driver manager): what they "
        "remove is no person's word.",
    )

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [p.name for p in self.pools]
        known = [p.name for p in self.providers]
        for pool in self.pools:
            if known and pool.provider not in known:
                raise ValueError(
                    f"pool {pool.name} names provider {pool.provider}, and there is only {', '.join(known)}"
                )
        for route in self.routes:
            if route.pool is not None and route.pool not in names:
                raise ValueError(f"a route names pool {route.pool}, and there is only {', '.join(names)}")
            if route.provider is not None and known and route.provider not in known:
                raise ValueError(f"a route names provider {route.provider}, and there is only {', '.join(known)}")
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"pool names must differ: {', '.join(sorted(twice))}")
        return self


class Fleet(Model):
    """A document of kind Fleet; there is one."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["Fleet"]
    metadata: Metadata
    spec: FleetSpec
