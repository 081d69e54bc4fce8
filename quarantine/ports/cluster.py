"""The Kubernetes API, as far as it is used, and what runs procedures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from quarantine.core.case import PodRef, Run
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch
from quarantine.core.model import Node
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.workload import PodRules, RunStatus, Workloads


class Cluster(Protocol):
    """The Kubernetes API, as far as it is used."""

    def identity(self) -> str:
        """What no other cluster is called: the uid of its namespace kube-system, asked afresh.

        Raises ClusterUnavailable, and ClusterRefused where the right to see that namespace is missing.
        """
        ...

    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name, from a watch-fed cache. Raises ClusterUnavailable when the cache may be stale."""
        ...

    def patch_node(self, patch: NodePatch) -> Node:
        """One conditional write. Raises Conflict, NodeGone, ClusterRefused, ClusterUnavailable."""
        ...

    def create_event(self, event: NodeEvent) -> None:
        """A Kubernetes Event. One of the same name that exists already is success. Raises as `patch_node`."""
        ...

    def set_condition(self, condition: NodeCondition) -> None:
        """Our condition in the node's status, and no other. Raises as `patch_node`."""
        ...

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        """What runs on these nodes now, and the gangs of it wherever they run. Raises ClusterUnavailable, also where
        the right to see it is missing: what is not seen is not idle.
        """
        ...

    def evict(self, pod: PodRef) -> bool:
        """Ask a pod to leave, by the Eviction API with its uid. False: it is gone already, or another has its name.

        Raises EvictionBlocked where a disruption budget is in the way for now, EvictionImpossible where asking again
        will not help, ClusterRefused, ClusterUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """A procedure to be run on a case's machine, with what its placeholders stand for."""

    run: Run
    spec: ProcedureSpec
    case: str
    node: str
    provider_id: str
    system_uuid: str
    taint: str  # the key of the one taint that its pod tolerates


class Procedures(Protocol):
    """What runs procedures: Kubernetes Jobs, and commands where the controller is."""

    def start(self, order: Order) -> None:
        """Begin it. One of this run's name that was begun already is success. Raises Unavailable, Refused."""
        ...

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        """How far they have come, by run name; one that the runner does not know is not there. Raises Unavailable."""
        ...

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        """End it where it still runs, and leave nothing of it that costs. Raises Unavailable, Refused."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who may act, as the cluster keeps it."""

    holder: str  # empty: nobody
    lasts: timedelta  # unchanged for so long, it is anybody's
    transitions: int  # how often it has changed hands
    since: datetime  # since when this holder has it, by its clock
    at: datetime  # when it was last renewed, by its clock: for people
    version: str = ""  # that was read; empty: there is none yet


class Leases(Protocol):
    """One Lease. Raises ClusterUnavailable, ClusterRefused."""

    def read(self) -> LeaseRecord | None:
        """None: there is none."""
        ...

    def write(self, record: LeaseRecord) -> LeaseRecord:
        """Replace what has the record's version, or make it. Raises Conflict where that is not what is there."""
        ...
