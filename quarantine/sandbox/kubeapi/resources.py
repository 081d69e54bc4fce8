"""The kinds that the server knows, and how each differs from the common behaviour."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

_META = ("metadata.name", "metadata.namespace")
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind. `fields` are what field selectors may name."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    create_on_update: bool = False  # PUT of a name that does not exist creates it
    unconditional_update: bool = True  # PUT without a resourceVersion is allowed
    generation: bool = False
    returns_deleted: bool = False  # DELETE answers with the object, not with a Status
    fields: tuple[str, ...] = _META

    @property
    def api_version(self) -> str:
        """As objects spell it: `v1`, `policy/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As messages spell it: `nodes`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As messages about invalid objects spell it: `Node`, `Lease.coordination.k8s.io`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def list_kind(self) -> str:
        """`NodeList`."""
        return f"{self.kind}List"

    @property
    def storage_hash(self) -> str:
        """What discovery says of the storage version; clients only compare it."""
        text = f"{self.group}/{self.version}/{self.kind}"
        return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


NAMESPACES = Resource(
    "", "v1", "namespaces", "namespace", "Namespace", False, ("ns",), has_status=True, fields=(*_META, "status.phase")
)
NODES = Resource(
    "", "v1", "nodes", "node", "Node", False, ("no",), has_status=True, fields=("metadata.name", "spec.unschedulable")
)
PODS = Resource(
    "",
    "v1",
    "pods",
    "pod",
    "Pod",
    True,
    ("po",),
    ("all",),
    has_status=True,
    generation=True,
    returns_deleted=True,
    fields=(
        *_META,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
)
EVENTS = Resource(
    "",
    "v1",
    "events",
    "event",
    "Event",
    True,
    ("ev",),
    create_on_update=True,
    fields=(
        *_META,
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
)
CONFIG_MAPS = Resource("", "v1", "configmaps", "configmap", "ConfigMap", True, ("cm",))
BUDGETS = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "poddisruptionbudget",
    "PodDisruptionBudget",
    True,
    ("pdb",),
    has_status=True,
    unconditional_update=False,
    generation=True,
)
LEASES = Resource(
    "coordination.k8s.io",
    "v1",
    "leases",
    "lease",
    "Lease",
    True,
    create_on_update=True,
    unconditional_update=False,
)
JOBS = Resource(
    "batch",
    "v1",
    "jobs",
    "job",
    "Job",
    True,
    (),
    ("all",),
    has_status=True,
    generation=True,
    fields=(*_META, "status.successful"),
)


def _workload(plural: str, kind: str, short: str) -> Resource:
    """A controller of apps/v1: a plain store, which drains and disruption budgets look at."""
    return Resource("apps", "v1", plural, plural[:-1], kind, True, (short,), ("all",), has_status=True, generation=True)


DAEMON_SETS = _workload("daemonsets", "DaemonSet", "ds")
DEPLOYMENTS = _workload("deployments", "Deployment", "deploy")
REPLICA_SETS = _workload("replicasets", "ReplicaSet", "rs")
STATEFUL_SETS = _workload("statefulsets", "StatefulSet", "sts")

ALL = (
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    CONFIG_MAPS,
    BUDGETS,
    LEASES,
    JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
BY_KIND = {resource.kind: resource for resource in ALL}
BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in ALL}
GROUPS: dict[str, tuple[str, ...]] = {
    "apps": ("v1",),
    "authorization.k8s.io": ("v1",),
    "batch": ("v1",),
    "coordination.k8s.io": ("v1",),
    "policy": ("v1",),
}
