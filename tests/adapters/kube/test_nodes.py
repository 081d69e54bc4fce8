"""The port over real HTTP: on the emulator, and on a real API server where QUARANTINE_TEST_KUBECONFIG names one."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarantine.adapters.kube import KubeCluster
from quarantine.core.errors import ClusterRefused, Conflict, NodeGone
from quarantine.core.marks import NodeEvent, NodePatch
from quarantine.core.model import Node, Taint
from tests.adapters.kube.support import AT, eventually, patched
from tests.adapters.kube.world import World

OURS = Taint("quarantine.gpu/suspect", "c1", "NoSchedule")


def mark(node: Node) -> NodePatch:
    """Cordon and taint, as the core does it."""
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=True,
        taints=(*(t for t in node.taints if t.key != OURS.key), OURS),
        labels={"quarantine.gpu/phase": "quarantined"},
        annotations={"quarantine.gpu/case": "c1", "quarantine.gpu/reason": "GPU 3 at 84 °C"},
    )


def unmark(node: Node) -> NodePatch:
    """Take it all away again."""
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=False,
        taints=tuple(t for t in node.taints if t != OURS),
        labels={"quarantine.gpu/phase": None},
        annotations={"quarantine.gpu/case": None, "quarantine.gpu/reason": None},
    )


@pytest.fixture(params=[True, False], ids=["watch", "afresh"])
def cluster(world: World, request: pytest.FixtureRequest) -> KubeCluster:
    """Both ways of reading nodes."""
    return world.cluster(watch=request.param)


def test_a_node_is_marked_and_unmarked_without_a_trace(world: World, cluster: KubeCluster) -> None:
    name = world.create("a", spec={"taints": [{"key": "other.io/x", "value": "y", "effect": "PreferNoSchedule"}]})
    before = world.get(name)
    eventually(lambda: name in cluster.nodes())

    marked = patched(cluster, name, mark)
    raw = world.get(name)
    assert marked == cluster.nodes()[name]
    assert raw["spec"]["unschedulable"] is True
    # A real cluster's controller answers the cordon with a taint of its own, sooner or later.
    assert [t for t in raw["spec"]["taints"] if t["key"] != "node.kubernetes.io/unschedulable"] == [
        *before["spec"]["taints"],
        {"key": OURS.key, "value": "c1", "effect": "NoSchedule"},
    ]
    assert raw["metadata"]["labels"]["quarantine.gpu/phase"] == "quarantined"
    assert raw["metadata"]["annotations"]["quarantine.gpu/reason"] == "GPU 3 at 84 °C"
    assert {m["manager"] for m in raw["metadata"]["managedFields"] if m["operation"] == "Update"} >= {"quarantine"}

    patched(cluster, name, unmark)
    eventually(lambda: world.get(name)["spec"] == before["spec"])
    after = world.get(name)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]


def test_what_is_read_is_what_the_server_has(world: World, cluster: KubeCluster) -> None:
    name = world.create("a", spec={"providerID": "test:///1"}, metadata={"annotations": {"other.io/a": "b"}})

    node = eventually(lambda: cluster.nodes().get(name))

    raw = world.get(name)
    assert node.machine.node_uid == raw["metadata"]["uid"]
    assert node.machine.provider_id == "test:///1"
    assert node.labels == raw["metadata"]["labels"]
    assert node.annotations == {}
    assert node.ready is None
    assert node.unschedulable is False
    assert [t.key for t in node.taints] == [t["key"] for t in raw["spec"]["taints"]]


def test_a_foreign_taint_set_in_between_survives(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    node = eventually(lambda: cluster.nodes().get(name))
    world.taint(name, "other.io/late")

    with pytest.raises(Conflict, match=f"patching node {name}; read it again"):
        cluster.patch_node(mark(node))
    assert all(t["key"] != OURS.key for t in world.get(name)["spec"]["taints"])

    patched(cluster, name, mark)
    assert {"other.io/late", OURS.key} <= {t["key"] for t in world.get(name)["spec"]["taints"]}


def test_two_hands_at_once_lose_nothing(world: World, cluster: KubeCluster) -> None:
    """A foreign controller taints while we mark and unmark: in the end all of its taints are there."""
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())
    keys = [f"other.io/t{i}" for i in range(8)]

    def taint_all() -> None:
        for key in keys:
            world.taint(name, key)

    foreign = threading.Thread(target=taint_all)

    foreign.start()
    for _ in range(4):
        patched(cluster, name, mark)
        patched(cluster, name, unmark)
    foreign.join(20)
    patched(cluster, name, mark)

    assert not foreign.is_alive()
    taints = [t["key"] for t in world.get(name)["spec"]["taints"]]
    assert {*keys, OURS.key} <= set(taints)
    assert len(taints) == len(set(taints))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["mark", "unmark", "foreign"]), min_size=1, max_size=5), st.data())
def test_foreign_taints_survive_any_sequence(world: World, steps: list[str], data: st.DataObject) -> None:
    name = world.create(f"s{data.draw(st.uuids())}")
    cluster = world.cluster(watch=False)
    foreign: list[str] = []
    for step in steps:
        if step == "foreign":
            foreign.append(f"other.io/t{len(foreign)}")
            world.taint(name, foreign[-1])
        else:
            patched(cluster, name, mark if step == "mark" else unmark)
        assert [t["key"] for t in world.get(name)["spec"]["taints"] if t["key"].startswith("other.io/")] == foreign
    cluster.close()
    world.delete(name)


def test_our_own_write_is_seen_at_once_and_stays_seen(world: World) -> None:
    cluster = world.cluster()
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())

    for case in (f"c{i}" for i in range(20)):

        def change(node: Node, case: str = case) -> NodePatch:
            return replace(mark(node), annotations={"quarantine.gpu/case": case})

        node = patched(cluster, name, change)
        for _ in range(20):
            seen = cluster.nodes()[name]
            assert seen.annotations["quarantine.gpu/case"] == case
            assert int(seen.resource_version) >= int(node.resource_version)


def test_the_watch_tells_what_others_do(world: World) -> None:
    cluster = world.cluster()
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())

    world.patch(name, {"spec": {"unschedulable": True}})
    eventually(lambda: cluster.nodes()[name].unschedulable)
    world.patch(name, {"metadata": {"annotations": {"quarantine.gpu/waived-until": "tomorrow"}}})
    eventually(lambda: cluster.nodes()[name].annotations == {"quarantine.gpu/waived-until": "tomorrow"})
    world.delete(name)
    eventually(lambda: name not in cluster.nodes())


@pytest.mark.parametrize("watch", [True, False])
def test_a_sign_of_maintenance_is_seen_to_come_and_go(world: World, watch: bool) -> None:
    cluster = world.cluster(watch=watch, annotations=frozenset({"ops/work"}))
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())

    world.patch(name, {"metadata": {"annotations": {"ops/work": "board swap", "ops/other": "x"}}})
    eventually(lambda: cluster.nodes()[name].annotations == {"ops/work": "board swap"})
    world.patch(name, {"metadata": {"annotations": {"ops/work": None}}})
    eventually(lambda: cluster.nodes()[name].annotations == {})


def test_a_node_that_is_gone(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    node = eventually(lambda: cluster.nodes().get(name))
    world.delete(name)

    with pytest.raises(NodeGone, match="does not exist any more"):
        cluster.patch_node(mark(node))


def test_a_node_made_anew_is_not_written_to(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    node = eventually(lambda: cluster.nodes().get(name))
    world.delete(name)
    world.create("a")
    successor = eventually(
        lambda: (n := cluster.nodes().get(name)) and n.machine.node_uid != node.machine.node_uid and n
    )

    with pytest.raises((NodeGone, Conflict)):
        cluster.patch_node(mark(node))
    # Even with the successor's version, the uid alone protects it.
    with pytest.raises((NodeGone, Conflict)):
        cluster.patch_node(replace(mark(successor), uid=node.machine.node_uid))

    raw = world.get(name)
    assert "unschedulable" not in raw["spec"]
    assert "quarantine.gpu/phase" not in raw["metadata"]["labels"]


def test_a_write_that_changes_nothing_keeps_the_version(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())
    marked = patched(cluster, name, mark)

    assert cluster.patch_node(mark(marked)).resource_version == marked.resource_version


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"taints": (Taint("q", "has space"),)}, "valid label"),
        ({"taints": (Taint("q", "1"), Taint("q", "2"))}, "unique"),
        ({"taints": (Taint("q", "1", "Banish"),)}, "Unsupported value"),
        ({"labels": {"a": "x" * 64}}, "63"),
    ],
)
def test_what_the_server_finds_invalid_is_told_in_its_words(
    world: World, cluster: KubeCluster, change: dict[str, object], words: str
) -> None:
    name = world.create("a")
    eventually(lambda: name in cluster.nodes())

    with pytest.raises(ClusterRefused, match=words) as caught:
        patched(cluster, name, lambda n: replace(mark(n), **change))  # type: ignore[arg-type]

    assert "422" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_event_is_written_once(world: World, cluster: KubeCluster) -> None:
    name = world.create("a")
    uid = world.get(name)["metadata"]["uid"]
    event = NodeEvent(
        name=f"{name}.c1", node=name, node_uid=uid, reason="Quarantined", message="GPU 3 at 84 °C " * 200, warning=True
    )

    cluster.create_event(event)
    cluster.create_event(event)

    (found,) = world.events(name)
    assert found["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    assert (found["reason"], found["type"], found["count"]) == ("Quarantined", "Warning", 1)
    assert found["reportingComponent"] == found["source"]["component"] == "quarantine"
    assert datetime.fromisoformat(found["firstTimestamp"]) == datetime.fromisoformat(found["lastTimestamp"]) == AT
    assert found["message"].startswith("GPU 3 at 84 °C")
    assert len(found["message"].encode()) <= 1024


def test_a_refresh_shows_what_the_watch_has_not_told(emulated: World) -> None:
    """As to a replica that was cut off and leads now."""
    name = emulated.create("1")
    cluster = emulated.cluster()
    assert name in cluster.nodes()
    watcher = cluster._watcher
    assert watcher is not None
    watcher.stop()
    emulated.taint(name, "example.com/late")
    cluster.refresh()
    assert "example.com/late" in {taint.key for taint in cluster.nodes()[name].taints}
