"""Our condition in a node's status: set beside the others, and read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.adapters.kube.records import node_record
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, NodeGone
from quarantine.core.marks import NodeCondition
from tests.adapters.kube.scripted import Scripted
from tests.adapters.kube.support import PREFIX, eventually, failure, served
from tests.adapters.kube.world import World

Connect = Callable[..., KubeCluster]
BAD = NodeCondition(node="n1", uid="uid-n1", status=True, reason="GpuHot", message="GPU 3 at 84 °C")


@pytest.fixture
def cluster(world: World) -> KubeCluster:
    return world.cluster()


def told(world: World, name: str) -> Any:
    return {c["type"]: c for c in world.get(name)["status"].get("conditions", ())}


def test_it_stands_beside_the_others_and_is_read_again(world: World, cluster: KubeCluster) -> None:
    name = world.create("a", status={"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]})
    eventually(lambda: name in cluster.nodes())
    wanted = replace(BAD, node=name, uid=world.get(name)["metadata"]["uid"])

    cluster.set_condition(wanted)

    assert cluster.nodes()[name].suspect == "True"
    conditions = told(world, name)
    assert conditions["Ready"]["status"] == "True"
    assert conditions["HardwareSuspect"] == {
        "type": "HardwareSuspect",
        "status": "True",
        "reason": "GpuHot",
        "message": "GPU 3 at 84 °C",
        "lastHeartbeatTime": "2026-11-29T12:00:00Z",
        "lastTransitionTime": "2026-11-29T12:00:00Z",
    }


def test_the_time_of_its_transition_moves_with_its_status_alone(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())
    earlier = {"type": "HardwareSuspect", "status": "True", "lastTransitionTime": "2026-11-28T00:00:00Z"}
    patch = {"status": {"conditions": [earlier]}}
    kind = "application/strategic-merge-patch+json"
    world.core.patch_node_status(name, patch, _content_type=kind, _preload_content=False)
    eventually(lambda: cluster.nodes()[name].suspect == "True")
    wanted = replace(BAD, node=name, uid=world.get(name)["metadata"]["uid"])

    cluster.set_condition(wanted)
    assert told(world, name)["HardwareSuspect"]["lastTransitionTime"] == "2026-11-28T00:00:00Z"
    assert told(world, name)["HardwareSuspect"]["message"] == "GPU 3 at 84 °C"

    cluster.set_condition(replace(wanted, status=False, reason="Released"))
    assert told(world, name)["HardwareSuspect"]["lastTransitionTime"] == "2026-11-29T12:00:00Z"
    assert cluster.nodes()[name].suspect == "False"


def test_a_node_made_anew_is_not_told_of_the_earlier_one(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    with pytest.raises(NodeGone):
        cluster.set_condition(replace(BAD, node=name, uid="11111111-2222-3333-4444-555555555555"))
    assert "HardwareSuspect" not in told(world, name)
    world.delete(name)
    with pytest.raises(NodeGone):
        cluster.set_condition(replace(BAD, node=name, uid="u"))


def test_only_the_status_is_written(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = lambda exchange: exchange.answer(served("n1", "6"))

    to_scripted(watch=False).set_condition(replace(BAD, message="é" * 2000))

    (sent,) = scripted.seen
    assert (sent.command, sent.path) == ("PATCH", "/api/v1/nodes/n1/status?fieldManager=quarantine")
    assert sent.headers["content-type"] == "application/strategic-merge-patch+json"
    assert sent.body.keys() == {"metadata", "status"}
    assert sent.body["metadata"] == {"uid": "uid-n1"}
    (condition,) = sent.body["status"]["conditions"]
    assert len(condition["message"].encode()) <= 1024


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [(403, ClusterRefused, "grant patch on nodes/status"), (503, ClusterUnavailable, "tried again")],
)
def test_what_cannot_be_written_is_told(
    scripted: Scripted, to_scripted: Connect, status: int, error: type[Exception], words: str
) -> None:
    scripted.script = lambda exchange: exchange.answer(failure(status, "X", "no"), status)
    with pytest.raises(error, match=words):
        to_scripted(watch=False).set_condition(BAD)


@pytest.mark.parametrize("status", ["True", "False", "Unknown", ""])
def test_its_status_is_read(status: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}] + (
        [{"type": "HardwareSuspect", "status": status}] if status else []
    )
    assert node_record(served("n", "1", status={"conditions": conditions}), PREFIX).suspect == status
