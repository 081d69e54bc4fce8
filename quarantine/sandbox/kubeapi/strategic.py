"""Strategic merge patch: lists of objects merge by key, with the directives that kubectl sends."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from quarantine.sandbox.kubeapi.errors import bad_request
from quarantine.sandbox.kubeapi.schema import MERGE_KEYS, MERGE_SETS, REPLACED_MAPS

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(target: Any, patch: Any) -> Any:
    """Apply. Raises 400 for a patch that is no object, or that lacks a merge key."""
    if not isinstance(patch, Mapping):
        raise bad_request("a strategic merge patch is a JSON object")
    return _merge_map(dict(target), patch)


def _merge_map(target: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    match patch.get(_PATCH):
        case "replace":
            return {key: _plain(value) for key, value in patch.items() if value is not None and key != _PATCH}
        case "delete":
            return {}
        case None | "merge":
            pass
        case other:
            raise bad_request(f"Unknown $patch directive: {other}")
    kept = patch.get(_RETAIN)
    merged = {key: value for key, value in target.items() if kept is None or key in kept}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            field = key.removeprefix(_DELETE)
            merged[field] = [item for item in merged.get(field) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(key, merged.get(key), value, patch.get(_ORDER + key))
    for field in (key.removeprefix(_ORDER) for key in patch if key.startswith(_ORDER)):
        if field not in patch and field in merged:
            merged[field] = _reorder(merged[field], patch[_ORDER + field], MERGE_KEYS.get(field))
    return merged


def _merge_value(field: str, present: Any, value: Any, order: list[Any] | None) -> Any:
    if isinstance(value, list):
        return _merge_list(field, present, value, order)
    if isinstance(value, Mapping):
        base = present if isinstance(present, dict) and field not in REPLACED_MAPS else {}
        return _merge_map(base, value)
    return value


def _plain(value: Any) -> Any:
    """A value without nulls and directives, as new parts of a patch are taken over."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    if isinstance(value, list):
        return [_plain(item) for item in value if not (isinstance(item, Mapping) and _PATCH in item)]
    return copy.deepcopy(value)


def _merge_list(field: str, target: Any, patch: list[Any], order: list[Any] | None) -> list[Any]:
    present: list[Any] = list(target) if isinstance(target, list) else []
    if field in MERGE_SETS:
        merged = present + [item for item in patch if item not in present]
        return _interleave(merged, order or patch, present, None)
    key = MERGE_KEYS.get(field)
    if key is None or not all(isinstance(item, Mapping) for item in patch):
        return [_plain(item) for item in patch]
    if any(item.get(_PATCH) == "replace" for item in patch):
        return [_plain(item) for item in patch if _PATCH not in item]
    merged = present
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {dict(item)} does not contain declared merge key: {key}")
        at = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get(_PATCH) == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif at is None:
            merged = [*merged, _merge_map({}, item)]
        else:
            merged = [*merged[:at], _merge_map(merged[at], item), *merged[at + 1 :]]
    return _interleave(merged, order or patch, present, key)


def _value(item: Any, key: str | None) -> Any:
    return item.get(key) if key is not None and isinstance(item, Mapping) else item


def _reorder(items: list[Any], order: list[Any], key: str | None) -> list[Any]:
    return _interleave(items, order, items, key)


def _interleave(merged: list[Any], order: list[Any], server: list[Any], key: str | None) -> list[Any]:
    """The real server's order: what the patch names keeps the patch's order, the rest the server's, and where the two

    cannot be compared the patch's comes first. That is why a new condition stands before the old ones.
    """
    wanted = [_value(item, key) for item in order]
    known = [_value(item, key) for item in server]
    ours = sorted((i for i in merged if _value(i, key) in wanted), key=lambda i: wanted.index(_value(i, key)))
    theirs = [item for item in merged if _value(item, key) not in wanted]
    result: list[Any] = []
    while ours and theirs:
        left, right = _value(theirs[0], key), _value(ours[0], key)
        first = left in known and right in known and known.index(left) < known.index(right)
        result.append((theirs if first else ours).pop(0))
    return result + ours + theirs
