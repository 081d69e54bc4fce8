"""The types of the fields that people and programs get wrong: a label that is a number, `unschedulable` as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarantine.sandbox.kubeapi.resources import BUDGETS, EVENTS, JOBS, LEASES, NODES, PODS, Resource

Types = Mapping[str, str]

_CONDITIONS: Final[Types] = {
    "status": "object",
    "status.conditions": "array",
    "status.conditions.*": "object",
    "status.conditions.*.type": "string",
    "status.conditions.*.status": "string",
    "status.conditions.*.reason": "string",
    "status.conditions.*.message": "string",
    "status.conditions.*.lastTransitionTime": "time",
    "status.conditions.*.lastHeartbeatTime": "time",
}
_COMMON: Final[Types] = {
    "metadata": "object",
    "metadata.name": "string",
    "metadata.generateName": "string",
    "metadata.namespace": "string",
    "metadata.uid": "string",
    "metadata.resourceVersion": "string",
    "metadata.labels": "object",
    "metadata.labels.*": "string",
    "metadata.annotations": "object",
    "metadata.annotations.*": "string",
    "metadata.finalizers": "array",
    "metadata.finalizers.*": "string",
    "metadata.ownerReferences": "array",
    "metadata.ownerReferences.*": "object",
    "metadata.ownerReferences.*.uid": "string",
    "metadata.ownerReferences.*.controller": "bool",
}
_BY_RESOURCE: Final[Mapping[Resource, Types]] = {
    NODES: {
        "spec": "object",
        "spec.unschedulable": "bool",
        "spec.providerID": "string",
        "spec.taints": "array",
        "spec.taints.*": "object",
        "spec.taints.*.key": "string",
        "spec.taints.*.value": "string",
        "spec.taints.*.effect": "string",
        "spec.taints.*.timeAdded": "time",
    },
    PODS: {
        "spec": "object",
        "spec.nodeName": "string",
        "spec.containers": "array",
        "spec.containers.*": "object",
        "spec.terminationGracePeriodSeconds": "integer",
        "status.phase": "string",
    },
    BUDGETS: {
        "spec": "object",
        "spec.selector": "object",
        "spec.selector.matchLabels": "object",
        "spec.selector.matchLabels.*": "string",
        "spec.selector.matchExpressions": "array",
        "spec.selector.matchExpressions.*": "object",
    },
    LEASES: {
        "spec": "object",
        "spec.holderIdentity": "string",
        "spec.leaseDurationSeconds": "integer",
        "spec.leaseTransitions": "integer",
        "spec.acquireTime": "microtime",
        "spec.renewTime": "microtime",
    },
    EVENTS: {
        "involvedObject": "object",
        "source": "object",
        "reason": "string",
        "message": "string",
        "type": "string",
        "count": "integer",
        "firstTimestamp": "time",
        "lastTimestamp": "time",
        "eventTime": "microtime",
        "reportingComponent": "string",
        "reportingInstance": "string",
    },
    JOBS: {
        "spec": "object",
        "spec.activeDeadlineSeconds": "integer",
        "spec.backoffLimit": "integer",
        "spec.ttlSecondsAfterFinished": "integer",
        "spec.template": "object",
        "spec.template.metadata": "object",
        "spec.template.spec": "object",
        "spec.template.spec.containers": "array",
        "spec.template.spec.restartPolicy": "string",
        "status.completionTime": "time",
        "status.startTime": "time",
    },
}
_TIMES: Final = {
    "time": (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "2006-01-02T15:04:05Z07:00"),
    "microtime": (
        re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)"),
        "2006-01-02T15:04:05.000000Z07:00",
    ),
}


def type_problem(resource: Resource, obj: object) -> str | None:
    """What the real server's decoder would complain of first; None where all is well."""
    if not isinstance(obj, Mapping):
        return f"json: cannot unmarshal {_json_kind(obj)} into Go value of type {resource.kind}"
    for path, wanted in {**_COMMON, **_CONDITIONS, **_BY_RESOURCE.get(resource, {})}.items():
        for value in _values(obj, path.split(".")):
            if problem := _mismatch(value, wanted):
                return problem.format(field=f"{resource.kind}.{path.replace('.*', '')}")
    return None


def _values(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        if value is not None:
            yield value
    elif path[0] != "*":
        if isinstance(value, Mapping) and path[0] in value:
            yield from _values(value[path[0]], path[1:])
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _values(item, path[1:])


def _mismatch(value: Any, wanted: str) -> str | None:
    kind = _json_kind(value)
    if wanted in _TIMES:
        pattern, layout = _TIMES[wanted]
        if kind == "string":
            return None if pattern.fullmatch(value) else f'parsing time "{_braces(value)}" as "{layout}": cannot parse'
        wanted = "string"
    if wanted == kind or (wanted == "integer" and isinstance(value, int) and kind == "number"):
        return None
    return f"json: cannot unmarshal {kind} into Go struct field {{field}} of type {wanted}"


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _json_kind(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
