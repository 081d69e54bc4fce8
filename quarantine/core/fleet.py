"""The fleet: which cluster is judged, which machines share a budget, what is never touched."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from quarantine.core.document import LabelName, Metadata, Model, Name, Text
from quarantine.core.model import Severity
from quarantine.core.units import Count, Duration, Share


class Budget(Model):
    """How much of a pool may be out of service. A share is rounded down, and is never less than one machine."""

    quarantined: Share | Count = Field(default=0.05, description="Standing number that the controller took out.")
    unavailable: Share | Count = Field(default=0.1, description="Standing number out of service for any reason.")
    per_hour: Share | Count = Field(default=0.02, description="How many it may take out within an hour.")


class Expected(Model):
    """What each machine of a pool has."""

    gpus: Count | None = Field(default=None, description="Left out, the capacity that the node declares counts.")
    ib_ports: Count | None = Field(default=None, description="InfiniBand ports that are in use.")


class DrainPace(Model):
    """How fast machines of a pool are emptied."""

    evictions_per_minute: Count = Field(default=10, description="Of pods, in the whole pool.")
    machines_at_once: Count = Field(default=2, description="That are being emptied. A gang's machines count as one.")


class Gate(Model):
    """A machine that is new in the pool, or new under its name, proves itself before anything is scheduled on it."""

    burn_in: Name = Field(description="The Procedure that must succeed.")
    younger: Duration = Field(
        default=timedelta(hours=1),
        description="Node objects that are older were here before: a gate that is new stops nobody who works.",
    )


class Domain(Model):
    """Machines that jobs can use only together: the trays of an NVLink domain."""

    by: Name = Field(description="The fleet's topology name that says which: nvlink-domain.")
    machines: Count = Field(description="So many of a domain a job needs; with fewer, the others are out of use too.")


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
    drain: DrainPace = DrainPace()
    gate: Gate | None = Field(default=None, description="Left out, a new machine may be used at once.")
    domain: Domain | None = Field(default=None, description="Left out, each machine counts for itself.")


class Provider(Model):
    """Who replaces machines."""

    name: Name
    description: Text = Field(description="For people: what it is, and under which contract.")
    contact: Text | None = Field(default=None, description="Whom the ticket names for questions, on our side.")
    provider_id: Text | None = Field(
        default=None,
        description="Machines whose provider id (`spec.providerID`) looks so are its, whatever their pool: `gce://*`.",
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Machines whose nodes have all of these labels are its, whatever their pool."
    )
    acknowledge: Duration | None = Field(
        default=None, description="Within what time it has to say that it saw a ticket; then it is reminded."
    )
    replace: Duration | None = Field(
        default=None, description="Within what time of asking it has to replace a machine; then it is reminded."
    )


class Route(Model):
    """Where messages about some machines go. The first route that matches counts; none: the settings' channel."""

    pool: Name | None = None
    provider: Name | None = None
    severity: Severity | None = Field(default=None, description="This severity, and worse.")
    channel: Annotated[str, Field(pattern=r"^[CG][A-Z0-9]{2,20}$")] = Field(
        description="A Slack channel's id, such as C0123456789; its history cannot be read by its name."
    )
    shared: bool = Field(
        default=False,
        description="Others than our own people read this channel: it gets the request and its proof, and no query, "
        "policy, job, budget or name of a person.",
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


class Checkpoint(Model):
    """How it is known when a training job wrote its last checkpoint. Either, or both: the later word counts."""

    annotation: str | None = Field(
        default=None, description="Of a pod of the job: a time in RFC 3339, or seconds since 1970."
    )
    query: Text | None = Field(
        default=None,
        description="PromQL whose value is the time of the last checkpoint in seconds since 1970; labels `namespace` "
        "and `pod` name a pod of the job.",
    )


class Workloads(Model):
    """What runs in the fleet, as far as draining must know."""

    gang_labels: tuple[str, ...] = Field(
        default=(),
        description="Labels of pods: those with the same value, in the same namespace, live and die together. JobSet, "
        "Job, Kubeflow's and Kueue's own labels are known.",
    )
    training: dict[str, str] = Field(
        default_factory=dict, description="Pods with all these labels are training; so is what is of a gang or a Job."
    )
    checkpoint: Checkpoint = Checkpoint()


class Inventory(Model):
    """Which GPUs a machine has, by their UUIDs: whether what comes back is what was sent away is told by them."""

    signal: Name = Field(description="A signal of GPUs that every one of them has: gpu.temperature.")
    memory: Duration = Field(
        default=timedelta(hours=6),
        description="How far back a GPU counts that is no more seen: one that fell off the bus cannot be asked.",
    )


GUARDS = {
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "karpenter.sh/do-not-disrupt": "true",
}


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
    workloads: Workloads = Workloads()
    inventory: Inventory | None = Field(
        default=None, description="Left out, a machine is known by its provider id and system UUID alone."
    )
    place: tuple[str, ...] = Field(
        default=(),
        description="Node labels that say where a machine stands (rack, slot, leaf port), the widest first. A fault "
        "that comes back in the same place on another machine is the place's. Left out, the node's name is the place.",
    )
    guards: dict[str, str] = Field(
        default=GUARDS,
        description="Annotations that keep autoscalers from removing a node under a case; taken off again at its end.",
    )
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
