"""What the server makes of an object before it is stored: defaults, fields that are not the client's, empty fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quarantine.sandbox.kubeapi.resources import (
    BUDGETS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    Resource,
)
from quarantine.sandbox.kubeapi.store import Object

NOT_READY = "node.kubernetes.io/not-ready"

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_NODE_SPEC = frozenset({"configSource", "externalID", "podCIDR", "podCIDRs", "providerID", "taints", "unschedulable"})
_TAINT = ("key", "value", "effect", "timeAdded")
_POD_SPEC: Final[Object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
}
_JOB_SPEC: Final[Object] = {
    "parallelism": 1,
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "podReplacementPolicy": "TerminatingOrFailed",
    "suspend": False,
}
_BUDGET_STATUS: Final[Object] = {
    "disruptionsAllowed": 0,
    "currentHealthy": 0,
    "desiredHealthy": 0,
    "expectedPods": 0,
}


def _node(obj: Object) -> None:
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key in _NODE_SPEC}
    if not spec.get("unschedulable"):
        spec.pop("unschedulable", None)
    taints = [{key: taint[key] for key in _TAINT if taint.get(key)} for taint in spec.pop("taints", ())]
    obj["spec"] = spec | ({"taints": taints} if taints else {})
    status = obj.get("status") or {}
    info = dict.fromkeys(_NODE_INFO, "") | (status.get("nodeInfo") or {})
    endpoints = status.get("daemonEndpoints") or {}
    port = (endpoints.get("kubeletEndpoint") or {}).get("Port", 0)
    obj["status"] = status | {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}, "nodeInfo": info}


def _pod(obj: Object) -> None:
    obj["spec"] = _POD_SPEC | (obj.get("spec") or {})
    obj.setdefault("status", {})


def _event(obj: Object) -> None:
    for time in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(time, None)
    obj.setdefault("source", {})
    obj.setdefault("involvedObject", {})
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


def _budget(obj: Object) -> None:
    obj.setdefault("spec", {})
    obj["status"] = _BUDGET_STATUS | (obj.get("status") or {})


def _namespace(obj: Object) -> None:
    name = obj["metadata"].get("name", "")
    labels = obj["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = name
    obj.setdefault("spec", {"finalizers": ["kubernetes"]})
    obj["status"] = {"phase": "Active"} | (obj.get("status") or {})


def _job(obj: Object) -> None:
    spec = obj["spec"] = dict(obj.get("spec") or {})
    if "parallelism" not in spec:
        spec.setdefault("completions", 1)
    spec |= _JOB_SPEC | spec
    obj.setdefault("status", {})
    meta = obj["metadata"]
    if "selector" in spec or spec.get("manualSelector") or "uid" not in meta:
        return
    # The old names and the new ones, as the job strategy generates them; the selector has the new one alone.
    uid, name = meta["uid"], meta.get("name", "")
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    template = spec["template"] = dict(spec.get("template") or {})
    about = template["metadata"] = dict(template.get("metadata") or {})
    ours = {"controller-uid": uid, "job-name": name}
    about["labels"] = (about.get("labels") or {}) | ours | {f"batch.kubernetes.io/{k}": v for k, v in ours.items()}


_FILL: Final[dict[Resource, Callable[[Object], None]]] = {
    NODES: _node,
    PODS: _pod,
    EVENTS: _event,
    BUDGETS: _budget,
    NAMESPACES: _namespace,
    JOBS: _job,
}


def normalise(resource: Resource, obj: Object) -> Object:
    """Drop what the server does not keep (nulls, empty maps of metadata, a false `unschedulable`), fill in defaults."""
    clean: Object = _without_nulls(obj)
    meta = clean.setdefault("metadata", {})
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not meta.get(field):
            meta.pop(field, None)
    if resource.has_status:
        clean.setdefault("spec", {})
        clean.setdefault("status", {})
    if fill := _FILL.get(resource):
        fill(clean)
    return clean


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def reset_for_create(resource: Resource, obj: Object) -> None:
    """Take out what a client may not set. A node may come with its status (the kubelet registers so), others not."""
    if resource is PODS:
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    elif resource is not NODES and resource.has_status:
        obj.pop("status", None)


def normalise_update(resource: Resource, obj: Object, before: Object, subresource: str) -> Object:
    """As `normalise`, of a change: through `status` the spec is ignored, and the other way round.

    The part that is ignored is the very one of `before`, so that it costs nothing to compare.
    """
    if not resource.has_status:
        return normalise(resource, obj)
    ignored = "spec" if subresource == "status" else "status"
    clean = normalise(resource, {name: value for name, value in obj.items() if name != ignored})
    clean[ignored] = before[ignored]
    return clean


def admit(resource: Resource, obj: Object) -> None:
    """Admission on create: a node starts tainted as not ready, after the taints it came with."""
    if resource is not NODES:
        return
    taints = obj["spec"].setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def blank(resource: Resource) -> Object:
    """What a new object is compared with to find the fields that its creator owns: the fields that are always there."""
    empty: Object = {"metadata": {}}
    if resource in {NODES, PODS, BUDGETS} or resource.group in {"apps", "batch"}:
        empty |= {"spec": {}, "status": {}}
    if resource is NODES:
        _node(empty)
    elif resource is PODS:
        empty["spec"]["containers"] = []
    elif resource is BUDGETS:
        empty["status"] = dict(_BUDGET_STATUS)
    elif resource is EVENTS:
        _event(empty)
    return empty
