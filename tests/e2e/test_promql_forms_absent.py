"""What is absent: GPUs that fell off the bus, nodes that show nothing. On a real Prometheus, over written history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.case import Case
from quarantine.core.model import Device, DeviceKind
from quarantine.core.policy import Rules
from quarantine.core.reasons import saw
from quarantine.core.signal import SignalSpec
from quarantine.inspection import what_is_seen
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import GPU_TEMPERATURE, SIGNALS, node, policy, rules
from tests.e2e.forms import NOW, Scene, ending, suspected

BEAT = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEMP = "DCGM_FI_DEV_GPU_TEMP"
GPUD = "accelerator_nvidia_temperature_current_celsius"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
BOTH = SignalSpec.model_validate(
    {
        **GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True),
        "sources": [
            *GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)["sources"],
            {"exporter": "gpud", "metrics": [GPUD], "node": {"first": ["node"]}, "device": {"first": ["uuid"]}},
        ],
    }
)
EXPORTER = SignalSpec.model_validate(
    {
        "description": "GPUs that the exporter shows",
        "unit": "GPUs",
        "device": "node",
        "type": "gauge",
        "plausible": {"min": 1, "max": 64},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "expr": f"count by (Hostname) (last_over_time({TEMP}{{cluster='a'}}[1m]))",
                "node": {"first": ["Hostname"]},
            }
        ],
    }
)
# The same of two exporters, one of which names the node by its address, and has a metric that can be narrowed.
SEEN_BY_ANY = SignalSpec.model_validate(
    {
        **EXPORTER.model_dump(mode="json", by_alias=True, exclude_none=True),
        "sources": [
            *EXPORTER.model_dump(mode="json", by_alias=True, exclude_none=True)["sources"],
            {"exporter": "agent", "metrics": ["agent_up"], "node": {"first": ["host", "instance"], "means": "address"}},
        ],
    }
)
LOST = {"absent": True, "for": "5m", "within": "30m"}
# Whom only the agent shows, by the address that was scraped; by-two-labels is said by the label that goes first.
ADDRESSES = {
    "seen-by-the-agent": "10.5.0.1",
    "too-lately": "10.5.0.2",
    "by-a-long-address": "fd00::3",
    "not-by-this-label": "10.5.0.4",
    "by-two-labels": "10.5.0.5",
}
HOSTS = ("blind-since-long", "blind-lately", "seen-once-lately")


def law() -> Rules:
    policies = (
        policy(
            "lost",
            signal="gpu.both",
            trigger=LOST,
            grace={"driver": "10m"},
            recovery={"for": "5m", "load": {"signal": "gpu.tensor", "above": 0.1}},
        ),
        policy("blind", signal="node.exporter", trigger={"absent": True, "for": "5m"}, recovery=None),
        policy(
            "unseen",
            signal="node.any",
            trigger={"absent": True, "for": "5m"},
            recovery={"for": "10m", "load": {"signal": "node.any", "above": 0.5}},
        ),
    )
    pools = [
        {"name": "declared", "nodeSelector": {"gpu": "yes", "declared": "8"}, "expected": {"gpus": 8}},
        {"name": "gpu", "nodeSelector": {"gpu": "yes"}},
    ]
    made = rules(*policies, pools=pools, matchers={"cluster": "a"})
    return replace(made, signals={**SIGNALS, "gpu.both": BOTH, "node.exporter": EXPORTER, "node.any": SEEN_BY_ANY})


# name → (the GPUs' temperatures: text → how many, how many are found by name, and whether the node is found instead)
CASES: dict[str, tuple[dict[str, int], int, bool]] = {
    "lost-one": ({"60x160": 7, "60x130 stale _x29": 1}, 1, False),
    "lost-two": ({"60x160": 6, "60x130 stale _x29": 2}, 2, False),
    "lost-lately": ({"60x160": 7, "60x145 stale _x14": 1}, 0, False),
    "lost-too-long-ago": ({"60x160": 7, "60x30 stale _x129": 1}, 0, False),
    "leaves-nonsense": ({"60x160": 7, "60x130 9223372036854775794x29": 1}, 1, False),
    "comes-and-goes": ({"60x160": 7, "60x130 stale _x10 60 stale _x16": 1}, 0, False),
    "exporter-died": ({"60x130 stale _x29": 8}, 0, False),
    "all-gone-then-one-less": ({"60x100 stale _x30 60x28": 7, "60x100 stale _x59": 1}, 1, False),
    "restarted-just-now": ({"60x100 stale _x50 60x8": 7, "60x100 stale _x59": 1}, 0, False),
    "gap-for-all": ({"60x100 _x10 60x49": 8}, 0, False),
    "swapped": ({"60x80 stale _x79": 8, "_x100 60x60": 8}, 0, False),
    "swapped-and-one-less": ({"60x80 stale _x79": 8, "_x100 60x60": 7}, 0, True),
    "frozen": ({"60x160": 7, "60x130 stale _x29": 1}, 0, False),
    "driver-reloaded": ({"60x120 _x8 60x31": 7, "60x120 stale _x39": 1}, 0, False),
    "seen-by-another": ({"60x160": 7, "60x130 stale _x29": 1}, 0, False),
    "another-exporter-lost-it-too": ({"60x160": 7, "60x130 stale _x29": 1}, 1, False),
    "never-there": ({"60x160": 7}, 0, False),
    "never-there-but-declared": ({"60x160": 7}, 0, True),
    "never-there-but-allocatable": ({"60x160": 7}, 0, True),
    "more-than-declared-before": ({"60x160": 8, "60x130 stale _x29": 1}, 0, False),
    "declared-and-just-up": ({"_x150 60x10": 7}, 0, False),
    "declared-and-lost-before-the-exporter": ({"60x137 stale _x22": 1, "60x144 stale _x15": 7}, 0, False),
    "declared-and-frozen": ({"60x160": 7}, 0, False),
    "declared-and-driver-reloaded": ({"60x160": 7}, 0, False),
    "declared-and-nonsense-lately": ({"60x160": 7, "60x150 9223372036854775794x9": 1}, 0, False),
    "declared-and-nonsense-for-long": ({"60x160": 7, "0x160": 1}, 0, True),
    "one-is-all": ({"60x130 stale _x29": 1}, 0, False),
}
ENERGY = {
    "declared-and-frozen": "0+5000x120 700000x39",
    "declared-and-driver-reloaded": "500000+5000x128 0+5000x31",
    "frozen": "0+5000x120 700000x39",
    "driver-reloaded": "500000+5000x120 _x8 0+5000x31",
}


def gpu(metric: str, name: str, text: str, number: int, **more: str) -> Series:
    return ending(metric, {"Hostname": name, "UUID": f"GPU-{name}-{number}", "gpu": str(number), **more}, text)


def history() -> Iterator[Series]:
    for name, (gpus, _, _) in CASES.items():
        texts = [text for text, count in gpus.items() for _ in range(count)]
        for number, text in enumerate(texts):
            # A job that changes is another series of the same device.
            yield gpu(TEMP, name, text, number, pod=f"job-{number}")
            yield gpu(BEAT, name, ENERGY.get(name, "0+5000x160"), number)
    for name in ("seen-by-another", "another-exporter-lost-it-too"):
        for number in range(8):
            gone = name == "another-exporter-lost-it-too" and number == 7
            labels = {"node": name, "uuid": f"GPU-{name}-{number}"}
            yield ending(GPUD, labels, "60x130 stale _x29" if gone else "60x160")
    # A label of the exporter was renamed: all devices have another group, and none is lost.
    for number in range(8):
        labels = {"Hostname": "renamed", "gpu": str(number)}
        yield ending(TEMP, {**labels, "UUID": f"GPU-renamed-{number}"}, "60x130 stale _x29")
        yield ending(TEMP, {**labels, "uuid": f"GPU-renamed-{number}"}, "60x29")
        yield ending(BEAT, {**labels, "uuid": f"GPU-renamed-{number}"}, "0+5000x160")
    for number in range(8):
        labels = {"Hostname": "renamed-and-lost", "gpu": str(number)}
        yield ending(TEMP, {**labels, "UUID": f"GPU-renamed-and-lost-{number}"}, "60x100 stale _x59")
        if number < 7:
            yield ending(TEMP, {**labels, "uuid": f"GPU-renamed-and-lost-{number}"}, "60x59")
        yield ending(BEAT, {**labels, "uuid": f"GPU-renamed-and-lost-{number}"}, "0+5000x160")
    yield gpu(TEMP, "blind-since-long", "60x100 stale _x59", 0)
    yield gpu(TEMP, "blind-lately", "60x155 stale _x4", 0)
    yield gpu(TEMP, "seen-once-lately", "60x100 stale _x50 60 stale _x7", 0)
    for number in range(8):  # back for five minutes, under load
        yield gpu(TEMP, "back", "60x50 stale _x70 60x38" if number == 7 else "60x160", number)
        yield gpu(BEAT, "back", "0+5000x160", number)
        yield gpu(TENSOR, "back", "0.6x160", number)
    for number in range(8):  # all are back, and one of them does nothing
        yield gpu(TEMP, "back-and-idle", "60x160", number)
        yield gpu(BEAT, "back-and-idle", "0+5000x160", number)
        yield gpu(TENSOR, "back-and-idle", "0x160" if number == 3 else "0.6x160", number)
    # A scrape by another port names the same host, and a pod's restart is another series of it.
    yield ending("agent_up", {"instance": "10.5.0.1:9100", "pod": "a"}, "1x100 stale _x59")
    yield ending("agent_up", {"instance": "10.5.0.1:9100", "pod": "b"}, "1x62")
    yield ending("agent_up", {"instance": "10.5.0.1:9400"}, "1x160")
    yield ending("agent_up", {"instance": "10.5.0.2:9100"}, "1x30")
    yield ending("agent_up", {"instance": "[fd00::3]:9100"}, "1x160")
    yield ending("agent_up", {"host": "10.5.0.5", "instance": "10.5.0.4:9100"}, "1x160")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with PrometheusServer() as server:
        write(server.url, history())
        with PrometheusMetrics(PrometheusSettings(url=server.url)) as metrics:
            others = ("renamed", "renamed-and-lost", "back", "back-and-idle", "down", "never-seen")
            nodes = {name: node(name) for name in (*CASES, *HOSTS, *others)}
            declared = [name for name in CASES if "declared" in name]
            for name in (*declared, "lost-two"):
                nodes[name] = node(name, labels={"gpu": "yes", "declared": "8"})
            nodes["never-there-but-allocatable"] = node("never-there-but-allocatable", gpus=8)
            nodes["down"] = node("down", ready=False)
            nodes["no-pool"] = node("no-pool", labels={})
            yield Scene(metrics, server.url, law(), nodes)


def test_lost_gpus_are_named_where_they_can_be(scene: Scene) -> None:
    found = scene.judgement("lost")
    assert found.failed is None
    by_node: dict[str, list[str]] = {}
    for offence in found.bad:
        by_node.setdefault(offence.node.name, []).append(offence.device.name)
    named = {name: [f"GPU-{name}-{n}" for n in range(8 - count, 8)] for name, (_, count, _) in CASES.items() if count}
    nameless = {name: [""] for name, (_, _, whole) in CASES.items() if whole}
    named["renamed-and-lost"] = ["GPU-renamed-and-lost-7"]
    assert {name: sorted(devices) for name, devices in by_node.items()} == named | nameless


def test_the_evidence_says_how_many_are_expected_and_seen(scene: Scene) -> None:
    found = scene.judgement("lost")
    one = next(o for o in found.bad if o.node.name == "lost-one")
    assert one.evidence.value is None
    assert one.evidence.threshold == "absent for 5m (8 expected, 7 seen)"
    assert one.evidence.labels["gpu"] == "7", "the labels that it had"
    assert saw(one.policy, one.device, "lost-one", one.evidence) == (
        "GPU 7 (GPU-lost-one-7) on lost-one is absent for 5m (8 expected, 7 seen)"
    )
    whole = next(o for o in found.bad if o.node.name == "never-there-but-declared")
    assert whole.device == Device(DeviceKind.NODE, "")
    assert saw(whole.policy, whole.device, "n", whole.evidence) == (
        "7 of the 8 GPUs of never-there-but-declared are seen: absent for 5m (8 expected, 7 seen)"
    )
    assert "count by" in whole.evidence.query


def test_what_is_seen_again_under_load_is_good(scene: Scene) -> None:
    labels = {"Hostname": "back", "hostname": "", "UUID": "GPU-back-7", "uuid": ""}
    device = Device(DeviceKind.GPU, "GPU-back-7")
    cases = [suspected("lost", "back", device, f"dcgm-exporter/{TEMP}", labels)]
    found = replace(scene, suspects=cases).judgement("lost")
    assert set(found.good) == {("back", device)}
    assert not replace(scene, suspects=cases).judgement("lost", NOW - timedelta(minutes=6)).good


def missed(policy: str, *names: str) -> list[Case]:
    """Cases of nodes that were found to show too little: no series says so."""
    return [suspected(policy, name, Device(DeviceKind.NODE, ""), f"dcgm-exporter/{TEMP}", {}) for name in names]


def test_a_node_is_good_again_when_any_exporter_shows_it_by_any_name(scene: Scene) -> None:
    cases = missed("unseen", *ADDRESSES, "back", "blind-lately")
    known = {**scene.nodes, **{name: node(name, addresses=(address,)) for name, address in ADDRESSES.items()}}
    scene = replace(scene, nodes=known)
    found = replace(scene, suspects=cases).judgement("unseen")
    assert found.failed is None
    good = {name for name, device in found.good if device == Device(DeviceKind.NODE, "")}
    assert good == {"seen-by-the-agent", "by-a-long-address", "by-two-labels", "back"}
    assert not scene.judgement("unseen").good, "nobody waits for them"
    one = replace(scene, suspects=cases[:1]).judgement("unseen").good["seen-by-the-agent", cases[0].findings[0].device]
    assert one.value is None
    assert one.labels["instance"] == "10.5.0.1"
    assert "10\\\\.5\\\\.0\\\\.1" in one.query


def test_a_node_that_lacked_some_is_good_when_all_that_are_declared_are_back_and_work(scene: Scene) -> None:
    declared = node("back", labels={"gpu": "yes", "declared": "8"})
    nodes = {**scene.nodes, "back": declared, "back-and-idle": replace(declared, name="back-and-idle")}
    of = replace(scene, suspects=missed("lost", "back", "back-and-idle"), nodes=nodes)
    found = of.judgement("lost")
    assert set(found.good) == {("back", Device(DeviceKind.NODE, ""))}
    assert not of.judgement("lost", NOW - timedelta(minutes=6)).good, "one is not back for long enough"
    assert not replace(of, nodes=scene.nodes).judgement("lost").good, "the node's own word may shrink with the loss"


def test_no_moment_after_an_exporters_restart_names_what_is_there(scene: Scene) -> None:
    never = {"gap-for-all", "swapped", "renamed", "exporter-died", "one-is-all"}
    never |= {"declared-and-lost-before-the-exporter"}
    for seconds in range(-900, 120, 30):
        found = scene.judgement("lost", NOW + timedelta(seconds=seconds))
        names = {offence.node.name for offence in found.bad}
        assert not names & never, seconds


def test_more_that_is_gone_than_hardware_loses_is_unknown(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.observe.policies.ASKED_TOGETHER", 5)
    found = scene.judgement("lost")
    assert found.failed is not None
    assert "gone at once from nodes that still show others" in found.failed.detail
    names = {(o.node.name, o.device.name) for o in found.bad}
    assert ("never-there-but-declared", "") in names, "what is expected is still compared"
    assert not any(name == "lost-one" for name, _ in names)


def test_a_node_that_shows_nothing_while_others_do_is_blind(scene: Scene) -> None:
    found = scene.judgement("blind")
    silent = {name for name, (gpus, _, _) in CASES.items() if all(t.endswith("_x29") for t in gpus)}
    assert {o.node.name for o in found.bad} == silent | {"blind-since-long", "never-seen"}
    assert found.covered == len(scene.nodes) - 2, "not the one that is down, nor the one in no pool"
    one = next(o for o in found.bad if o.node.name == "never-seen")
    assert saw(one.policy, one.device, "never-seen", one.evidence).startswith(
        "never-seen shows no node.exporter, while "
    )


def test_where_no_node_is_seen_none_is_blind(scene: Scene) -> None:
    found = scene.judgement("blind", NOW + timedelta(hours=2))
    assert not found.bad
    assert found.covered == 0


@pytest.mark.parametrize("of", ["lost-one", "comes-and-goes", "swapped-and-one-less", "all-gone-then-one-less"])
def test_a_range_is_the_instant_at_each_step(scene: Scene, of: str) -> None:
    labels = {"Hostname": of, "hostname": "", "UUID": f"GPU-{of}-7", "uuid": ""}
    assert scene.range_equals_instant("lost", [labels], timedelta(minutes=8), timedelta(minutes=3)) > 10
    assert scene.range_equals_instant("blind", [], timedelta(minutes=2), timedelta(minutes=1)) > 10


def test_so_it_is_of_nodes_that_are_good_again(scene: Scene) -> None:
    named = [{"instance": address} for address in ("10.5.0.1", "fd00::3")]
    assert scene.range_equals_instant("unseen", named, timedelta(minutes=3), timedelta(minutes=3)) > 10
    assert scene.range_equals_instant("lost", [{"Hostname": "back"}], timedelta(minutes=3), timedelta(minutes=3)) > 10


SEEN = {
    "lost-lately": "saw 8 GPUs of lost-lately within 5m, of 8 GPUs within 30m",
    "lost-one": "saw 7 GPUs of lost-one within 5m, of 8 GPUs within 30m: that is bad, unless",
    "never-there": "saw 7 GPUs of never-there within 5m, and never more within 30m",
    "never-there-but-declared": "policy lost expects 8 of them",
    "blind-lately": "of blind-lately within 5m: it is not absent",
    "blind-since-long": "no sample of blind-since-long within 5m: that is absent, if",
}


@pytest.mark.parametrize("name", sorted(SEEN))
def test_why_nothing_was_done_is_told(scene: Scene, name: str) -> None:
    told = what_is_seen(scene.metrics, scene.law, scene.nodes[name], at=NOW, timeout=timedelta(seconds=10))
    assert any(SEEN[name] in sentence for sentence in told), told
