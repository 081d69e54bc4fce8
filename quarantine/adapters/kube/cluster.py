"""The `Cluster` port over one API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

import structlog

from quarantine.adapters.kube.api import ApiServer
from quarantine.adapters.kube.cache import NodeCache
from quarantine.adapters.kube.evictions import evict
from quarantine.adapters.kube.inquiry import KubeInquiry
from quarantine.adapters.kube.jobs import KubeJobs
from quarantine.adapters.kube.leases import KubeLease
from quarantine.adapters.kube.pods import PodReader
from quarantine.adapters.kube.watcher import NodeWatcher, Pace
from quarantine.core.case import PodRef
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch, taint_key
from quarantine.core.model import Node
from quarantine.core.workload import PodRules, Workloads

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """How nodes are read. `stale_after` is the age at which the cache is not believed any more.

    `annotations` are kept besides those under our prefix: the fleet's signs of maintenance, and its guards.
    """

    watch: bool = True  # False: list afresh at each `nodes()`, for commands that look once
    sync_within: timedelta = timedelta(seconds=30)  # for the first list, counted from `start`
    stale_after: timedelta = timedelta(minutes=3)
    page: int = 500
    annotations: frozenset[str] = frozenset()
    pace: Pace = field(default_factory=Pace)


DEFAULTS = KubeSettings()


class KubeCluster:
    """Nodes, conditional writes, Events, pods and Jobs. Thread-safe; to be closed.

    `now` gives the time that Events carry (aware, UTC), `monotonic` the seconds by which staleness is judged.
    `in_cluster` tells whether the service account of a pod is used.
    """

    def __init__(
        self,
        api: ApiServer,
        *,
        now: Callable[[], datetime],
        settings: KubeSettings = DEFAULTS,
        in_cluster: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_cluster = in_cluster
        self.url = api.url
        self._api = api
        self._now = now
        self._settings = settings
        self._monotonic = monotonic
        self._cache = NodeCache(api.url, monotonic, taint_key(api.prefix))
        self._pods = PodReader(api.transport, now, monotonic)
        self.jobs = KubeJobs(api.transport, api.prefix, now)
        self._watcher: NodeWatcher | None = None
        self._sync_until = 0.0
        self._closed = False
        self._starting = threading.Lock()

    def lease(self, namespace: str, name: str) -> KubeLease:
        """A Lease by its place."""
        return KubeLease(self._api.transport, namespace, name)

    @property
    def inquiry(self) -> KubeInquiry:
        """What the API server says of itself and of our rights."""
        return KubeInquiry(self._api.transport, self._now)

    def start(self) -> None:
        """Begin to watch, in a thread of its own; `nodes` does so too. Nothing to do where `watch` is off."""
        with self._starting:
            if self._watcher is None and self._settings.watch and not self._closed:
                self._sync_until = self._monotonic() + self._settings.sync_within.total_seconds()
                self._watcher = NodeWatcher(self._api, self._cache, self._settings.pace, self._monotonic)
                self._watcher.start()

    def close(self) -> None:
        """End the watch and give up the connections. May be called twice."""
        with self._starting:
            if self._closed:
                return
            self._closed = True
        if self._watcher is not None:
            self._watcher.stop()
        self._cache.close()
        self._api.close()
        # A reader is woken at once; only a call that still waits for its headers takes up to its time-out.
        if self._watcher is not None and not self._watcher.join(2 * self._api.timeout + timedelta(seconds=1)):
            log.warning("node watch did not stop", url=self.url)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def identity(self) -> str:
        """The uid of the namespace kube-system, asked afresh: behind one URL there may be another cluster tomorrow.

        Raises ClusterRefused where the right to see it is missing, ClusterUnavailable.
        """
        return self._api.identity()

    def nodes(self) -> Mapping[str, Node]:
        """All nodes by name, as of one moment; read-only. Raises ClusterUnavailable, also for a stale cache.

        A node patched through `patch_node` before shows that write.
        """
        if not self._settings.watch:
            try:
                return self._api.list_nodes().nodes
            except ClusterRefused as error:
                raise ClusterUnavailable(str(error)) from error
        self.start()
        return self._cache.read(until=self._sync_until, stale_after=self._settings.stale_after)

    def refresh(self) -> None:
        """List the nodes now, whatever the watch has told: who takes over must not plan on what it saw long ago.

        Raises ClusterUnavailable, ClusterRefused.
        """
        self.start()
        writes = self._cache.writes()
        self._cache.replace(self._api.list_nodes(), writes)

    def patch_node(self, patch: NodePatch) -> Node:
        """One conditional write. Raises Conflict, NodeGone, ClusterRefused, ClusterUnavailable.

        After ClusterUnavailable it may or may not have happened; its preconditions make it safe to try again.
        """
        node = self._api.patch_node(patch)
        self._cache.wrote(node, replaced=patch.resource_version)
        return node

    def create_event(self, event: NodeEvent) -> None:
        """A core/v1 Event in the namespace `default`. One of the same name that exists already is success."""
        self._api.create_event(event, self._now())

    def set_condition(self, condition: NodeCondition) -> None:
        """Our condition in the node's status, and no other. Raises NodeGone, ClusterRefused, ClusterUnavailable.

        The time of its last transition moves only where its status does, as far as the node is known.
        """
        known = self._cache.known(condition.node)
        stands = known.suspect if known is not None and known.machine.node_uid == condition.uid else ""
        moved = stands != ("True" if condition.status else "False")
        node = self._api.patch_condition(condition, self._now(), moved=moved)
        self._cache.wrote(node, replaced="")  # whichever version it was: the status is written without precondition

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        """What runs on these nodes now, and the gangs of it wherever they run, asked afresh. Raises ClusterUnavailable,
        also where the right to list pods is missing: what is not seen is not idle.
        """
        return self._pods.workloads(nodes, rules)

    def evict(self, pod: PodRef) -> bool:
        """Ask a pod to leave, by the Eviction API with its uid. False: it is gone already, or another has its name.

        Raises EvictionBlocked, EvictionImpossible, ClusterRefused, ClusterUnavailable.
        """
        return evict(self._api.transport, pod)
