"""The patch formats, against their definitions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.sandbox.kubeapi import ApiError
from quarantine.sandbox.kubeapi.patches import json_patch, merge_patch, same
from quarantine.sandbox.kubeapi.strategic import strategic_merge

KEYS = st.sampled_from(["a", "b", "c", "metadata"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def rfc7386(target: Any, patch: Any) -> Any:
    """The pseudo-code of the RFC's section 2, line by line."""
    if isinstance(patch, dict):
        if not isinstance(target, dict):
            target = {}
        for name, value in patch.items():
            if value is None:
                if name in target:
                    del target[name]
            else:
                target[name] = rfc7386(target.get(name), value)
        return target
    return patch


@settings(deadline=None)
@given(target=VALUES, patch=VALUES)
def test_merge_patch_is_that_of_the_rfc_and_changes_nothing_in_place(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    merged = merge_patch(target, patch)
    assert same(merged, rfc7386(copy.deepcopy(target), copy.deepcopy(patch)))
    assert same([target, patch], list(before))


@settings(deadline=None)
@given(target=VALUES, patch=VALUES)
def test_a_merge_patch_is_idempotent(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert same(merge_patch(once, patch), once)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [  # the RFC's appendix A
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/l/1", "value": 9}], {"l": [1, 9, 2], "m": {"k": "v"}}),
        ([{"op": "add", "path": "/l/-", "value": 9}], {"l": [1, 2, 9], "m": {"k": "v"}}),
        ([{"op": "replace", "path": "/l/0", "value": 9}], {"l": [9, 2], "m": {"k": "v"}}),
        ([{"op": "move", "from": "/m/k", "path": "/m/n"}], {"l": [1, 2], "m": {"n": "v"}}),
        ([{"op": "copy", "from": "/m", "path": "/n"}], {"l": [1, 2], "m": {"k": "v"}, "n": {"k": "v"}}),
        ([{"op": "add", "path": "/m/a~1b~0c", "value": 1}], {"l": [1, 2], "m": {"k": "v", "a/b~c": 1}}),
        (
            [{"op": "test", "path": "/l", "value": [1, 2]}, {"op": "remove", "path": "/l/0"}],
            {"l": [2], "m": {"k": "v"}},
        ),
    ],
)
def test_json_patch(operations: Any, result: Any) -> None:
    target = {"l": [1, 2], "m": {"k": "v"}}
    assert json_patch(target, operations) == result
    assert target == {"l": [1, 2], "m": {"k": "v"}}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({"op": "remove"}, 400),
        ([{"op": "remove", "path": "/absent"}], 422),
        ([{"op": "replace", "path": "/absent", "value": 1}], 422),
        ([{"op": "add", "path": "/l/7", "value": 1}], 422),
        ([{"op": "test", "path": "/l/0", "value": True}], 422),
        ([{"op": "test", "path": "/absent", "value": 1}], 422),
        ([{"op": "burn", "path": "/l"}], 422),
        ([{"op": "add", "path": "l", "value": 1}], 422),
    ],
)
def test_json_patch_refuses(operations: Any, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"l": [1]}, operations)
    assert caught.value.code == code


CONDITIONS = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}


def types(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(c["type"], c["status"]) for c in obj["status"]["conditions"]]


def test_conditions_merge_by_type_and_a_new_one_comes_first() -> None:
    patch = {"status": {"conditions": [{"type": "N", "status": "True"}, {"type": "B", "status": "False"}]}}
    assert types(strategic_merge(CONDITIONS, patch)) == [("N", "True"), ("A", "True"), ("B", "False")]


def test_a_condition_is_deleted_by_directive() -> None:
    patch = {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}
    assert types(strategic_merge(CONDITIONS, patch)) == [("B", "True")]


def test_a_list_is_put_in_order_by_directive() -> None:
    patch = {"status": {"$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}]}}
    assert types(strategic_merge(CONDITIONS, patch)) == [("B", "True"), ("A", "True")]


def test_a_whole_map_is_replaced_by_directive() -> None:
    assert strategic_merge(CONDITIONS, {"status": {"$patch": "replace", "phase": "x"}}) == {"status": {"phase": "x"}}


def test_a_condition_without_its_key_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        strategic_merge(CONDITIONS, {"status": {"conditions": [{"status": "True"}]}})
    assert caught.value.code == 400
    assert "does not contain declared merge key: type" in caught.value.message


def test_taints_are_one_value() -> None:
    node = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    patch = {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}
    assert strategic_merge(node, patch)["spec"]["taints"] == [{"key": "b", "effect": "NoSchedule"}]


def test_finalizers_are_a_set() -> None:
    obj = {"metadata": {"finalizers": ["a", "b"]}}
    assert strategic_merge(obj, {"metadata": {"finalizers": ["c", "a"]}})["metadata"]["finalizers"] == ["c", "a", "b"]
    gone = strategic_merge(obj, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert gone["metadata"]["finalizers"] == ["b"]


def test_a_selector_is_replaced() -> None:
    budget = {"spec": {"selector": {"matchLabels": {"a": "b"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"c": "d"}}}}
    assert strategic_merge(budget, patch) == patch


@settings(deadline=None)
@given(target=st.dictionaries(KEYS, VALUES, max_size=3), patch=st.dictionaries(KEYS, VALUES, max_size=3))
def test_without_keyed_lists_a_strategic_patch_is_a_merge_patch_but_for_nulls_in_new_lists(
    target: dict[str, Any], patch: dict[str, Any]
) -> None:
    def nulls(value: Any) -> bool:
        if isinstance(value, list):
            return any(item is None or holds_null(item) for item in value)
        return isinstance(value, dict) and any(nulls(item) for item in value.values())

    def holds_null(value: Any) -> bool:
        if isinstance(value, dict):
            return None in value.values() or any(map(holds_null, value.values()))
        return isinstance(value, list) and any(item is None or holds_null(item) for item in value)

    if not nulls(patch):
        assert same(strategic_merge(target, patch), merge_patch(target, patch))
