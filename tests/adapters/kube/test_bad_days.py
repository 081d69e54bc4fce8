"""What only an emulator does on demand: compaction, restarts, missing rights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.core.marks import NodeEvent, NodePatch
from quarantine.core.model import Node
from quarantine.sandbox.kubeapi import Fault, KubeApi, KubeApiServer, Rule, User, serve
from tests.adapters.kube.support import eventually, node_json, patched
from tests.adapters.kube.world import World

Connect = Callable[..., KubeCluster]
PATH = "/api/v1/nodes"


def patch(node: Node) -> NodePatch:
    return NodePatch(
        node=node.name, uid=node.machine.node_uid, resource_version=node.resource_version, unschedulable=True
    )


def test_the_watch_goes_on_after_its_version_was_compacted(
    emulator: KubeApi, served_at: KubeApiServer, emulated: World
) -> None:
    emulator.create(node_json("a"))
    cluster = emulated.cluster()
    eventually(lambda: "a" in cluster.nodes())
    emulator.fault = lambda _, path: Fault(status=503) if path == PATH else None
    served_at.drop_connections()
    emulator.create(node_json("b"))
    emulator.delete("Node", "a")
    emulator.compact()
    emulator.fault = None

    eventually(lambda: set(cluster.nodes()) == {"b"})

    emulator.create(node_json("c"))
    eventually(lambda: set(cluster.nodes()) == {"b", "c"})


def test_the_watch_goes_on_after_a_restart_on_the_same_port(tmp_path: Path, connected: Connect) -> None:
    emulator = KubeApi()
    emulator.create(node_json("a"))
    with serve(emulator) as server:
        port = int(server.url.rsplit(":", 1)[1])
        cluster = connected(server.write_kubeconfig(tmp_path / "k"))
        eventually(lambda: "a" in cluster.nodes())
    emulator.create(node_json("b"))
    with pytest.raises(ClusterUnavailable):
        cluster.patch_node(patch(cluster.nodes()["a"]))

    with serve(emulator, port=port):
        eventually(lambda: "b" in cluster.nodes())
        emulator.create(node_json("c"))
        eventually(lambda: "c" in cluster.nodes())
        assert patched(cluster, "c", patch).unschedulable


def test_another_cluster_behind_the_same_address_is_read_anew(tmp_path: Path, connected: Connect) -> None:
    """Its versions begin at 1 again: neither the watch nor the cache may insist on the higher ones."""
    users = KubeApi().users
    first, second = KubeApi(users=users), KubeApi(users=users)
    for i in range(50):
        first.create(node_json(f"old-{i}"))
    second.create(node_json("new"))
    with serve(first) as server:
        port = int(server.url.rsplit(":", 1)[1])
        cluster = connected(server.write_kubeconfig(tmp_path / "k"))
        eventually(lambda: len(cluster.nodes()) == 50)
        cluster.patch_node(patch(cluster.nodes()["old-0"]))

    with serve(second, port=port):
        eventually(lambda: set(cluster.nodes()) == {"new"})


def test_an_answer_that_is_lost_leaves_the_write_in_doubt_and_the_next_try_safe(
    emulator: KubeApi, emulated: World
) -> None:
    emulator.create(node_json("a"))
    cluster = emulated.cluster(watch=False)
    node = cluster.nodes()["a"]
    emulator.fault = lambda method, _: Fault(drop=True, after=True) if method == "PATCH" else None
    with pytest.raises(ClusterUnavailable, match="broke the connection off while patching node a"):
        cluster.patch_node(patch(node))
    emulator.fault = None

    eventually(lambda: "PATCH" in [r.method for r in emulator.requests])
    assert [r.method for r in emulator.requests].count("PATCH") == 1
    assert cluster.nodes()["a"].unschedulable
    assert cluster.patch_node(patch(cluster.nodes()["a"])).unschedulable


def test_rights_that_are_missing_are_named(tmp_path: Path, connected: Connect) -> None:
    reader = User("reader", "reader-token", rules=(Rule(verbs=("get", "list", "watch"), resources=("nodes",)),))
    emulator = KubeApi(users=[*KubeApi().users, reader])
    emulator.create(node_json("a"))
    with serve(emulator) as server:
        cluster = connected(server.write_kubeconfig(tmp_path / "k", user="reader"), watch=False)
        node = cluster.nodes()["a"]
        with pytest.raises(ClusterRefused, match=r'"reader" cannot patch.*grant patch on nodes') as caught:
            cluster.patch_node(patch(node))
        with pytest.raises(ClusterRefused, match="grant create on events"):
            cluster.create_event(NodeEvent(name="a.c1", node="a", node_uid="u", reason="R", message="m", warning=False))

    assert "reader-token" not in str(caught.value)
    assert server.url in str(caught.value)
