"""What `kubectl get` prints: the server renders the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from quarantine.sandbox.kubeapi.clock import age, parse
from quarantine.sandbox.kubeapi.eviction import condition
from quarantine.sandbox.kubeapi.resources import BUDGETS, EVENTS, JOBS, LEASES, NAMESPACES, NODES, PODS, Resource
from quarantine.sandbox.kubeapi.store import Object

Row = Callable[[Object, datetime], list[Any]]
_ROLE: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Table:
    """The columns (a `+` marks one that only `-o wide` shows) and what fills them."""

    columns: tuple[str, ...]
    row: Row

    def definitions(self) -> list[Object]:
        """columnDefinitions."""
        return [
            {
                "name": name.removeprefix("+"),
                "type": "integer" if name == "Allowed Disruptions" else "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": int(name.startswith("+")),
            }
            for name in self.columns
        ]


def _age(obj: Mapping[str, Any], now: datetime) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _since(at: str | None, now: datetime) -> str:
    return age(parse(at) if at else None, now)


def _node(obj: Object, now: datetime) -> list[Any]:
    ready = condition(obj, "Ready").get("status")
    status = {"True": "Ready", "False": "NotReady"}.get(ready or "", "Unknown")
    if obj["spec"].get("unschedulable"):
        status += ",SchedulingDisabled"
    labels = obj["metadata"].get("labels") or {}
    roles = sorted({key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} - {""})
    addresses = {a["type"]: a["address"] for a in obj["status"].get("addresses", ())}
    info = obj["status"]["nodeInfo"]
    return [
        obj["metadata"]["name"],
        status,
        ",".join(roles) or "<none>",
        _age(obj, now),
        info["kubeletVersion"],
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info["osImage"] or "<unknown>",
        info["kernelVersion"] or "<unknown>",
        info["containerRuntimeVersion"] or "<unknown>",
    ]


def _pod(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    states = status.get("containerStatuses", ())
    phase = status.get("reason") or status.get("phase", "")
    if "deletionTimestamp" in obj["metadata"]:
        phase = "Terminating"
    return [
        obj["metadata"]["name"],
        f"{sum(bool(s.get('ready')) for s in states)}/{len(spec.get('containers', ()))}",
        phase,
        str(sum(s.get("restartCount", 0) for s in states)),
        _age(obj, now),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        "<none>",
    ]


def _event(obj: Object, now: datetime) -> list[Any]:
    about = obj["involvedObject"]
    created = obj["metadata"].get("creationTimestamp")
    last = obj.get("lastTimestamp") or obj.get("eventTime") or obj.get("firstTimestamp") or created
    first = obj.get("firstTimestamp") or obj.get("eventTime") or created
    return [
        _since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        obj["source"].get("component") or obj.get("reportingComponent", ""),
        obj.get("message", "").strip(),
        _since(first, now),
        str(obj.get("count", 1)),
        obj["metadata"]["name"],
    ]


def _budget(obj: Object, now: datetime) -> list[Any]:
    spec = obj["spec"]
    bounds = [str(spec.get(bound, "N/A")) for bound in ("minAvailable", "maxUnavailable")]
    return [obj["metadata"]["name"], *bounds, obj["status"]["disruptionsAllowed"], _age(obj, now)]


def _lease(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], (obj.get("spec") or {}).get("holderIdentity", ""), _age(obj, now)]


def _namespace(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], obj["status"].get("phase", ""), _age(obj, now)]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    done = {c["type"] for c in status.get("conditions", ()) if c.get("status") == "True"}
    state = next((s for s in ("Complete", "Failed", "Suspended") if s in done), "Running")
    return [
        obj["metadata"]["name"],
        state,
        f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}",
        _since(status.get("startTime"), now) if status.get("startTime") else "",
        _age(obj, now),
    ]


def _other(obj: Object, now: datetime) -> list[Any]:
    return [obj["metadata"]["name"], _age(obj, now)]


_TABLES: Final[dict[Resource, Table]] = {
    NODES: Table(
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "+Internal-IP",
            "+External-IP",
            "+OS-Image",
            "+Kernel-Version",
            "+Container-Runtime",
        ),
        _node,
    ),
    PODS: Table(
        ("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates"), _pod
    ),
    EVENTS: Table(
        (
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "+Subobject",
            "+Source",
            "Message",
            "+First Seen",
            "+Count",
            "+Name",
        ),
        _event,
    ),
    BUDGETS: Table(("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget),
    LEASES: Table(("Name", "Holder", "Age"), _lease),
    NAMESPACES: Table(("Name", "Status", "Age"), _namespace),
    JOBS: Table(("Name", "Status", "Completions", "Duration", "Age"), _job),
}
_PLAIN: Final = Table(("Name", "Age"), _other)


def table_of(resource: Resource) -> Table:
    """The kind's table; name and age where it has none of its own."""
    return _TABLES.get(resource, _PLAIN)


def render(
    resource: Resource, objs: Iterable[Object], meta: Object, now: datetime, include: str, *, head: bool
) -> Object:
    """A `meta.k8s.io/v1` Table. `include` is None, Metadata or Object; `head` says whether to send the columns."""
    table = table_of(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": table.definitions() if head else [],
        "rows": [{"cells": table.row(obj, now), "object": _shown(resource, obj, include)} for obj in objs],
    }


def _shown(resource: Resource, obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    if include == "Object":
        return {"kind": resource.kind, "apiVersion": resource.api_version} | obj
    return partial(obj)


def partial(obj: Object) -> Object:
    """PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
