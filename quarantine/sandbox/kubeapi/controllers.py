"""What other programs of a cluster do a moment after a write, as one deterministic step.

The disruption controller and the node TTL controller are those that the recording ran. The kubelet ends terminating
pods; the namespace controller and the garbage collector clean up. The node life-cycle controller (taints that follow a
cordon and the Ready condition) is off by default: the recorded cluster did not run it, most real ones do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quarantine.sandbox.kubeapi.errors import ApiError
from quarantine.sandbox.kubeapi.eviction import condition, is_ready
from quarantine.sandbox.kubeapi.operations import Operations, Write
from quarantine.sandbox.kubeapi.patches import merge_patch
from quarantine.sandbox.kubeapi.resources import (
    ALL,
    BUDGETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from quarantine.sandbox.kubeapi.selectors import selector_object
from quarantine.sandbox.kubeapi.store import DELETED, MODIFIED, Change, Entry, Object
from quarantine.sandbox.kubeapi.strategies import NOT_READY

MANAGER: Final = "kube-controller-manager"
_TTL: Final = "node.alpha.kubernetes.io/ttl"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_SCALES: Final = {resource.kind: resource for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)}


@dataclass(slots=True)
class Controllers:
    """The programs, and how far they have read."""

    operations: Operations
    lifecycle_taints: bool = False
    dead_kubelets: set[str] = field(default_factory=set)  # nodes whose terminating pods stay
    _seen: int = 0
    _terminating: set[tuple[str, str]] = field(default_factory=set)

    def settle(self) -> None:
        """React to every change since the last time, until nothing changes any more."""
        store = self.operations.store
        with store.lock:
            while (revision := store.revision) != self._seen or self._due():
                changes = store.since(self._seen) if self._seen >= store.floor else self._everything()
                self._seen = revision
                self._react(changes)

    def _everything(self) -> list[Change]:
        """What to look at when the history since the last time is forgotten: all there is."""
        store = self.operations.store
        entries = (entry for resource in ALL for entry in store.entries(resource).values())
        return [Change(entry.revision, MODIFIED, entry, None) for entry in entries]

    def _due(self) -> bool:
        """Whether a pod can end now whose kubelet was dead before."""
        pods = (self.operations.store.get(PODS, key) for key in self._terminating)
        return any(pod and pod.obj["spec"].get("nodeName") not in self.dead_kubelets for pod in pods)

    def _react(self, changes: Iterable[Change]) -> None:
        budgets: set[str] = set()
        for change in changes:
            resource, key = change.entry.resource, change.entry.key
            if resource in {PODS, BUDGETS} or resource.kind in _SCALES:
                budgets.add(key[0])
            if change.type == DELETED:
                self._collect_garbage(change.entry)
            elif resource is NODES:
                self._node(key[1])
            elif resource is NAMESPACES:
                self._namespace(key[1])
            elif resource is PODS and "deletionTimestamp" in change.entry.obj["metadata"]:
                self._terminating.add(key)
        self._kubelets()
        for namespace in sorted(budgets):
            self._budgets(namespace)

    def _kubelets(self) -> None:
        for key in sorted(self._terminating):
            pod = self.operations.store.get(PODS, key)
            if pod is None or "deletionTimestamp" not in pod.obj["metadata"]:
                self._terminating.discard(key)
            elif pod.obj["spec"].get("nodeName") not in self.dead_kubelets:
                self._terminating.discard(key)
                self.operations.delete(PODS, key, {"gracePeriodSeconds": 0}, Write("kubelet"))

    def _collect_garbage(self, gone: Entry) -> None:
        uid = gone.obj["metadata"]["uid"]
        for resource in ALL:
            for key, entry in self.operations.store.entries(resource).items():
                owners = entry.obj["metadata"].get("ownerReferences") or ()
                if owners and all(owner.get("uid") == uid for owner in owners):
                    self.operations.delete(resource, key, {}, Write(MANAGER))

    def _namespace(self, name: str) -> None:
        entry = self.operations.store.get(NAMESPACES, ("", name))
        if entry is None or "deletionTimestamp" not in entry.obj["metadata"]:
            return
        for resource in ALL:
            for key in self.operations.store.entries(resource):
                if key[0] == name:
                    self.operations.delete(resource, key, {"gracePeriodSeconds": 0}, Write(MANAGER))
        self.operations.store.remove(NAMESPACES, ("", name))

    def _node(self, name: str) -> None:
        entry = self.operations.store.get(NODES, ("", name))
        if entry is None:
            return
        if _TTL not in (entry.obj["metadata"].get("annotations") or {}):
            self._patch(NODES, entry, {"metadata": {"annotations": {_TTL: "0"}}})
        if self.lifecycle_taints:
            present = entry.obj["spec"].get("taints", [])
            wanted = _lifecycle_taints(entry.obj, self.operations.now())
            if wanted != present:
                self._patch(NODES, entry, {"spec": {"taints": wanted}})

    def _patch(self, resource: Resource, entry: Entry, patch: Mapping[str, Any], subresource: str = "") -> None:
        """What the server finds invalid (annotations that are full, say) stays undone, as in a real cluster."""
        try:
            self.operations.patch(resource, entry.key, lambda obj: merge_patch(obj, patch), Write(MANAGER, subresource))
        except ApiError as error:
            if error.code != 422:
                raise

    def _budgets(self, namespace: str) -> None:
        entries = self.operations.store.entries(BUDGETS)
        for budget in (entry for key, entry in entries.items() if key[0] == namespace):
            matches = selector_object(budget.obj["spec"].get("selector"))
            pods = [
                entry.obj
                for key, entry in self.operations.store.entries(PODS).items()
                if key[0] == namespace and matches(entry.obj)
            ]
            status = self._budget_status(budget.obj, pods)
            self._set_status(budget, status)

    def _set_status(self, entry: Entry, status: Object) -> None:
        write = Write(MANAGER, "status")
        self.operations.patch(entry.resource, entry.key, lambda obj: obj | {"status": status}, write)

    def _budget_status(self, budget: Object, pods: list[Object]) -> Object:
        """The disruption controller's sum. Pods without a controller count where a number of pods is asked for."""
        spec, before = budget["spec"], budget["status"]
        names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        disrupted = {name: at for name, at in (before.get("disruptedPods") or {}).items() if name in names}
        status: Object = {"observedGeneration": budget["metadata"]["generation"]}
        if disrupted:
            status["disruptedPods"] = disrupted
        try:
            expected, desired = self._expected(spec, pods)
        except _CannotScale as error:
            counts = {k: before[k] for k in ("currentHealthy", "desiredHealthy", "expectedPods")}
            status |= counts | {"disruptionsAllowed": 0}
            return status | {"conditions": [self._allowed_condition(budget, "SyncFailed", str(error))]}
        healthy = sum(is_ready(pod) and pod["metadata"]["name"] in names - disrupted.keys() for pod in pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status |= {"disruptionsAllowed": allowed, "currentHealthy": healthy}
        status |= {"desiredHealthy": desired, "expectedPods": expected}
        reason = "SufficientPods" if allowed else "InsufficientPods"
        return status | {"conditions": [self._allowed_condition(budget, reason, "")]}

    def _allowed_condition(self, budget: Object, reason: str, message: str) -> Object:
        value = "True" if reason == "SufficientPods" else "False"
        old = condition(budget, "DisruptionAllowed")
        return {
            "type": "DisruptionAllowed",
            "status": value,
            "observedGeneration": budget["metadata"]["generation"],
            "lastTransitionTime": old["lastTransitionTime"] if old.get("status") == value else self.operations.now(),
            "reason": reason,
            "message": message,
        }

    def _expected(self, spec: Object, pods: list[Object]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        if "maxUnavailable" in spec:
            scale = self._scale(pods)
            return scale, max(0, scale - _share(spec["maxUnavailable"], scale))
        least = spec.get("minAvailable", 0)
        if isinstance(least, int):
            return len(pods), least
        scale = self._scale(pods)
        return scale, _share(least, scale)

    def _scale(self, pods: list[Object]) -> int:
        owners: dict[str, Mapping[str, Any]] = {}
        for pod in pods:
            for owner in pod["metadata"].get("ownerReferences") or ():
                if owner.get("controller"):
                    owners[owner["uid"]] = {**owner, "pod": pod["metadata"]}
        return sum(self._replicas(owner) for owner in owners.values())

    def _replicas(self, owner: Mapping[str, Any]) -> int:
        kind, namespace = owner["kind"], owner["pod"]["namespace"]
        if kind not in _SCALES:
            plural = f"{kind.lower()}s.{owner.get('apiVersion', '').partition('/')[0]}"
            raise _CannotScale(f"{plural} does not implement the scale subresource")
        found = self.operations.store.get(_SCALES[kind], (namespace, owner["name"]))
        if found is None or found.obj["metadata"]["uid"] != owner["uid"]:
            raise _CannotScale(f'found no controllers for pod "{owner["pod"]["name"]}"')
        return int(found.obj["spec"].get("replicas", 1))


class _CannotScale(Exception):
    """The number of pods that should be there cannot be told, as for a Job: such a budget allows nothing."""


def _share(value: int | str, total: int) -> int:
    """A number, or a percentage of `total` rounded up."""
    return value if isinstance(value, int) else math.ceil(int(value.removesuffix("%")) * total / 100)


def _lifecycle_taints(node: Object, now: str) -> list[Object]:
    """The taints that follow from the cordon and the Ready condition; all others stay as they are."""
    ready = condition(node, "Ready").get("status")
    wanted = {
        _UNSCHEDULABLE: bool(node["spec"].get("unschedulable")),
        NOT_READY: ready in {None, "False"},
        _UNREACHABLE: ready == "Unknown",
    }
    taints: list[Object] = list(node["spec"].get("taints", ()))
    kept = [t for t in taints if t["effect"] != "NoSchedule" or wanted.get(t["key"], True)]
    present = {t["key"] for t in kept if t["effect"] == "NoSchedule"}
    return kept + [
        {"key": key, "effect": "NoSchedule", "timeAdded": now}
        for key, on in wanted.items()
        if on and key not in present
    ]
