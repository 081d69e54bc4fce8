"""metadata.managedFields: who owns which field, by comparing an object before and after an update.

Sets are sets of paths; a path is a tuple of the elements of FieldsV1 (`f:name`, `k:{"type":"Ready"}`, `v:"x"`). A map
or a keyed list is itself a member when it came into being with the update: the `.` of FieldsV1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quarantine.sandbox.kubeapi.patches import same
from quarantine.sandbox.kubeapi.schema import ATOMIC_MAPS, MERGE_SETS, OWNED_KEYS
from quarantine.sandbox.kubeapi.store import Object

Path = tuple[str, ...]
_ABSENT = object()
_SYSTEM = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes: the name from the fieldManager parameter or the User-Agent, through which subresource."""

    name: str
    subresource: str = ""


def manager_name(field_manager: str, user_agent: str) -> str:
    """As the real server derives it: the parameter, or the User-Agent up to its first slash."""
    name = field_manager or user_agent.partition("/")[0]
    return "".join(c for c in name if c.isprintable())[:128] or "unknown"


def track(before: Object, after: Object, manager: Manager, api_version: str, now: str) -> list[Object]:
    """The managedFields of `after`, in the real server's order. `before` carries the present ones."""
    taken: set[Path] = set()
    removed: set[Path] = set()
    _compare(_tracked(before), _tracked(after), (), "", taken, removed)
    entries = [dict(entry) for entry in before["metadata"].get("managedFields") or ()]
    if not taken and not removed:
        return entries
    kept = []
    found = False
    for entry in entries:
        owned = decode_fields(entry["fieldsV1"])
        ours = entry["manager"] == manager.name and entry.get("subresource", "") == manager.subresource
        if ours:
            found = True
            left = (owned | taken) - removed
            entry["time"] = now if taken else entry["time"]
        else:
            left = owned - taken - removed
        if left:
            kept.append(entry if left == owned else entry | {"fieldsV1": encode_fields(left)})
    if taken and not found:
        kept.append(_entry(manager, api_version, now, taken))
    return sorted(kept, key=lambda e: (e["time"], e["manager"], e.get("subresource", "")))


def _entry(manager: Manager, api_version: str, now: str, owned: set[Path]) -> Object:
    entry: Object = {
        "manager": manager.name,
        "operation": "Update",
        "apiVersion": api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": encode_fields(owned),
    }
    return entry | ({"subresource": manager.subresource} if manager.subresource else {})


def _tracked(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SYSTEM}
    return {key: value for key, value in obj.items() if key not in {"kind", "apiVersion"}} | {"metadata": meta}


def _children(value: Any, field: str) -> dict[str, tuple[Any, str]] | None:
    """The owned-one-by-one parts of a value, by path element; None for what is owned as a whole."""
    if isinstance(value, Mapping) and field not in ATOMIC_MAPS:
        return {f"f:{key}": (item, key) for key, item in value.items()}
    if isinstance(value, list) and field in MERGE_SETS:
        return {f"v:{json.dumps(item)}": (item, "") for item in value}
    keys = OWNED_KEYS.get(field, "")
    if isinstance(value, list) and keys and all(isinstance(item, Mapping) for item in value):
        return {_element(item, keys.split(",")): (item, "") for item in value}
    return None


def _element(item: Mapping[str, Any], keys: list[str]) -> str:
    chosen = {key: item[key] for key in sorted(keys) if key in item}
    return "k:" + json.dumps(chosen, separators=(",", ":"))


def _members(value: Any, field: str, path: Path) -> Iterator[Path]:
    """Every path that comes into being with this value."""
    yield path
    for element, (item, name) in (_children(value, field) or {}).items():
        yield from _members(item, name, (*path, element))


def _compare(before: Any, after: Any, path: Path, field: str, taken: set[Path], removed: set[Path]) -> None:
    if before is after:
        return
    if before is _ABSENT:
        taken.update(_members(after, field, path))
        return
    if after is _ABSENT:
        removed.update(_members(before, field, path))
        return
    old, new = _children(before, field), _children(after, field)
    if old is None or new is None:
        if not same(before, after):
            removed.update(set(_members(before, field, path)) - {path})
            taken.update(_members(after, field, path))
        return
    for element in old.keys() | new.keys():
        left, name = old.get(element, (_ABSENT, ""))
        right, name = new.get(element, (_ABSENT, name))
        _compare(left, right, (*path, element), name, taken, removed)


def encode_fields(owned: set[Path]) -> Object:
    """FieldsV1."""
    root: Object = {}
    for path in sorted(owned):
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    return _without_leaf_dots(root)


def _without_leaf_dots(node: Object) -> Object:
    """A member without members below is spelt `{}`; one with members below has a `.` among them."""
    if node.keys() == {"."}:
        return {}
    return {key: _without_leaf_dots(child) if key != "." else {} for key, child in node.items()}


def decode_fields(fields: Mapping[str, Any], path: Path = ()) -> set[Path]:
    """The set that `encode_fields` was given."""
    owned: set[Path] = set()
    for element, child in fields.items():
        if element == ".":
            owned.add(path)
        elif child:
            owned |= decode_fields(child, (*path, element))
        else:
            owned.add((*path, element))
    return owned
