"""How series name their node and device: mapping metrics, parts of labels, NVLinks, a policy's own query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.case import Case
from quarantine.core.contradictions import contradictions
from quarantine.core.model import Device, DeviceKind
from quarantine.core.policy import Rules
from quarantine.core.signal import SignalSpec
from quarantine.inspection import what_is_seen
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import SIGNALS, node, policy, rules
from tests.e2e.forms import NOW, Scene, ending, suspected

DOWNED = "infiniband_hca_port_link_downed_total"
LINK = "NVLINK_COUNT_RX_ERRORS"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
BEAT = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
RATE = "infiniband_hca_port_rate"
PORT = {"unit": "events", "device": "ib_port", "plausible": {"min": 0, "max": 255}, "interval": "30s"}
HCA = {
    "first": ["hca"],
    "part": "([^ ]+) .*",
    "via": {"metric": "infiniband_hca_info", "by": ["guid"]},
}
FABRIC = SignalSpec.model_validate(
    {
        **PORT,
        "description": "link downed, from one host that sees the fabric",
        "type": "counter",
        "sources": [
            {"exporter": "fabric", "metrics": [DOWNED], "node": HCA, "device": {"join": ["guid", "port"]}},
        ],
    }
)
SPEED = SignalSpec.model_validate(
    {
        **PORT,
        "description": "rate of a port",
        "type": "gauge",
        "sources": [{"exporter": "fabric", "metrics": [RATE], "node": HCA, "device": {"join": ["guid", "port"]}}],
    }
)
# An NVLink's series say gpu_uuid, its GPU's UUID: a heartbeat cannot be joined, so the gate asks for the node's.
NODE_ALIVE = f"sum by (Hostname) (changes({BEAT}{{cluster='a'}}[2m])) > 0"
NVLINKS = SignalSpec.model_validate(
    {
        "description": "errors of one NVLink",
        "unit": "errors",
        "device": "nvlink",
        "type": "counter",
        "plausible": {"min": 0, "max": 1e15},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": [LINK],
                "node": {"first": ["Hostname"]},
                "device": {"join": ["gpu_uuid", "nvlink"], "index": "gpu"},
                "gate": NODE_ALIVE,
            }
        ],
    }
)
WORK = f"last_over_time({TENSOR}{{cluster='a'}}[30s])"
# The load of a link is its GPU's, under the label that the link has.
LINK_LOAD = SignalSpec.model_validate(
    {
        "description": "tensor activity by gpu_uuid",
        "unit": "ratio",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 0, "max": 1},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "expr": f"label_replace({WORK}, 'gpu_uuid', '$1', 'UUID', '(.+)')",
                "node": {"first": ["Hostname"]},
                "device": {"first": ["gpu_uuid"]},
            }
        ],
    }
)
QUERY = {
    "expr": "max by (instance) (last_over_time(node_hot{cluster='a'}[1m]))",
    "unit": "°C",
    "device": "node",
    "plausible": {"min": 1, "max": 129},
    "interval": "30s",
    "node": {"first": ["instance"], "means": "address"},
}


GONE = {"absent": True, "for": "5m", "within": "30m"}


def law() -> Rules:
    policies = (
        policy("fabric", signal="ib.fabric", trigger={"events": 2, "within": "10m"}, recovery=None),
        policy("slow", signal="ib.speed", trigger={"below": 40, "for": "5m"}, recovery=None),
        policy("missing", signal="ib.speed", trigger=GONE, recovery=None),
        policy(
            "links",
            signal="nvlink.errors",
            trigger={"events": 10, "within": "10m"},
            recovery={"for": "10m", "load": {"signal": "nvlink.load", "above": 0.1}},
        ),
        policy("unlinked", signal="nvlink.errors", trigger=GONE, recovery=None),
        policy("own", signal=None, query=QUERY, trigger={"above": 78, "for": "5m"}, recovery=None),
    )
    made = rules(*policies, matchers={"cluster": "a"})
    added = {"ib.fabric": FABRIC, "ib.speed": SPEED, "nvlink.errors": NVLINKS, "nvlink.load": LINK_LOAD}
    return replace(made, signals={**SIGNALS, **added})


FLAPS = "3x10 4x4 5x24"
# guid → (what its info says, with how many samples, counter)
GUIDS: dict[str, tuple[list[tuple[str, str]], str]] = {
    "0xa1": ([("ib-flaps mlx5_0", "1x160")], FLAPS),
    "0xa2": ([("ib-quiet mlx5_0", "1x160")], "3x160"),
    "0xa3": ([("ib-two-names mlx5_0", "1x160"), ("ib-other-name mlx5_0", "1x160")], FLAPS),
    "0xa4": ([], FLAPS),  # mapped by nothing
    "0xa5": ([("nonsense", "1x160")], FLAPS),  # no node can be told from it
    "0xa6": ([("ib-of-nobody mlx5_0", "1x160")], FLAPS),  # no such node
    "0xa7": ([("ib-zero mlx5_0", "0x160")], FLAPS),  # what an info metric counts says nothing
    "0xa8": ([("ib-mapping-died mlx5_0", "1x100 stale _x59")], FLAPS),
}
# node → (counter of link 3, energy, bad)
LINKS: dict[str, tuple[str, str, bool]] = {
    "nv-errors": ("0+1x160", "0+5000x160", True),
    "nv-quiet": ("500x160", "0+5000x160", False),
    "nv-frozen": ("0x120 50x39", "700x160", False),
    "nv-reset": ("500x140 0+10x19", "0+5000x160", False),
}


def history() -> Iterator[Series]:
    for guid, (infos, text) in GUIDS.items():
        yield ending(DOWNED, {"guid": guid, "port": "1"}, text, before="3")
        for hca, info in infos:
            yield ending("infiniband_hca_info", {"guid": guid, "hca": hca, "lid": "7"}, info)
    for port in range(8):
        guid = f"0xb{port}"
        yield ending("infiniband_hca_info", {"guid": guid, "hca": f"ib-speeds mlx5_{port}"}, "1x160")
        text = {6: "10x160", 7: "50x130 stale _x29"}.get(port, "50x160")
        yield ending(RATE, {"guid": guid, "port": "1"}, text)
    for name, (text, energy, _) in LINKS.items():
        for link in range(4):
            labels = {"Hostname": name, "gpu_uuid": f"GPU-{name}", "gpu": "0", "nvlink": str(link)}
            yield ending(LINK, labels, text if link == 3 else "7x160")
        yield ending(BEAT, {"Hostname": name, "UUID": f"GPU-{name}"}, energy)
        yield ending(TENSOR, {"Hostname": name, "UUID": f"GPU-{name}"}, "0.6x160")
    # A GPU that works lends none of its load to a link of one that does not.
    for number, load in enumerate(("0x160", "0.9x160")):
        uuid = f"GPU-nv-idle-{number}"
        yield ending(LINK, {"Hostname": "nv-idle", "gpu_uuid": uuid, "nvlink": "3"}, "500x160")
        yield ending(BEAT, {"Hostname": "nv-idle", "UUID": uuid}, "0+5000x160")
        yield ending(TENSOR, {"Hostname": "nv-idle", "UUID": uuid}, load)
    for link in range(18):
        labels = {"Hostname": "nv-link-gone", "gpu_uuid": "GPU-nv-link-gone", "nvlink": str(link)}
        yield ending(LINK, labels, "7x130 stale _x29" if link == 17 else "7x160")
    yield ending(BEAT, {"Hostname": "nv-link-gone", "UUID": "GPU-nv-link-gone"}, "0+5000x160")
    # PCIe cards: GPUs without any NVLink are unmonitored, which is no fault.
    yield ending(BEAT, {"Hostname": "pcie", "UUID": "GPU-pcie"}, "0+5000x160")
    yield ending("node_hot", {"instance": "10.7.0.1:9100"}, "84x160")
    yield ending("node_hot", {"instance": "10.7.0.2:9100"}, "60x160")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with PrometheusServer() as server:
        write(server.url, history())
        with PrometheusMetrics(PrometheusSettings(url=server.url)) as metrics:
            ports = ("ib-flaps", "ib-quiet", "ib-two-names", "ib-other-name", "ib-zero", "ib-mapping-died", "ib-speeds")
            nodes = {name: node(name, addresses=()) for name in (*ports, *LINKS, "nv-idle", "nv-link-gone", "pcie")}
            nodes["own-hot"] = node("own-hot", addresses=("10.7.0.1",))
            nodes["own-cool"] = node("own-cool", addresses=("10.7.0.2",))
            yield Scene(metrics, server.url, law(), nodes)


def test_a_mapping_metric_names_the_node(scene: Scene) -> None:
    found = scene.judgement("fabric")
    assert found.failed is None
    assert {(o.node.name, o.device.name) for o in found.bad} == {("ib-flaps", "0xa1/1"), ("ib-zero", "0xa7/1")}
    assert {s.said for s in found.strays} == {"nonsense", "ib-of-nobody mlx5_0"}
    evidence = next(o.evidence for o in found.bad if o.node.name == "ib-flaps")
    assert evidence.value == 2
    assert evidence.labels["hca"] == "ib-flaps mlx5_0"
    assert 'guid="0xa1"' in evidence.query


def test_a_mapped_ports_coverage_is_its_nodes(scene: Scene) -> None:
    assert scene.judgement("slow").covered == 7
    assert set(scene.bad("slow")) == {"ib-speeds"}


def test_a_mapped_port_may_be_absent(scene: Scene) -> None:
    found = scene.judgement("missing")
    assert found.failed is None
    assert [(o.node.name, o.device.name) for o in found.bad] == [("ib-speeds", "0xb7/1")]
    assert found.bad[0].evidence.threshold == "absent for 5m (8 expected, 7 seen)"


def test_a_link_is_told_by_its_gpu_and_number(scene: Scene) -> None:
    found = scene.judgement("links")
    wanted = {(name, f"GPU-{name}/3") for name, (_, _, is_bad) in LINKS.items() if is_bad}
    assert {(o.node.name, o.device.name) for o in found.bad} == wanted
    assert str(found.bad[0].device) == "NVLink 3 of GPU 0 (GPU-nv-errors)"


def test_a_links_load_is_that_of_its_own_gpu(scene: Scene) -> None:
    cases = [link("nv-quiet", "GPU-nv-quiet"), link("nv-idle", "GPU-nv-idle-0"), link("nv-errors", "GPU-nv-errors")]
    found = replace(scene, suspects=cases).judgement("links")
    assert {name for name, _ in found.good} == {"nv-quiet"}


def test_to_check_it_is_no_contradiction(scene: Scene) -> None:
    for name in ("links", "own"):
        assert contradictions(name, scene.policy(name).spec, scene.law.signals, scene.law.fleet) == []


def test_a_link_may_be_absent_and_cards_without_links_are_no_fault(scene: Scene) -> None:
    found = scene.judgement("unlinked")
    assert [(o.node.name, o.device.name) for o in found.bad] == [("nv-link-gone", "GPU-nv-link-gone/17")]
    assert found.covered is not None


def test_a_policys_own_query(scene: Scene) -> None:
    bad = scene.bad("own")
    assert set(bad) == {"own-hot"}
    assert bad["own-hot"].signal == "query/own"
    assert bad["own-hot"].source == "query/expr"


def link(name: str, uuid: str) -> Case:
    labels = {"Hostname": name, "gpu_uuid": uuid, "nvlink": "3"}
    return suspected("links", name, Device(DeviceKind.NVLINK, f"{uuid}/3"), f"dcgm-exporter/{LINK}", labels)


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("fabric", [{"hca": "ib-flaps mlx5_0", "guid": "0xa1", "port": "1"}]),
        ("missing", [{"hca": "ib-speeds mlx5_7", "guid": "0xb7", "port": "1"}]),
        ("links", [{"Hostname": "nv-errors", "gpu_uuid": "GPU-nv-errors", "nvlink": "3"}]),
        ("unlinked", [{"Hostname": "nv-link-gone", "gpu_uuid": "GPU-nv-link-gone", "nvlink": "17"}]),
    ],
)
def test_a_range_is_the_instant_at_each_step(scene: Scene, name: str, devices: list[dict[str, str]]) -> None:
    assert scene.range_equals_instant(name, devices, timedelta(minutes=5), timedelta(minutes=2)) > 10


SEEN = {
    "ib-quiet": "saw 0 new events of InfiniBand port 0xa2/1 within 10m, and 2 are needed",
    "ib-speeds": "saw 7 InfiniBand ports of ib-speeds within 5m, of 8 InfiniBand ports within 30m: that is bad",
    "ib-two-names": "policy fabric sees no series of ib-two-names: unknown",
    "own-cool": "saw nothing above 78 °C within 5m; the nearest was the node with 60 °C",
}


@pytest.mark.parametrize("name", sorted(SEEN))
def test_why_nothing_was_done_is_told(scene: Scene, name: str) -> None:
    told = what_is_seen(scene.metrics, scene.law, scene.nodes[name], at=NOW, timeout=timedelta(seconds=10))
    assert any(SEEN[name] in sentence for sentence in told), told
