"""What the controller sees: devices, nodes and the answers of Prometheus, as frozen records.

Times are aware UTC datetimes. Nothing here reads a clock or a network. `None` in a field means "the source does not
say"; that something could not be asked is always `Failed`, never `None` and never an empty answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Mode(StrEnum):
    """How far a policy or an installation may go. The effective mode is the lower of the two."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Verdict(StrEnum):
    """What the evidence says of one device under one policy. Three values, never two (invariant 1)."""

    BAD = "bad"
    GOOD = "good"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How bad a finding is, least first: the order in which budgets are spent is the reverse."""

    WARNING = "warning"
    CRITICAL = "critical"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        """0 for the mildest."""
        return list(Severity).index(self)


class DeviceKind(StrEnum):
    """What a signal is about."""

    NODE = "node"
    GPU = "gpu"
    IB_PORT = "ib_port"
    NVLINK = "nvlink"


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A device of a node, by a name that stays: a GPU's UUID (an index moves), an NVLink as `GPU-…/7`, an InfiniBand
    port as `mlx5_0/1`, the node as no name.
    """

    kind: DeviceKind
    name: str
    index: str = field(default="", compare=False)  # the GPU's index when the evidence was taken; for people only

    def __str__(self) -> str:
        match self.kind:
            case DeviceKind.GPU:
                return f"GPU {self.index} ({self.name})" if self.index else self.name
            case DeviceKind.NVLINK:
                gpu, _, link = self.name.rpartition("/")
                return f"NVLink {link} of GPU {self.index} ({gpu})" if self.index else f"NVLink {link} of {gpu}"
            case DeviceKind.IB_PORT:
                return f"InfiniBand port {self.name}"
            case DeviceKind.NODE:
                return "the node"


# --- Kubernetes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint as the API server holds it, every field kept so that a foreign one survives our write unchanged."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    time_added: str | None = None  # RFC 3339 text, as served


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware behind a node name, as far as the Node object tells; empty text where it does not."""

    node_uid: str
    provider_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    gpus: tuple[str, ...] = ()  # UUIDs, sorted, as its exporters named them; a Node object does not tell
    place: str = ""  # where it stands: the value of the fleet's `place` labels, `rack=r7/slot=4`


@dataclass(frozen=True, slots=True)
class Node:
    """The fields of a Node object that matter here.

    `annotations` holds those under our prefix, and those that the fleet file names as signs of maintenance.
    """

    name: str
    machine: Machine
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool | None  # None: the Ready condition is Unknown or missing
    addresses: tuple[str, ...] = ()
    gpus: int | None = None  # whole ones, by the node's own word (`core.capacity`); None: it cannot be told
    created_at: datetime | None = None  # of the Node object
    # Who wrote the taint list last, of managedFields; empty: nobody owns one. A removed list leaves no owner. While our
    # taint is away it is who took it away, where this process saw that, and not who wrote the list since.
    tainted_by: str = ""
    suspect: str = ""  # the status of our node condition: True, False, Unknown; empty: it has none


# --- Prometheus -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector: its labels (without `__name__`), its value, when, and for which query."""

    labels: Mapping[str, str]
    value: float
    at: datetime
    query: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Samples:
    """A complete answer. Warned, partial and truncated answers are `Failed`, so an empty one really means none."""

    samples: tuple[Sample, ...]
    query: str


class FailureKind(StrEnum):
    """Why a question has no answer; stable, so that a hold is recorded when this changes and not at every cycle."""

    UNREACHABLE = "unreachable"  # refused, reset, name not found
    TIMEOUT = "timeout"
    REFUSED = "refused"  # 401, 403
    REJECTED = "rejected"  # 400 bad_data, 422 execution: this query will fail again
    UNAVAILABLE = "unavailable"  # 429, 5xx
    GARBLED = "garbled"  # not Prometheus' JSON: a proxy's HTML, a truncated body
    PARTIAL = "partial"  # answered with warnings or isPartial
    MISCONFIGURED = "misconfigured"


@dataclass(frozen=True, slots=True)
class Failed:
    """A question that was not answered: never an empty answer. `detail` is one sentence with the URL and what to do."""

    kind: FailureKind
    detail: str
    query: str = ""


Answer = Samples | Failed


@dataclass(frozen=True, slots=True)
class PolicyAnswers:
    """What Prometheus said for one policy: one answer for each source of its signal (an exporter's metric).

    `recovery` is asked only about machines with an open case, `coverage` at a slow pace (in each cycle for a trigger
    of absence, which is judged by it); each maps the source's key, and `coverage_at` is when the oldest of the coverage
    answers was taken. `others` is what the readings of other exporters say now of the devices found bad, by their
    keys: during a roll-out two exporters see the same device, and people are shown where they disagree.
    """

    trigger: Mapping[str, Answer]
    recovery: Mapping[str, Answer]
    coverage: Mapping[str, Answer]
    coverage_at: datetime | None = None
    others: Mapping[str, Answer] = field(default_factory=dict)
    # The devices that are beyond the bound at this moment, however lately: asked where machines that share something
    # are looked for, and a superset of the bad ones.
    emerging: Mapping[str, Answer] = field(default_factory=dict)
