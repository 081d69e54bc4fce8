"""The format of `*_test.yaml`: what Prometheus shows over time, and what a policy must make of it.

As with policies, these models are the only source: the reference and the error messages come from them. What is written
is described for people in `docs/policy-tests.md`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Action
from quarantine.core.document import Metadata, Model, Name, Text
from quarantine.core.model import Verdict
from quarantine.core.units import Duration, format_duration

LONGEST = timedelta(days=2)  # of a test: as long as the longest window that a policy reasonably has, and more
PREFIX = "node-"  # of the machines' names


def _phase(value: object) -> object:
    return None if value == "none" else value


# The phase of the machine's case; None: it has no open case. Written `none`, since an empty value looks like a slip.
Standing = Annotated[
    Phase | None,
    BeforeValidator(_phase),
    WithJsonSchema({"type": "string", "enum": ["none", *(phase.value for phase in Phase)]}),
]
_NODE = re.compile(rf"{PREFIX}[1-9][0-9]{{0,3}}")


def _node(value: str) -> str:
    if not _NODE.fullmatch(value):
        raise ValueError(f"{value!r} is no machine of a test: they are {PREFIX}1, {PREFIX}2, …")
    return value


NodeName = Annotated[
    str, AfterValidator(_node), WithJsonSchema({"type": "string", "pattern": f"^{PREFIX}[1-9][0-9]*$"})
]


class Machines(Model):
    """The simulated machines, node-1, node-2, …: Node objects, and what `$` in a background series stands for."""

    count: int = Field(default=4, strict=True, ge=1, le=1000)
    gpus: int = Field(default=8, strict=True, ge=0, le=16, description="Of each; also the capacity that it declares.")
    ports: int = Field(default=8, strict=True, ge=0, le=32, description="InfiniBand ports of each.")
    links: int = Field(default=4, strict=True, ge=0, le=36, description="NVLinks of each GPU.")
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="Labels of the Node objects, besides those that the first pool and the policy select by.",
    )


class Machine(Model):
    """How one machine's Node object differs from the others."""

    labels: dict[str, str] = Field(default_factory=dict, description="Added to those it has.")
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: tuple[str, ...] = Field(default=(), description="Keys of taints, of effect NoSchedule.")
    ready: StrictBool = True
    unschedulable: StrictBool = False
    gpus: int | None = Field(default=None, strict=True, ge=0, le=16, description="Another declared capacity.")


class Stretch(Model):
    """Some series, for some time."""

    series: Text = Field(description="Matchers as in PromQL; every series that they match is meant.")
    since: Duration | None = Field(default=None, description="Left out: from the beginning.")
    until: Duration | None = Field(default=None, description="Left out: to the end.")

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError(f"since {format_duration(self.since)} is not before until {format_duration(self.until)}")
        return self


class Silence(Stretch):
    """The series have no samples: the exporter is dead, or the device is gone."""

    stale: StrictBool = Field(
        default=True, description="Prometheus notices, and writes a stale marker first (a failed scrape does so)."
    )


class Expected(Model):
    """A decision that must be taken: an action, or a hold."""

    action: Action | None = Field(default=None, description="Such as quarantine, join, recover or release.")
    held: HeldBy | None = Field(default=None, description="What must stand in its way; left out, nothing may.")
    node: Text | None = Field(
        default=None, description="Left out: the test's node; or what the series call one that does not exist."
    )
    after: Duration | None = Field(default=None, description="Not at this time, and not before it.")
    by: Duration | None = Field(default=None, description="At this time at the latest; left out: by the end.")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.action is None and self.held is None:
            raise ValueError("give an action, or what it is held by, or both")
        if self.after is not None and self.by is not None and self.after >= self.by:
            raise ValueError(f"after {format_duration(self.after)} is not before by {format_duration(self.by)}")
        return self


class Target(Model):
    """A further device, and its verdicts."""

    node: NodeName | None = Field(default=None, description="Left out: the test's node.")
    device: Text | None = Field(default=None, description="Left out: the first of what the policy judges.")
    verdicts: dict[Duration, Verdict] = Field(min_length=1, description="Time → bad, good or unknown.")


class Case(Model):
    """One situation, and what must come of it. What is not said is as in the background.

    A quarantine that no decision of the test expects fails it.
    """

    name: Text = Field(max_length=100, description="Unique in the file; `-k` selects by it.")
    lasts: Duration | None = Field(default=None, description="Left out: until the last time that the test names.")
    machines: Machines | None = Field(default=None, description="In place of the file's.")
    nodes: dict[NodeName, Machine] = Field(default_factory=dict, description="Machines that differ.")
    node: NodeName = Field(default="node-1", description="The machine that verdicts, phases and decisions are about.")
    device: Text | None = Field(
        default=None, description="The device that verdicts are about; left out: the first of what the policy judges."
    )
    series: dict[str, Text] = Field(
        default_factory=dict,
        description="Matchers as in PromQL → other values for the background series that they match (at least one).",
    )
    more: dict[str, Text] = Field(
        default_factory=dict, description="Series that the background does not have, as there; `$` works, too."
    )
    without: tuple[Text, ...] = Field(default=(), description="Matchers; the series are taken out of the background.")
    silent: tuple[Silence, ...] = Field(default=(), description="Series that have no samples for a time.")
    frozen: tuple[Stretch, ...] = Field(
        default=(), description="Series that repeat what they last showed: the exporter serves its cache."
    )
    verdicts: dict[Duration, Verdict] = Field(default_factory=dict, description="Time → bad, good or unknown.")
    others: tuple[Target, ...] = Field(default=(), description="Verdicts of further devices.")
    phases: dict[Duration, Standing] = Field(
        default_factory=dict, description="Time → phase of the machine's open case, or none."
    )
    decisions: tuple[Expected, ...] | None = Field(
        default=None, description="What must be decided. An empty list: nothing needs to be."
    )
    never: tuple[Action, ...] = Field(default=(), description="Actions that must not be decided at all, on any node.")

    @model_validator(mode="after")
    def _expects(self) -> Self:
        if not (self.verdicts or self.others or self.phases or self.never) and self.decisions is None:
            raise ValueError(f"the test {self.name!r} expects nothing: give verdicts, phases, decisions or never")
        if not self.length:
            raise ValueError(f"the test {self.name!r} names no time: say how long it lasts")
        if self.length > LONGEST:
            raise ValueError(f"the test {self.name!r} is longer than {format_duration(LONGEST)}")
        late = [time for time in self.times if time > self.length]
        if late:
            raise ValueError(
                f"the test {self.name!r} lasts {format_duration(self.length)} and expects something at "
                f"{format_duration(late[0])}"
            )
        return self

    @property
    def times(self) -> list[timedelta]:
        """All times at or by which something is expected."""
        found = [*self.verdicts, *self.phases, *(time for other in self.others for time in other.verdicts)]
        for expected in self.decisions or ():
            found += [time for time in (expected.after, expected.by) if time is not None]
        return found

    @property
    def length(self) -> timedelta:
        """How long it lasts; zero where nothing says so."""
        return self.lasts or max(self.times, default=timedelta(0))


class PolicyTestSpec(Model):
    """The tests of one policy: alone, as if it enforced, with the fleet, signals and defaults beside it."""

    policy: Name = Field(description="The policy on trial.")
    interval: Duration = Field(
        default=timedelta(seconds=30), description="Between two samples, and between two cycles of the controller."
    )
    machines: Machines = Machines()
    series: dict[str, Text] = Field(
        default_factory=dict,
        description="The background of all tests, what healthy machines at work show: series → values. One whose "
        "labels have `$` in them stands for one series of each machine, GPU, port or link.",
    )
    tests: tuple[Case, ...] = Field(min_length=1)

    @field_validator("interval")
    @classmethod
    def _whole_seconds(cls, value: timedelta) -> timedelta:
        if value % timedelta(seconds=1):
            raise ValueError(f"{format_duration(value)} is no whole number of seconds")
        return value


class PolicyTest(Model):
    """A document of kind PolicyTest; there is one in a file."""

    api_version: Literal["quarantine.gpu/v1alpha1"]
    kind: Literal["PolicyTest"]
    metadata: Metadata
    spec: PolicyTestSpec
