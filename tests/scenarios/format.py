"""The format of a scenario: a fleet, a timeline of faults and traps, and the right outcome.

What Prometheus shows is written as in policy tests (`quarantine/policytest`, docs/policy-tests.md): the background of
healthy machines in `background/healthy.yaml`, and what each fault and trap changes of it, from when to when.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, StrictBool, model_validator

from quarantine.core.case import HeldBy, Purpose
from quarantine.core.decision import RequestKind
from quarantine.core.document import Model, Text
from quarantine.core.units import Duration
from quarantine.policytest.format import Machine, Machines, NodeName, Standing

HERE = Path(__file__).parent
THERMAL = ("gpu-hot", "gpu-memory-hot", "gpu-thermal-throttling", "gpu-warmer-than-siblings")
ERRORS = ("gpu-ecc-uncorrectable", "gpu-row-remap", "gpu-pcie-replay", "xid-hardware")
NVLINK = ("nvlink-errors", "nvlink-down")
SEEN = ("gpu-lost", "blind-node")
INFINIBAND = tuple(
    f"infiniband-{what}"
    for what in (
        *("link-flapping", "link-down", "rate-degraded", "integrity"),
        *("symbol-errors", "receive-errors", "congestion"),
    )
)
GROUPS = {
    "thermal": THERMAL,
    "errors": ERRORS,
    "nvlink": NVLINK,
    "seen": SEEN,
    "gpu": (*THERMAL, *ERRORS, *NVLINK, *SEEN),
    "infiniband": INFINIBAND,
}
BACKGROUND = HERE / "background" / "healthy.yaml"
START = timedelta(0)


class Change(Model):
    """What Prometheus shows instead of the background, from `at` to `until`."""

    what: Text = Field(description="For people, and for the table.")
    at: Duration | None = Field(default=None, description="Left out: from the beginning.")
    until: Duration | None = Field(default=None, description="Left out: to the end.")
    series: dict[str, Text] = Field(default_factory=dict, description="Matchers → values from `at` on.")
    silent: tuple[Text, ...] = Field(default=(), description="Matchers of series that have no samples.")
    stale: StrictBool = Field(default=True, description="Of `silent`: Prometheus notices, and writes a stale marker.")
    frozen: tuple[Text, ...] = Field(default=(), description="Matchers of series that repeat what they last showed.")

    @property
    def begins(self) -> timedelta:
        """When, in the scenario."""
        return self.at or START


class Fault(Change):
    """Something that is wrong with a machine."""

    machine: NodeName
    out_by: Duration | Literal["never"] = Field(
        description="When our taint must be on it; `never`: real, and still no reason to take the machine out."
    )


class Trap(Change):
    """Something that looks like a fault and is none, or hides one."""


class Asked(Model):
    """What a person asks."""

    kind: RequestKind
    node: NodeName | None = None
    reason: Text = "because of this scenario"
    lasts: Duration | None = Field(default=None, description="Of a waiver, a pause or planned work.")
    scope: str = ""


class Event(Model):
    """Something that happens in the cluster, and not to what Prometheus shows."""

    at: Duration
    nodes: dict[NodeName, Machine] = Field(default_factory=dict, description="Node objects that change.")
    gone: tuple[NodeName, ...] = Field(default=(), description="Node objects that are deleted.")
    comes: dict[NodeName, str] = Field(default_factory=dict, description="Node → which hardware joins under its name.")
    boots: tuple[NodeName, ...] = ()
    asks: Asked | None = None
    policies: dict[str, dict[str, Any]] = Field(default_factory=dict, description="Changes of policies' specs.")
    untaints: dict[NodeName, str] = Field(default_factory=dict, description="Who (a field manager) drops our taint.")
    uncordons: tuple[NodeName, ...] = ()
    prometheus: Literal["sound", "partial", "failing"] | None = None


class Gang(Model):
    """A training job: a pod on each of its machines."""

    name: Text
    nodes: tuple[NodeName, ...]
    checkpoints: tuple[Duration, ...] = Field(default=(), description="When its pods' annotation tells of a new one.")


class Ends(Model):
    """How every procedure of a purpose ends."""

    after: Duration
    well: StrictBool = True


class Outcome(Model):
    """The right outcome, besides which machines must be out, and that no other ever is."""

    phases: dict[NodeName, dict[Duration, Standing]] = Field(default_factory=dict)
    held: tuple[HeldBy, ...] = Field(default=(), description="What must be seen to hold something back.")
    tickets: int | None = Field(default=None, strict=True, ge=0)
    evictions: int | None = Field(default=None, strict=True, ge=0, description="Pods that were asked to leave.")
    clean: tuple[NodeName, ...] = Field(default=(), description="Nodes that bear nothing of ours at the end.")


class Scenario(Model):
    """One situation. What is not said is as with healthy machines, and as the shipped policies say."""

    title: Text = Field(max_length=100)
    kind: Literal["fault", "trap", "life"]
    source: Text | None = Field(default=None, description="Where it was met, or the trap's number.")
    lasts: Duration
    machines: Machines = Machines(count=10, gpus=4, ports=2, links=0)
    racks: Annotated[int, Field(strict=True, ge=1)] = Field(default=5, description="example.com/rack of the nodes.")
    nodes: dict[NodeName, Machine] = Field(default_factory=dict)
    every: Duration | None = Field(
        default=None,
        description="Between two cycles of the controller. Left out: 1m until all that must be out is due; 2m after.",
    )
    policies: tuple[Text, ...] = Field(
        default=(), description="Names, or groups of them; all of them enforce. Left out: all that are shipped."
    )
    fleet: dict[str, Any] = Field(default_factory=dict, description="Merged into the shipped Fleet's spec.")
    pool: dict[str, Any] = Field(default_factory=dict, description="Merged into its first pool.")
    defaults: dict[str, Any] = Field(default_factory=dict, description="Merged into the shipped Defaults' spec.")
    edits: dict[str, dict[str, Any]] = Field(default_factory=dict, description="Policy → merged into its spec.")
    more: dict[str, Text] = Field(default_factory=dict, description="Series that the background does not have.")
    without: tuple[Text, ...] = Field(default=(), description="Matchers of background series that there are not.")
    faults: tuple[Fault, ...] = ()
    traps: tuple[Trap, ...] = ()
    events: tuple[Event, ...] = ()
    gangs: tuple[Gang, ...] = ()
    procedures: dict[Purpose, Ends] = Field(default_factory=dict)
    outcome: Outcome = Outcome()

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        named = [f.out_by for f in self.faults if isinstance(f.out_by, timedelta)]
        named += [time for phases in self.outcome.phases.values() for time in phases]
        named += [event.at for event in self.events]
        if late := [time for time in named if time > self.lasts]:
            raise ValueError(f"{self.title}: it lasts {self.lasts}, and something is to be at {late[0]}")
        return self

    @property
    def cycles(self) -> list[timedelta]:
        """When the controller looks: often while time counts, and whenever something is expected or happens."""
        due = max((f.out_by for f in self.faults if isinstance(f.out_by, timedelta)), default=START)
        often, seldom = self.every or timedelta(minutes=1), self.every or timedelta(minutes=2)
        times = {n * often for n in range(due // often + 1)}
        times |= {due + n * seldom for n in range((self.lasts - due) // seldom + 1)}
        times |= {time for phases in self.outcome.phases.values() for time in phases}
        return sorted(times | {event.at for event in self.events})

    @property
    def enforced(self) -> frozenset[str]:
        """Names of policies; empty: all."""
        return frozenset(name for given in self.policies for name in GROUPS.get(given, (given,)))

    @property
    def changes(self) -> tuple[Change, ...]:
        """All that Prometheus shows otherwise; of two that are about one series, the later one counts."""
        return (*self.traps, *self.faults)

    @property
    def guilty(self) -> dict[str, timedelta]:
        """The machines that must be taken out, and from when on that is right."""
        found: dict[str, timedelta] = {}
        for fault in self.faults:
            if fault.out_by != "never":
                found[fault.machine] = min(found.get(fault.machine, fault.begins), fault.begins)
        return found


def load(file: Path) -> Scenario:
    """The scenario in a file."""
    return Scenario.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")), by_alias=True, by_name=False)


def background() -> dict[str, str]:
    """Series → values."""
    found: dict[str, str] = yaml.safe_load(BACKGROUND.read_text(encoding="utf-8"))
    return found


def scenario_files() -> list[Path]:
    """All of them."""
    return sorted(HERE.glob("*.yaml"))
