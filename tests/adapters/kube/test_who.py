"""Who took our taint away: what managedFields tell, and for how long."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.adapters.kube.records import node_record
from quarantine.core.marks import NodePatch
from quarantine.core.model import Node, Taint
from quarantine.sandbox.kubeapi import KubeApi
from tests.adapters.kube.support import PREFIX, eventually, patched, served
from tests.adapters.kube.world import World

OURS = "quarantine.gpu/suspect"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
Kubectl = Callable[..., None]


def entry(manager: str, time: str | None, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": fields}} | (
        {"time": time} if time else {}
    )


def tainted_by(*entries: Any) -> str:
    raw = served("n", "1")
    raw["metadata"]["managedFields"] = list(entries)
    return node_record(raw, PREFIX).tainted_by


TAINTS: dict[str, Any] = {"f:taints": {}}


@pytest.mark.parametrize(
    ("entries", "who"),
    [
        ((), ""),
        ((entry("kubectl", "2026-11-29T11:00:00Z", **{"f:unschedulable": {}}),), ""),
        ((entry("kubectl-taint", "2026-11-29T11:00:00Z", **TAINTS),), "kubectl-taint"),
        (
            (entry("late", "2026-11-29T11:00:01Z", **TAINTS), entry("early", "2026-11-29T11:00:00Z", **TAINTS)),
            "late",
        ),
        ((entry("timed", "2026-11-29T11:00:00Z", **TAINTS), entry("timeless", None, **TAINTS)), "timed"),
        (("garbage", None, {"fieldsV1": []}, {"fieldsV1": {"f:spec": "x"}}, {"fieldsV1": {"f:spec": TAINTS}}), ""),
    ],
)
def test_the_newest_owner_of_the_list_wrote_it_last(entries: tuple[Any, ...], who: str) -> None:
    assert tainted_by(*entries) == who


def test_when_a_node_was_made_is_read() -> None:
    raw = served("n", "1")
    raw["metadata"]["creationTimestamp"] = "2026-11-29T11:00:00Z"
    made = node_record(raw, PREFIX).created_at
    assert made is not None
    assert made.isoformat() == "2026-11-29T11:00:00+00:00"
    assert node_record(served("n", "1"), PREFIX).created_at is None


@pytest.fixture
def kubectl(emulated: World, tmp_path: Path) -> Kubectl:
    """Stock kubectl, run to its end."""
    path = Path(sys.executable).with_name("kubectl")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(emulated.kubeconfig)}

    def run(*args: str) -> None:
        subprocess.run([str(path), *args], env=environment, capture_output=True, timeout=60, check=True)

    return run


def has(cluster: KubeCluster, name: str, taint: str) -> bool:
    node = cluster.nodes().get(name)
    return node is not None and any(t.key == taint for t in node.taints)


def marked(node: Node) -> NodePatch:
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=True,
        taints=(*node.taints, Taint(OURS, "q-1")),
    )


@pytest.fixture
def quarantined(emulator: KubeApi, emulated: World) -> tuple[KubeCluster, str]:
    """A cluster with the node life-cycle controller, as most are, and a node that we marked."""
    emulator.lifecycle_taints = True
    cluster = emulated.cluster()
    name = emulated.create("a", status={"conditions": [{"type": "Ready", "status": "True"}]})
    emulated.taint(name, "team.example/pool")
    eventually(
        lambda: name in cluster.nodes() and any(t.key == "team.example/pool" for t in cluster.nodes()[name].taints)
    )
    patched(cluster, name, marked)
    eventually(lambda: has(cluster, name, UNSCHEDULABLE))
    return cluster, name


def test_a_person_s_word_is_not_taken_for_the_controller_s_that_followed(
    quarantined: tuple[KubeCluster, str], kubectl: Kubectl
) -> None:
    """After an uncordon the node controller writes the list as well: what it removes is its own."""
    cluster, name = quarantined

    kubectl("taint", "node", name, f"{OURS}-")
    kubectl("uncordon", name)

    eventually(lambda: not has(cluster, name, UNSCHEDULABLE))
    assert not has(cluster, name, OURS)
    assert cluster.nodes()[name].tainted_by == "kubectl-taint"


def test_a_program_that_rewrites_the_list_is_told_by_its_name(
    quarantined: tuple[KubeCluster, str], emulator: KubeApi
) -> None:
    cluster, name = quarantined
    kept = [t for t in emulator.get("Node", name)["spec"]["taints"] if t["key"] != OURS]
    emulator.patch_merge("Node", name, {"spec": {"taints": kept}}, manager="driver-manager")
    eventually(lambda: not has(cluster, name, OURS))
    assert cluster.nodes()[name].tainted_by == "driver-manager"


def test_the_removal_of_the_last_taint_leaves_nobody(emulator: KubeApi, emulated: World) -> None:
    cluster = emulated.cluster()
    name = emulated.create("a")
    emulator.patch_merge("Node", name, {"spec": {"taints": None}})
    eventually(lambda: name in cluster.nodes() and not cluster.nodes()[name].taints)
    assert patched(cluster, name, marked).tainted_by == "quarantine"
    emulator.patch_merge("Node", name, {"spec": {"taints": None}}, manager="kubectl-taint")
    eventually(lambda: not has(cluster, name, OURS))
    assert cluster.nodes()[name].tainted_by == ""


def test_once_it_is_put_back_the_next_removal_counts_afresh(
    quarantined: tuple[KubeCluster, str], kubectl: Kubectl
) -> None:
    cluster, name = quarantined
    kubectl("taint", "node", name, f"{OURS}-")
    eventually(lambda: not has(cluster, name, OURS))
    assert patched(cluster, name, marked).tainted_by == "quarantine"
    assert has(cluster, name, OURS)
