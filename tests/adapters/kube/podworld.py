"""Pods as a cluster has them, for tests of what runs where."""

from __future__ import annotations

from typing import Any

from quarantine.core.case import PodRef
from quarantine.sandbox.kubeapi import KubeApi

STARTED = "2026-11-29T11:00:00Z"


def pod_json(name: str, node: str = "n1", *, namespace: str = "default", **parts: Any) -> dict[str, Any]:
    """A pod that runs. `labels`, `annotations`, `owner` (kind/name), `uid` and `deleted` go into its metadata, `status`
    replaces the whole of it, the rest goes into its spec.
    """
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    meta |= {key: parts.pop(key) for key in ("labels", "annotations", "uid") if key in parts}
    if parts.pop("deleted", False):
        meta["deletionTimestamp"] = STARTED
    if owner := parts.pop("owner", ""):
        meta["ownerReferences"] = [owner_ref(*owner.split("/"))]
    status = parts.pop("status", None) or running(STARTED)
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec | parts, "status": status}


APPS = ("DaemonSet", "ReplicaSet", "StatefulSet")


def owner_ref(kind: str, name: str) -> dict[str, Any]:
    group = "apps/v1" if kind in APPS else {"Job": "batch/v1", "Node": "v1"}.get(kind, "example.com/v1")
    return {"apiVersion": group, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def running(*started: str, phase: str = "Running", since: str = "2026-11-29T10:00:00Z") -> dict[str, Any]:
    """The status of a pod whose containers started then; an empty text is one that waits to be started again."""
    states = [{"running": {"startedAt": at}} if at else {"waiting": {"reason": "CrashLoopBackOff"}} for at in started]
    return {
        "phase": phase,
        "startTime": since,
        "containerStatuses": [{"name": f"c{i}", "state": state} for i, state in enumerate(states)],
        "conditions": [{"type": "Ready", "status": "True"}],
    }


def create_pod(api: KubeApi, name: str, node: str = "n1", **parts: Any) -> PodRef:
    """Create it as a controller does, and let its kubelet say how it is."""
    body = pod_json(name, node, **parts)
    made = api.create({key: value for key, value in body.items() if key != "status"})["metadata"]
    api.patch_merge("Pod", name, {"status": body["status"]}, made["namespace"], subresource="status")
    return PodRef(made["namespace"], name, made["uid"])


def comes_back(api: KubeApi, pod: PodRef, node: str = "n1", **parts: Any) -> PodRef:
    """What a StatefulSet does once a pod of its is gone: another one under its name, with a uid of its own."""
    again = create_pod(api, pod.name, node, namespace=pod.namespace, owner=f"StatefulSet/{pod.name}", **parts)
    assert again.uid != pod.uid
    return again
