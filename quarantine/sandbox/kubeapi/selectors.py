"""Label and field selectors, in the query string and in `LabelSelector` objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from quarantine.sandbox.kubeapi.errors import bad_request
from quarantine.sandbox.kubeapi.resources import EVENTS, NODES, PODS, Resource

Matches = Callable[[Mapping[str, Any]], bool]

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_EQUALS = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_COMPARES = re.compile(rf"({_KEY})\s*([<>])\s*(-?\d+)")
_SPLIT = re.compile(r",(?![^(]*\))")
_FIELD = re.compile(r"([^=!]+?)(==|=|!=)(.*)", re.DOTALL)


def everything(_obj: Mapping[str, Any]) -> bool:
    """The selector that is not there."""
    return True


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels, empty where there are none."""
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


def label_selector(text: str) -> Matches:
    """`pool=p,tier in (a,b),!drained`. Raises 400."""
    tests = [_requirement(part.strip()) for part in _SPLIT.split(text)] if text.strip() else []
    return lambda obj: all(test(labels_of(obj)) for test in tests)


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _EQUALS.fullmatch(text):
        key, operator, value = found.groups()
        return _one(key, "NotIn" if operator == "!=" else "In", (value,))
    if found := _SET.fullmatch(text):
        key, operator, values = found.groups()
        return _one(key, "In" if operator == "in" else "NotIn", tuple(v.strip() for v in values.split(",")))
    if found := _EXISTS.fullmatch(text):
        return _one(found[2], "DoesNotExist" if found[1] else "Exists", ())
    if found := _COMPARES.fullmatch(text):
        return _compare(found[1], found[2], int(found[3]))
    raise bad_request(f"unable to parse requirement: found '{text}', expected: a key, and then =, ==, !=, in or notin")


def _compare(key: str, operator: str, bound: int) -> Callable[[Mapping[str, str]], bool]:
    def test(labels: Mapping[str, str]) -> bool:
        value = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", value):
            return False
        return int(value) > bound if operator == ">" else int(value) < bound

    return test


def _one(key: str, operator: str, values: tuple[str, ...]) -> Callable[[Mapping[str, str]], bool]:
    match operator:
        case "In":
            return lambda labels: labels.get(key) in values
        case "NotIn":
            return lambda labels: key not in labels or labels[key] not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
    raise bad_request(f'"{operator}" is not a valid label selector operator')


def selector_object(selector: Mapping[str, Any] | None) -> Matches:
    """A `LabelSelector`: nothing is matched by a missing one, everything by an empty one (policy/v1)."""
    if selector is None:
        return lambda _obj: False
    tests = [_one(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    tests += [
        _one(term["key"], term["operator"], tuple(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    return lambda obj: all(test(labels_of(obj)) for test in tests)


def field_selector(text: str, resource: Resource) -> Matches:
    """`spec.nodeName=a,status.phase!=Failed`. Raises 400 for a field that the kind does not offer."""
    terms: list[tuple[str, str, str]] = []
    for part in re.split(r"(?<!\\),", text) if text else ():
        found = _FIELD.fullmatch(part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if found[1] not in resource.fields:
            raise bad_request(_unsupported(found[1], resource))
        terms.append((found[1], found[2], re.sub(r"\\(.)", r"\1", found[3])))
    return lambda obj: all((_field(obj, path) == value) is (operator != "!=") for path, operator, value in terms)


def _unsupported(field: str, resource: Resource) -> str:
    if resource in {NODES, PODS, EVENTS}:
        return f"field label not supported: {field}"
    known = ", ".join(f'"{name}"' for name in resource.fields)
    return f'"{field}" is not a known field selector: only {known}'


def _field(obj: Mapping[str, Any], path: str) -> str:
    if path == "source":
        return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")
    value: Any = obj
    for part in ("status.succeeded" if path == "status.successful" else path).split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if path in {"spec.unschedulable", "spec.hostNetwork"}:
        return "true" if value else "false"
    return "" if value is None else str(value)


def named(text: str) -> str:
    """The name that a field selector asks for, for authorization by resource name; empty where it asks for none."""
    found = re.search(r"(?:^|,)metadata\.name==?([^,]+)", text)
    return found[1] if found else ""
