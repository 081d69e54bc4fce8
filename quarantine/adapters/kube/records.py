"""Kubernetes' JSON ↔ our records. Only what matters is kept: a real node carries 10 to 20 KB, mostly image names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from quarantine.adapters.kube.fields import condition, entries, mapping, moment, stamp, text_at, texts
from quarantine.core.capacity import whole_gpus
from quarantine.core.marks import CONDITION, NodeCondition, NodeEvent, NodePatch
from quarantine.core.model import Machine, Node, Taint

MANAGER = "quarantine"  # in managedFields, and the component of our Events
EVENT_NAMESPACE = "default"  # the API server takes Events about a Node, which has no namespace, only there
_MESSAGE_LIMIT = 1024  # bytes of UTF-8, the API server's own limit


class Garbled(ValueError):
    """JSON, but not the object that was asked for."""


def node_record(raw: object, prefix: str, kept: frozenset[str] = frozenset()) -> Node:
    """A Node object as a record. Raises `Garbled` where it has no name, uid or resourceVersion.

    Of its annotations those under our prefix are kept, and `kept`: others fill kilobytes. Text that many nodes share
    (label keys, taints, zones) is interned: one copy for the fleet.
    """
    obj = mapping(raw)
    meta, spec, status = (mapping(obj.get(part)) for part in ("metadata", "spec", "status"))
    name, uid, version = (text_at(meta, key) for key in ("name", "uid", "resourceVersion"))
    if not (name and uid and version):
        raise Garbled("a node without a name, a uid or a resourceVersion")
    info = mapping(status.get("nodeInfo"))
    labels = texts(meta.get("labels"))
    return Node(
        name=name,
        machine=Machine(
            node_uid=uid,
            provider_id=text_at(spec, "providerID"),
            system_uuid=text_at(info, "systemUUID"),
            boot_id=text_at(info, "bootID"),
        ),
        resource_version=version,
        labels=labels,
        annotations=texts(meta.get("annotations"), under=f"{prefix}/", also=kept),
        taints=tuple(_taint(t) for t in entries(spec.get("taints"))),
        unschedulable=spec.get("unschedulable") is True,
        ready=_ready(status.get("conditions")),
        gpus=whole_gpus(_count(mapping(status.get("capacity")).get("nvidia.com/gpu")), labels),
        addresses=tuple(dict.fromkeys(a for i in entries(status.get("addresses")) if (a := text_at(i, "address")))),
        created_at=moment(meta.get("creationTimestamp")),
        tainted_by=_last_manager(meta.get("managedFields"), "f:spec", "f:taints"),
        suspect=sys.intern(text_at(condition(status.get("conditions"), CONDITION), "status")),
    )


def merge_patch(patch: NodePatch) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) of a conditional write: null removes, lists replace.

    With both preconditions in its metadata, the server refuses it once the node has changed or been made anew.
    """
    meta: dict[str, Any] = {"uid": patch.uid, "resourceVersion": patch.resource_version}
    spec: dict[str, Any] = {}
    if patch.labels:
        meta["labels"] = dict(patch.labels)
    if patch.annotations:
        meta["annotations"] = dict(patch.annotations)
    if patch.unschedulable is not None:
        spec["unschedulable"] = True if patch.unschedulable else None  # null, as kubectl uncordon sends
    if patch.taints is not None:
        spec["taints"] = [_taint_json(t) for t in patch.taints] or None
    return {"metadata": meta} | ({"spec": spec} if spec else {})


def condition_patch(wanted: NodeCondition, at: datetime, *, moved: bool) -> dict[str, Any]:
    """The strategic merge patch that sets our condition and leaves the others alone; refused for another uid.

    The time of its last transition is that of `at` where it `moved`, else the server keeps what it has.
    """
    body = {
        "type": CONDITION,
        "status": "True" if wanted.status else "False",
        "reason": wanted.reason,
        "message": clip(wanted.message, _MESSAGE_LIMIT),
        "lastHeartbeatTime": stamp(at),
    }
    if moved:
        body["lastTransitionTime"] = stamp(at)
    return {"metadata": {"uid": wanted.uid}, "status": {"conditions": [body]}}


def event_body(event: NodeEvent, at: datetime) -> dict[str, Any]:
    """A core/v1 Event about a node, seen once, at `at` (aware)."""
    seen = stamp(at)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event.name, "namespace": EVENT_NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": event.node, "uid": event.node_uid},
        "reason": event.reason,
        "message": clip(event.message, _MESSAGE_LIMIT),
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": MANAGER,
        "firstTimestamp": seen,
        "lastTimestamp": seen,
        "count": 1,
    }


def clip(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, never half a character; an ellipsis where something was left out."""
    data = text.encode("utf-8", "replace")  # a lone surrogate has no UTF-8, and one label must not block the Event
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"


def _taint(raw: Mapping[str, Any]) -> Taint:
    added = raw.get("timeAdded")
    return Taint(
        key=sys.intern(text_at(raw, "key")),
        value=sys.intern(text_at(raw, "value")),
        effect=sys.intern(text_at(raw, "effect")),
        time_added=added if isinstance(added, str) else None,
    )


def _taint_json(taint: Taint) -> dict[str, str]:
    body = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {field: text for field, text in body.items() if text}


def _ready(conditions: object) -> bool | None:
    return {"True": True, "False": False}.get(text_at(condition(conditions, "Ready"), "status"))


def _last_manager(managed: object, *path: str) -> str:
    """Who wrote a field last, of those who own it; empty where nobody does. A field that is removed has no owner."""
    owners = [
        (text_at(entry, "time"), place, text_at(entry, "manager"))
        for place, entry in enumerate(entries(managed))
        if _owns(entry.get("fieldsV1"), path)
    ]
    return sys.intern(max(owners)[2]) if owners else ""


def _owns(fields: object, path: tuple[str, ...]) -> bool:
    for step in path:
        fields = mapping(fields).get(step)
    return isinstance(fields, dict)


def _count(value: object) -> int | None:
    """A whole quantity above zero."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and int(value) > 0 else None
