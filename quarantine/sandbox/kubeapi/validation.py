"""What the server refuses with 422, in the real one's words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from quarantine.sandbox.kubeapi.errors import Problem
from quarantine.sandbox.kubeapi.resources import EVENTS, NAMESPACES, NODES, PODS, Resource
from quarantine.sandbox.kubeapi.store import Object

_ANNOTATIONS_LIMIT = 256 * 1024
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_LABEL_VALUE}')"
)
_NAME_PART_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _invalid(field: str, value: object, text: str) -> Problem:
    return Problem(field, "FieldValueInvalid", f"Invalid value: {json.dumps(value, ensure_ascii=False)}: {text}")


def problems_on_create(resource: Resource, obj: Object) -> list[Problem]:
    """Everything that is wrong with a new object, with the real server's repetitions."""
    meta = [*_name(resource, obj), *_metadata(obj)]
    return meta * 2 + _specific(resource, obj)


def problems_on_update(resource: Resource, obj: Object, before: Object) -> list[Problem]:
    """As `problems_on_create`, of a change; `before` is the stored object."""
    meta = list(_metadata(obj))
    specific = _specific(resource, obj)
    if obj["metadata"].get("uid") != before["metadata"]["uid"]:
        specific.append(_invalid("metadata.uid", obj["metadata"].get("uid"), "field is immutable"))
    if resource is NODES:
        # The node strategy validates the whole node, then the change, and each of them the metadata again.
        return meta * 4 + specific * 2 + list(_node_change(obj, before))
    if resource is PODS:
        specific += _pod_change(obj, before)
    return meta * 2 + specific


def _name(resource: Resource, obj: Object) -> Iterator[Problem]:
    name = obj["metadata"].get("name", "")
    if not name:
        yield Problem("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")
        return
    short = resource is NAMESPACES
    if _size(name) > (63 if short else 253):
        yield _invalid("metadata.name", name, _too_long(63 if short else 253))
    if not re.fullmatch(_LABEL if short else _SUBDOMAIN, name):
        yield _invalid("metadata.name", name, _LABEL_TEXT if short else _SUBDOMAIN_TEXT)


def _metadata(obj: Object) -> Iterator[Problem]:
    meta = obj["metadata"]
    for key, value in (meta.get("labels") or {}).items():
        yield from (_invalid("metadata.labels", key, text) for text in _qualified_name(key))
        yield from (_invalid("metadata.labels", value, text) for text in _label_value(value))
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    for key in annotations:
        yield from (_invalid("metadata.annotations", key, text) for text in _qualified_name(key.lower()))
    if sum(_size(key) + _size(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield Problem("metadata.annotations", "FieldValueTooLong", text)


def _label_value(value: str) -> Iterator[str]:
    if _size(value) > 63:
        yield _too_long(63)
    if not re.fullmatch(_LABEL_VALUE, value):
        yield _LABEL_VALUE_TEXT


def _qualified_name(key: str) -> Iterator[str]:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield (
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            f"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            f"'{_NAME_PART}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        if _size(prefix) > 253:
            yield f"prefix part {_too_long(253)}"
        if not re.fullmatch(_SUBDOMAIN, prefix):
            yield f"prefix part {_SUBDOMAIN_TEXT}"
    if not name:
        yield "name part must be non-empty"
    elif _size(name) > 63:
        yield f"name part {_too_long(63)}"
    if not re.fullmatch(_NAME_PART, name):
        yield _NAME_PART_TEXT


def _specific(resource: Resource, obj: Object) -> list[Problem]:
    spec, found = obj.get("spec") or {}, _OF_SPEC.get(resource.kind)
    if found is not None:
        return list(found(spec))
    return list(_event(obj)) if resource is EVENTS else []


def _taints(spec: Object) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        place = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        yield from (_invalid(f"{place}.key", key, text) for text in _qualified_name(key))
        yield from (_invalid(f"{place}.value", value, text) for text in _label_value(value))
        if not effect:
            yield Problem(f"{place}.effect", "FieldValueRequired", "Required value")
        elif effect not in _EFFECTS:
            listed = ", ".join(f'"{known}"' for known in _EFFECTS)
            text = f'Unsupported value: "{effect}": supported values: {listed}'
            yield Problem(f"{place}.effect", "FieldValueNotSupported", text)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            text = f"Duplicate value: {json.dumps(shown, separators=(',', ':'))}"
            text += ": taints must be unique by key and effect pair"
            yield Problem(place, "FieldValueDuplicate", text)
        seen.add((key, effect))


def _node_change(obj: Object, before: Object) -> Iterator[Problem]:
    old = before["spec"].get("providerID")
    if old and obj["spec"].get("providerID") != old:
        text = 'Forbidden: node updates may not change providerID except from "" to valid'
        yield Problem("spec.providerID", "FieldValueForbidden", text)


_POD_MUTABLE = frozenset({"activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations"})


def _pod_change(obj: Object, before: Object) -> Iterator[Problem]:
    def fixed(pod: Object) -> Object:
        kept = {key: value for key, value in pod["spec"].items() if key not in _POD_MUTABLE}
        for group in ("containers", "initContainers"):
            if group in kept:
                kept[group] = [{k: v for k, v in c.items() if k != "image"} for c in kept[group]]
        return kept

    if fixed(obj) != fixed(before):
        text = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` "
            "(allow it to be set to 1 if it was previously negative)"
        )
        yield Problem("spec", "FieldValueForbidden", text)


def _lease(spec: Object) -> Iterator[Problem]:
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield _invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield _invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def _budget(spec: Object) -> Iterator[Problem]:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield _invalid("spec", {}, "minAvailable and maxUnavailable cannot be both set")
    for index, term in enumerate((spec.get("selector") or {}).get("matchExpressions") or ()):
        place = f"spec.selector.matchExpressions[{index}]"
        if term.get("operator") not in _OPERATORS:
            yield _invalid(f"{place}.operator", term.get("operator", ""), "not a valid selector operator")
        yield from (
            _invalid(f"{place}.key", term.get("key", ""), text) for text in _qualified_name(term.get("key", ""))
        )
    for field in ("minAvailable", "maxUnavailable"):
        value = spec.get(field, 0)
        if isinstance(value, str) and not re.fullmatch(r"\d{1,3}%", value):
            text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
            yield _invalid(f"spec.{field}", value, text + "regex used for validation is '[0-9]+%')")
        elif isinstance(value, int) and value < 0:
            yield _invalid(f"spec.{field}", value, "must be greater than or equal to 0")


def _pod(spec: Object) -> Iterator[Problem]:
    if not spec.get("containers"):
        yield Problem("spec.containers", "FieldValueRequired", "Required value")


def _job(spec: Object) -> Iterator[Problem]:
    for field in ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        if spec.get(field, 0) < 0:
            yield _invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    pod = (spec.get("template") or {}).get("spec") or {}
    if not pod.get("containers"):
        yield Problem("spec.template.spec.containers", "FieldValueRequired", "Required value")
    policy = pod.get("restartPolicy", "")
    if policy not in {"OnFailure", "Never"}:
        field, known = "spec.template.spec.restartPolicy", '"OnFailure", "Never"'
        if not policy:
            yield Problem(field, "FieldValueRequired", f"Required value: valid values: {known}")
        else:
            text = f'Unsupported value: "{policy}": supported values: {known}'
            yield Problem(field, "FieldValueNotSupported", text)


def _event(obj: Object) -> Iterator[Problem]:
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    allowed = {about} if about else {"", "default"}
    if obj["metadata"]["namespace"] not in allowed:
        yield _invalid("involvedObject.namespace", about, "does not match event.namespace")


_OF_SPEC = {"Node": _taints, "Lease": _lease, "PodDisruptionBudget": _budget, "Job": _job, "Pod": _pod}
