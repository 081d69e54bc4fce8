"""Kubernetes' JSON ↔ our records. Only what matters is kept: a real node carries 10 to 20 KB, mostly image names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from quarantine.core.capacity import whole_gpus
from quarantine.core.marks import NodeEvent, NodePatch
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
    obj = _mapping(raw)
    meta, spec, status = (_mapping(obj.get(part)) for part in ("metadata", "spec", "status"))
    name, uid, version = (_text(meta, key) for key in ("name", "uid", "resourceVersion"))
    if not (name and uid and version):
        raise Garbled("a node without a name, a uid or a resourceVersion")
    info = _mapping(status.get("nodeInfo"))
    labels = _texts(meta.get("labels"))
    return Node(
        name=name,
        machine=Machine(
            node_uid=uid,
            provider_id=_text(spec, "providerID"),
            system_uuid=_text(info, "systemUUID"),
            boot_id=_text(info, "bootID"),
        ),
        resource_version=version,
        labels=labels,
        annotations=_texts(meta.get("annotations"), under=f"{prefix}/", also=kept),
        taints=tuple(_taint(t) for t in _items(spec.get("taints"))),
        unschedulable=spec.get("unschedulable") is True,
        ready=_ready(status.get("conditions")),
        gpus=whole_gpus(_count(_mapping(status.get("capacity")).get("nvidia.com/gpu")), labels),
        addresses=tuple(dict.fromkeys(a for a in (_text(i, "address") for i in _items(status.get("addresses"))) if a)),
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


def event_body(event: NodeEvent, at: datetime) -> dict[str, Any]:
    """A core/v1 Event about a node, seen once, at `at` (aware)."""
    seen = at.isoformat(timespec="seconds").replace("+00:00", "Z")
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
        key=sys.intern(_text(raw, "key")),
        value=sys.intern(_text(raw, "value")),
        effect=sys.intern(_text(raw, "effect")),
        time_added=added if isinstance(added, str) else None,
    )


def _taint_json(taint: Taint) -> dict[str, str]:
    body = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {field: text for field, text in body.items() if text}


def _ready(conditions: object) -> bool | None:
    status = next((_text(c, "status") for c in _items(conditions) if c.get("type") == "Ready"), "")
    return {"True": True, "False": False}.get(status)


def _count(value: object) -> int | None:
    """A whole quantity above zero."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and int(value) > 0 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> Iterable[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def _text(of: Mapping[str, Any], key: str) -> str:
    value = of.get(key)
    return value if isinstance(value, str) else ""


def _texts(value: object, under: str = "", also: frozenset[str] = frozenset()) -> dict[str, str]:
    return {
        sys.intern(key): sys.intern(text)
        for key, text in _mapping(value).items()
        if isinstance(text, str) and (key.startswith(under) or key in also)
    }
