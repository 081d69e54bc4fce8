from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.adapters.kube.records import Garbled, clip, event_body, merge_patch, node_record
from quarantine.core.marks import NodeEvent, NodePatch
from quarantine.core.model import Machine, Node, Taint
from tests.adapters.kube.support import PREFIX, served

FULL = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "gpu-17",
        "uid": "u-1",
        "resourceVersion": "77",
        "labels": {"pool": "h100", "nvidia.com/gpu.present": "true"},
        "annotations": {"quarantine.gpu/case": "c1", "quarantine.gpu.example/x": "no", "other.io/a": "no"},
    },
    "spec": {
        "providerID": "aws:///zone/i-1",
        "unschedulable": True,
        "taints": [
            {"key": "other.io/x", "value": "y", "effect": "PreferNoSchedule"},
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-29T11:00:00Z"},
        ],
    },
    "status": {
        "nodeInfo": {"systemUUID": "ec2-1", "bootID": "b-1"},
        "conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True"}],
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.17"},
            {"type": "Hostname", "address": "gpu-17"},
            {"type": "InternalDNS", "address": "gpu-17"},
        ],
        "images": [{"names": ["a" * 1000]}],
    },
}


def test_what_matters_of_a_node_is_kept() -> None:
    assert node_record(FULL, PREFIX) == Node(
        name="gpu-17",
        machine=Machine(node_uid="u-1", provider_id="aws:///zone/i-1", system_uuid="ec2-1", boot_id="b-1"),
        resource_version="77",
        labels={"pool": "h100", "nvidia.com/gpu.present": "true"},
        annotations={"quarantine.gpu/case": "c1"},
        taints=(
            Taint("other.io/x", "y", "PreferNoSchedule"),
            Taint("node.kubernetes.io/unreachable", "", "NoExecute", "2026-11-29T11:00:00Z"),
        ),
        unschedulable=True,
        ready=True,
        addresses=("10.0.0.17", "gpu-17"),
    )


def test_annotations_that_are_asked_for_are_kept_as_well() -> None:
    node = node_record(FULL, PREFIX, frozenset({"other.io/a", "other.io/missing"}))
    assert node.annotations == {"quarantine.gpu/case": "c1", "other.io/a": "no"}


def test_a_bare_node_says_nothing_rather_than_something_wrong() -> None:
    node = node_record(served("bare", "1"), PREFIX)

    assert (node.ready, node.unschedulable, node.taints, node.addresses) == (None, False, (), ())
    assert node.machine == Machine(node_uid="uid-bare")


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None), ("", None)])
def test_ready_is_three_valued(status: str, ready: bool | None) -> None:
    raw = served("n", "1", status={"conditions": [{"type": "Ready", "status": status}]})

    assert node_record(raw, PREFIX).ready is ready


@pytest.mark.parametrize(
    ("capacity", "labels", "gpus"),
    [
        ({"nvidia.com/gpu": "8"}, {}, 8),
        ({"nvidia.com/gpu": "0"}, {}, None),
        ({"nvidia.com/gpu": 8}, {}, None),
        ({}, {}, None),
        ({"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.count": "8"}, 8),
        ({"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.replicas": "4"}, 8),
        ({"nvidia.com/gpu": "32"}, {"nvidia.com/gpu.sharing-strategy": "time-slicing"}, None),
    ],
)
def test_gpus_are_whole_ones_however_many_share_them(
    capacity: dict[str, object], labels: dict[str, str], gpus: int | None
) -> None:
    raw = served("n", "1", status={"capacity": capacity})
    raw["metadata"]["labels"] = labels

    assert node_record(raw, PREFIX).gpus == gpus


@pytest.mark.parametrize("missing", ["name", "uid", "resourceVersion"])
def test_an_object_without_its_identity_is_no_node(missing: str) -> None:
    raw = json.loads(json.dumps(FULL))
    del raw["metadata"][missing]

    with pytest.raises(Garbled):
        node_record(raw, PREFIX)


@pytest.mark.parametrize("raw", [None, [], "node", 3, {"metadata": []}, {"metadata": {"name": 1, "uid": 2}}])
def test_what_is_no_object_is_no_node(raw: object) -> None:
    with pytest.raises(Garbled):
        node_record(raw, PREFIX)


def test_what_nodes_share_is_held_once() -> None:
    first, second = (node_record(json.loads(json.dumps(FULL)), PREFIX) for _ in range(2))

    assert all(a is b for a, b in zip(first.labels, second.labels, strict=True))
    assert all(a is b for a, b in zip(first.labels.values(), second.labels.values(), strict=True))
    assert first.taints[0].key is second.taints[0].key is sys.intern("other.io/x")


text = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=8)
taints = st.lists(
    st.builds(
        lambda key, value, effect, added: {
            k: v for k, v in {"key": key, "value": value, "effect": effect, "timeAdded": added}.items() if v
        },
        text.filter(bool),
        text,
        st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
        st.sampled_from(["", "2026-11-29T11:00:00Z"]),
    ),
    min_size=1,
    max_size=5,
)


@given(taints)
def test_a_foreign_taint_is_written_back_as_it_was_read(raw: list[dict[str, str]]) -> None:
    read = node_record(served("n", "1", spec={"taints": raw}), PREFIX)

    written = merge_patch(NodePatch(node="n", uid="u", resource_version="1", taints=read.taints))

    assert written["spec"]["taints"] == raw


def test_a_patch_names_its_preconditions_and_only_what_it_changes() -> None:
    assert merge_patch(NodePatch(node="n", uid="u", resource_version="7")) == {
        "metadata": {"uid": "u", "resourceVersion": "7"}
    }


def test_a_patch_removes_with_null() -> None:
    patch = NodePatch(
        node="n",
        uid="u",
        resource_version="7",
        unschedulable=False,
        taints=(),
        labels={"a": None, "b": "1"},
        annotations={"c": None},
    )

    assert merge_patch(patch) == {
        "metadata": {
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": None, "b": "1"},
            "annotations": {"c": None},
        },
        "spec": {"unschedulable": None, "taints": None},
    }


@given(st.text(max_size=40), st.integers(3, 40))
def test_clipping_keeps_whole_characters_within_the_limit(words: str, limit: int) -> None:
    clipped = clip(words, limit)

    assert len(clipped.encode()) <= limit
    if len(words.encode()) <= limit:
        assert clipped == words
    else:
        assert clipped.endswith("…")
        assert words.startswith(clipped[:-1])


def test_a_lone_surrogate_in_a_label_does_not_block_an_event() -> None:
    assert clip("GPU \ud800 hot", 100) == "GPU ? hot"


def test_an_event_is_about_the_node_of_that_uid() -> None:
    event = NodeEvent(
        name="gpu-17.c1", node="gpu-17", node_uid="u-1", reason="Quarantined", message="é" * 600, warning=True
    )

    body = event_body(event, datetime(2026, 11, 29, 12, tzinfo=UTC))

    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "gpu-17", "uid": "u-1"}
    assert body["metadata"] == {"name": "gpu-17.c1", "namespace": "default"}
    assert (body["type"], body["count"]) == ("Warning", 1)
    assert body["firstTimestamp"] == body["lastTimestamp"] == "2026-11-29T12:00:00Z"
    assert len(body["message"].encode()) <= 1024
