"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902). Neither changes its arguments."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from quarantine.sandbox.kubeapi.errors import bad_request, unprocessable

_MOST_OPERATIONS = 10_000


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes a member, an object is merged, anything else replaces."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. Raises 400 for what is no patch, 422 where a test fails or a path leads nowhere."""
    if not isinstance(operations, Sequence) or isinstance(operations, str):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > _MOST_OPERATIONS:
        raise bad_request(
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(operations)}"
        )
    document = copy.deepcopy(target)
    for operation in operations:
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: Any) -> Any:
    match operation:
        case {"op": "test", "path": str(path)}:
            if not same(_read(document, _pointer(path), missing=None), operation.get("value")):
                raise unprocessable()
            return document
        case {"op": "add", "path": str(path), "value": value}:
            return _write(document, _pointer(path), copy.deepcopy(value), replace=False)
        case {"op": "replace", "path": str(path), "value": value}:
            _read(document, _pointer(path))
            return _write(document, _pointer(path), copy.deepcopy(value), replace=True)
        case {"op": "remove", "path": str(path)}:
            return _remove(document, _pointer(path))
        case {"op": "move", "from": str(origin), "path": str(path)}:
            value = _read(document, _pointer(origin))
            return _write(_remove(document, _pointer(origin)), _pointer(path), value, replace=False)
        case {"op": "copy", "from": str(origin), "path": str(path)}:
            value = copy.deepcopy(_read(document, _pointer(origin)))
            return _write(document, _pointer(path), value, replace=False)
    raise unprocessable()


def same(left: Any, right: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _pointer(text: str) -> list[str]:
    """RFC 6901."""
    if text == "":
        return []
    if not text.startswith("/"):
        raise unprocessable()
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


_RAISE = object()


def _read(document: Any, path: list[str], missing: Any = _RAISE) -> Any:
    value = document
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        elif missing is _RAISE:
            raise unprocessable()
        else:
            return missing
    return value


def _write(document: Any, path: list[str], value: Any, *, replace: bool) -> Any:
    if not path:
        return value
    parent, last = _read(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list) and replace:
        parent[int(last)] = value
    elif isinstance(parent, list) and last == "-":
        parent.append(value)
    elif isinstance(parent, list) and last.isdecimal() and int(last) <= len(parent):
        parent.insert(int(last), value)
    else:
        raise unprocessable()
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _read(document, path)
    if not path:
        return None
    parent, last = _read(document, path[:-1]), path[-1]
    del parent[int(last) if isinstance(parent, list) else last]
    return document
