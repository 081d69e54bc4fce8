"""What runs on a machine, as far as draining must know: pods, the gangs they are of, and procedures' progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from quarantine.core.case import PodRef, RunOutcome


class Class(StrEnum):
    """What a pod is to the drain, in the order in which pods are asked to leave."""

    SERVICE = "service"  # inference and everything else that is no training: it is made again elsewhere
    TRAINING = "training"  # of a gang, or of a batch job: what it did since its last checkpoint is lost


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod on a node that has to leave before the machine can be worked on.

    DaemonSets' pods, mirror pods and pods that ended are none: they are left where they are.
    """

    ref: PodRef
    node: str
    kind: Class
    gang: str = ""  # `JobSet training/llama-3`: pods of one gang live and die together; empty: it is of none
    owner: str = ""  # `StatefulSet inference/web`: what makes it again; empty: nothing does
    priority: int = 0  # Kubernetes': the lowest leaves first
    running: bool = True  # False: pending, or terminating
    terminating: bool = False  # asked to leave already, by anybody
    started_at: datetime | None = None  # of its youngest container: a restart in place moves it
    checkpoint_at: datetime | None = None  # of its last checkpoint, by its annotation or by the fleet's query
    tolerates: bool = False  # our taint: it may come back to this very node
    created_at: datetime | None = None  # of the Pod object: what comes back is younger than the request to leave


@dataclass(frozen=True, slots=True)
class Gang:
    """The pods of a gang wherever they run, as far as it matters whether it is down."""

    key: str
    pods: int = 0  # that exist and have not ended
    running: int = 0
    nodes: frozenset[str] = frozenset()  # on which they run
    checkpoint_at: datetime | None = None  # of the whole: the oldest of its pods' where all tell, else the newest known
    youngest: datetime | None = None  # when the pod that started last did: after a restart, of the new attempt
    members: frozenset[PodRef] = frozenset()  # its pods, wherever they run


@dataclass(frozen=True, slots=True)
class Workloads:
    """What runs on the nodes that were asked about. A node that is not in `nodes` was not asked about."""

    nodes: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    gangs: Mapping[str, Gang] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodRules:
    """How pods are told apart: what the fleet file says, and our taint."""

    prefix: str = "quarantine.gpu"
    gang_labels: tuple[str, ...] = ()
    training: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str = ""  # the annotation of pods that says when; empty: none does


@dataclass(frozen=True, slots=True)
class RunStatus:
    """How far a procedure has come, by its runner's word."""

    outcome: RunOutcome
    ended_at: datetime | None = None
    message: str = ""  # for people
