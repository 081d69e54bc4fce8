"""The fleet: which cluster is judged, which machines share a budget, what is never touched."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from quarantine.core.document import LabelName, Metadata, Model, Name
from quarantine.core.units import Count, Share


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
