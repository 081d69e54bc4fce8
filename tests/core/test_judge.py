"""Answers → verdicts: which are bad, which are good, and when nothing can be said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.absence import stock
from quarantine.core.decision import Action, Kind
from quarantine.core.explain import story
from quarantine.core.identity import Directory, Unmatched
from quarantine.core.judge import Judgement, judge
from quarantine.core.model import Answer, Device, DeviceKind, Node, PolicyAnswers, Sample, Samples
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import NODE_PART
from quarantine.core.reasons import saw
from quarantine.core.signal import NodeLabel, SignalSpec
from tests.core.world import (
    FAILED,
    GPU_TEMPERATURE,
    NOW,
    SIGNALS,
    TEMP,
    answers,
    fleet,
    hot,
    node,
    policy,
    rules,
    seen,
    snapshot,
)

GPUD = "gpud/accelerator_nvidia_temperature_current_celsius"
WRITTEN = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
BOTH = SignalSpec.model_validate(
    {
        **WRITTEN,
        "sources": [
            {**WRITTEN["sources"][0], "model": "modelName"},
            {
                "exporter": "gpud",
                "metrics": [GPUD.partition("/")[2]],
                "node": {"first": ["node"]},
                "device": {"first": ["uuid"]},
            },
        ],
    }
)
UPTIME = SignalSpec.model_validate(
    {
        "description": "uptime",
        "unit": "s",
        "device": "node",
        "type": "gauge",
        "plausible": {"min": 0, "max": 1e9},
        "interval": "30s",
        "sources": [{"exporter": "node-exporter", "metrics": ["up_seconds"], "node": {"first": ["node"]}}],
    }
)
UP = "node-exporter/up_seconds"
LOST = policy("lost", trigger={"absent": True, "for": "5m"}, recovery=None)
BLIND = policy("blind", signal="node.uptime", trigger={"absent": True, "for": "5m"}, recovery=None)


def ruled(*policies: LoadedPolicy, pools: list[dict[str, object]] | None = None) -> Rules:
    made = rules(*policies, pools=pools or (), uptime="node.uptime")
    return replace(made, signals={**SIGNALS, "gpu.temperature": BOTH, "node.uptime": UPTIME})


def verdict(
    law: Rules, said: PolicyAnswers, nodes: Mapping[str, Node] | None = None, up: Mapping[str, Answer] | None = None
) -> Judgement:
    return judge(law.policies[0], said, law, Directory.of(nodes or fleet()), up)


# --- Models, other exporters, grace -----------------------------------------------------------------------------------


def test_the_threshold_in_the_record_is_that_of_the_devices_model() -> None:
    law = ruled(policy(trigger={"above": 78, "for": "5m", "models": [{"model": "NVIDIA H200*", "above": 85}]}))
    one, other = hot("node-3"), hot("node-4")
    one = replace(one, labels={**one.labels, "modelName": "NVIDIA H200 NVL"})
    found = verdict(law, answers(fleet(), one, other))
    assert [o.evidence.threshold.split(" for")[0] for o in found.bad] == ["above 85 °C", "above 78 °C"]


def test_what_other_exporters_say_is_in_the_evidence_and_in_the_story() -> None:
    law = ruled(policy())
    says = Sample({"node": "node-3", "uuid": "GPU-node-3-3"}, 61.0, NOW)
    said = replace(answers(fleet(), hot("node-3")), others={GPUD: Samples((says,), "q"), TEMP: Samples((), "q")})
    (offence,) = verdict(law, said).bad
    assert offence.evidence.others == {GPUD: 61}
    assert saw(law.policies[0], offence.device, "node-3", offence.evidence).endswith("and gpud reads 61 °C for it")
    made = plan(snapshot(given={"gpu-hot": said}), law)
    told = [line for sentence in story(enumerate(made.decisions)) for line in sentence.evidence]
    assert "gpud reads 61 °C for it" in told


def test_another_exporter_that_fails_takes_nothing_away() -> None:
    said = replace(answers(fleet(), hot("node-3")), others={GPUD: FAILED})
    assert [o.node.name for o in verdict(ruled(policy()), said).bad] == ["node-3"]


def booted(*names: str, seconds: float = 60, untold: str = "") -> dict[str, Answer]:
    """These lately, all others long ago, except one of which nothing is told."""
    up = {**dict.fromkeys(fleet(), 900.0), **dict.fromkeys(names, seconds)}
    return {UP: Samples(tuple(Sample({"node": n}, value, NOW) for n, value in up.items() if n != untold), "up")}


def test_what_is_found_on_a_node_that_booted_lately_is_in_grace() -> None:
    law = ruled(policy(grace={"boot": "10m"}))
    found = verdict(law, answers(fleet(), hot("node-3"), hot("node-4")), up=booted("node-3"))
    assert [o.node.name for o in found.bad] == ["node-4"]
    assert [o.node.name for o in found.in_grace] == ["node-3"]


def test_another_policys_longer_grace_is_not_its_own() -> None:
    law = ruled(policy(grace={"boot": "1m"}))
    found = verdict(law, answers(fleet(), hot("node-3")), up=booted("node-3", seconds=60))
    assert [o.node.name for o in found.bad] == ["node-3"]


def test_a_node_of_which_no_uptime_is_told_may_have_booted_just_now() -> None:
    law = ruled(policy(grace={"boot": "10m"}))
    found = verdict(law, answers(fleet(), hot("node-3"), hot("node-4")), up=booted(untold="node-3"))
    assert [o.node.name for o in found.bad] == ["node-4"]
    assert [(o.node.name, o.uptime_told) for o in found.in_grace] == [("node-3", False)]
    for nothing in (None, {}, {UP: Samples((), "up")}):
        found = verdict(law, answers(fleet(), hot("node-3"), hot("node-4")), up=nothing)
        assert not found.bad
        assert [o.node.name for o in found.in_grace] == ["node-3", "node-4"]
        assert found.failed is None


def test_where_it_cannot_be_told_how_long_nodes_are_up_nothing_is_found() -> None:
    law = ruled(policy(grace={"boot": "10m"}))
    found = verdict(law, answers(fleet(), hot("node-3")), up={UP: FAILED})
    assert not found.bad
    assert not found.in_grace
    assert found.failed == FAILED
    assert verdict(ruled(policy()), answers(fleet(), hot("node-3")), up={UP: FAILED}).bad


# --- Absence ----------------------------------------------------------------------------------------------------------


def gone(name: str, gpu: int, lacks: float = 1) -> Sample:
    return Sample({"Hostname": name, "UUID": f"GPU-{name}-{gpu}"}, lacks, NOW, query="bad(absent)")


def lacking(**counts: int) -> Samples:
    """How many each of some nodes shows; the others show eight."""
    nodes = fleet()
    told = {f"node-{name[1:]}": count for name, count in counts.items()}
    return Samples(tuple(Sample({"Hostname": n}, float(told.get(n, 8)), NOW) for n in nodes if told.get(n, 8)), "cover")


def pool(**expected: int) -> list[dict[str, object]]:
    return [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "expected": expected}]


def found_absent(said: PolicyAnswers, law: Rules | None = None, nodes: Mapping[str, Node] | None = None) -> list[str]:
    found = verdict(law or ruled(LOST), said, nodes)
    assert found.failed is None
    return [f"{o.node.name} {o.device.name or 'itself'}: {o.evidence.threshold}" for o in found.bad]


def test_a_lost_device_is_named_with_the_numbers() -> None:
    said = answers(fleet(), gone("node-3", 7), coverage=lacking(n3=7))
    assert found_absent(said) == ["node-3 GPU-node-3-7: absent for 5m (8 expected, 7 seen)"]
    assert verdict(ruled(LOST), said).bad[0].evidence.value is None
    assert verdict(ruled(LOST), said).covered == 159


def test_where_all_that_are_declared_are_seen_nothing_is_missing() -> None:
    said = answers(fleet(), gone("node-3", 7), coverage=lacking(n3=7))
    assert not found_absent(said, ruled(LOST, pools=pool(gpus=7)))
    # What the node itself says may have shrunk with the loss.
    assert found_absent(said, nodes={**fleet(), "node-3": node("node-3", gpus=7)})


def test_what_is_declared_and_not_seen_is_missing_though_nothing_is_remembered_of_it() -> None:
    said = answers(fleet(), coverage=lacking(n3=7))
    wanted = ["node-3 itself: absent for 5m (8 expected, 7 seen)"]
    assert found_absent(said, ruled(LOST, pools=pool(gpus=8))) == wanted
    assert found_absent(said, nodes={**fleet(), "node-3": node("node-3", gpus=8)}) == wanted
    assert not found_absent(said)


def test_a_node_that_shows_nothing_lacks_nothing() -> None:
    said = answers(fleet(), coverage=lacking(n3=0))
    assert not found_absent(said, ruled(LOST, pools=pool(gpus=8)))


@pytest.mark.parametrize("count", [float("nan"), float("inf"), -3.0])
def test_a_count_that_is_none_leaves_unknown_what_is_seen(count: float) -> None:
    garbage = Samples((*lacking(n3=0).samples, Sample({"Hostname": "node-3"}, count, NOW)), "cover")
    for law in (ruled(LOST), ruled(LOST, pools=pool(gpus=8))):
        said = answers(fleet(), gone("node-3", 7), coverage=garbage)
        assert verdict(law, said).covered is None
        acted = plan(snapshot(given={law.policies[0].name: said}), law).decisions
        assert not [d for d in acted if d.action is Action.QUARANTINE and d.kind is Kind.DECIDED]
    foreign = Samples((*lacking().samples, Sample({"Hostname": "stranger-1"}, count, NOW)), "cover")
    assert verdict(ruled(LOST), answers(fleet(), coverage=foreign)).covered == 160
    assert verdict(ruled(LOST), answers(fleet(), gone("node-3", 7, lacks=count), coverage=lacking(n3=7))).failed is None


def test_more_names_than_devices_are_gone_after_a_swap() -> None:
    eight = [gone("node-3", n, lacks=1) for n in range(9)]
    said = answers(fleet(), *eight, coverage=lacking(n3=7))
    assert found_absent(said) == ["node-3 itself: absent for 5m (8 expected, 7 seen)"]


def test_what_another_exporter_sees_is_there() -> None:
    there = Sample({"node": "node-3", "uuid": "GPU-node-3-7"}, 60.0, NOW)
    said = replace(answers(fleet(), gone("node-3", 7), coverage=lacking(n3=7)), others={GPUD: Samples((there,), "q")})
    assert not found_absent(said)
    blind = replace(said, others={GPUD: FAILED})
    assert verdict(ruled(LOST), blind).failed == FAILED
    assert not verdict(ruled(LOST), blind).bad


def test_what_another_exporter_counts_is_there_whatever_it_calls_it() -> None:
    def seeing(count: float) -> PolicyAnswers:
        said = answers(fleet(), gone("node-3", 7), coverage=lacking(n3=7))
        other = Samples((Sample({"node": "node-3"}, count, NOW),), "cover")
        return replace(said, coverage={**said.coverage, GPUD: other}, others={GPUD: Samples((), "q")})

    assert not found_absent(seeing(8))
    assert found_absent(seeing(7)) == ["node-3 GPU-node-3-7: absent for 5m (8 expected, 7 seen)"]
    # The node's own word may have shrunk with the loss, and may tell of one that nobody has seen.
    assert found_absent(seeing(7), nodes={**fleet(), "node-3": node("node-3", gpus=7)})
    assert found_absent(seeing(8), nodes={**fleet(), "node-3": node("node-3", gpus=9)})
    assert not found_absent(seeing(8), nodes={**fleet(), "node-3": node("node-3", gpus=8)})


def test_a_capacity_of_shares_makes_no_node_lack_devices() -> None:
    nodes = {**fleet(), "node-3": node("node-3", gpus=32), "node-4": node("node-4", gpus=15)}
    assert found_absent(answers(fleet(), coverage=lacking()), nodes=nodes) == [
        "node-4 itself: absent for 5m (15 expected, 8 seen)"
    ]
    # What people declare is no count of shares, and what is remembered is gone.
    assert found_absent(answers(fleet(), coverage=lacking(n3=4)), ruled(LOST, pools=pool(gpus=8)))
    lost = answers(fleet(), gone("node-3", 7), coverage=lacking(n3=7))
    assert found_absent(lost, nodes={**fleet(), "node-3": node("node-3", gpus=14)})


def test_without_coverage_nothing_is_absent() -> None:
    for policy_ in (LOST, BLIND):
        said = PolicyAnswers({TEMP: Samples((gone("node-3", 7),), "q")}, {}, {TEMP: FAILED, UP: FAILED}, NOW)
        found = verdict(ruled(policy_, pools=pool(gpus=8)), said)
        assert not found.bad
        assert found.failed == FAILED


def good_again(sample: Sample, law: Rules, nodes: Mapping[str, Node] | None = None) -> list[tuple[str, str]]:
    said = replace(answers(fleet(), coverage=lacking()), recovery={TEMP: Samples((sample,), "good")})
    return [(name, device.name) for name, device in verdict(law, said, nodes).good]


def test_a_node_is_good_again_when_it_shows_all_that_are_declared() -> None:
    law = ruled(LOST, pools=pool(gpus=8))
    assert good_again(Sample({"Hostname": "node-3"}, 8.0, NOW), law) == [("node-3", "")]
    assert good_again(Sample({"Hostname": "node-3"}, 7.0, NOW), law) == []
    own = {**fleet(), "node-3": node("node-3", gpus=7)}
    assert good_again(Sample({"Hostname": "node-3"}, 7.0, NOW), ruled(LOST), own) == [], "its own word may have shrunk"
    assert good_again(gone("node-3", 7), law) == [("node-3", "GPU-node-3-7")], "a device is good by itself"
    hot_again = Sample({"Hostname": "node-3"}, 60.0, NOW)
    assert good_again(hot_again, ruled(policy(), pools=pool(gpus=8))) == [], "only what was absent is counted"


def blind(nodes: Mapping[str, Node], *silent: str) -> Judgement:
    said = Samples(tuple(Sample({"node": n}, 1.0, NOW) for n in nodes if n not in silent), "count")
    return verdict(ruled(BLIND), PolicyAnswers({UP: Samples((), "q")}, {}, {UP: said}, NOW), nodes)


def test_a_node_without_a_signal_that_others_have_is_blind() -> None:
    nodes = fleet(5)
    found = blind(nodes, "node-3")
    assert [(o.node.name, o.device) for o in found.bad] == [("node-3", Device(DeviceKind.NODE, ""))]
    assert found.covered == 5
    evidence = found.bad[0].evidence
    assert (evidence.value, evidence.query, evidence.labels) == (None, "count", {"node": "node-3"})
    assert saw(BLIND, found.bad[0].device, "node-3", evidence) == (
        "node-3 shows no node.uptime, while 4 other nodes do: absent for 5m"
    )


def test_a_node_that_is_down_or_in_no_pool_is_not_blind() -> None:
    nodes = fleet(5)
    nodes["node-1"] = node("node-1", ready=False)
    nodes["node-2"] = node("node-2", ready=None)
    nodes["node-3"] = node("node-3", labels={})
    found = blind(nodes, "node-1", "node-2", "node-3")
    assert not found.bad
    assert found.covered == 2


def test_a_signal_that_no_node_has_makes_none_blind() -> None:
    nodes = fleet(3)
    found = blind(nodes, *nodes)
    assert not found.bad
    assert not found.covered


def test_a_blind_node_that_booted_lately_is_in_grace() -> None:
    law = ruled(policy("blind", signal="node.uptime", trigger={"absent": True, "for": "5m"}, grace={"boot": "10m"}))
    nodes = fleet(3)
    said = Samples((Sample({"node": "node-0"}, 1.0, NOW),), "count")
    found = verdict(law, PolicyAnswers({}, {}, {UP: said}, NOW), nodes, booted("node-1"))
    assert [o.node.name for o in found.bad] == ["node-2"]
    assert [o.node.name for o in found.in_grace] == ["node-1"]


counts = st.integers(0, 16) | st.none()


@given(seen_=counts, capacity=counts, declared=st.integers(1, 16) | st.none(), lacks=st.integers(0, 8))
def test_nothing_is_missing_of_what_is_all_seen(
    seen_: int | None, capacity: int | None, declared: int | None, lacks: int
) -> None:
    law = ruled(LOST, pools=pool(**({} if declared is None else {"gpus": declared})))
    own = node("n", gpus=capacity)
    told = stock(own, DeviceKind.GPU, law.fleet.pools[0], seen_, lacks, 0)
    expected = declared if declared is not None else capacity
    short = expected is not None and seen_ is not None and 0 < seen_ < expected
    shares = declared is None and bool(capacity and seen_) and (capacity or 0) % (seen_ or 1) == 0
    assert told.nameless == (short and not shares)
    assert told.complete == (declared is not None and seen_ is not None and seen_ >= declared)
    assert not (told.complete and told.nameless)


# --- Names ------------------------------------------------------------------------------------------------------------


def test_a_part_of_a_label_may_be_the_nodes_name() -> None:
    nodes = {"node-7": node("node-7"), "node-8": node("node-8", addresses=("10.0.0.8",))}
    directory = Directory.of(nodes)
    name = NodeLabel(first=("hca",), part="([^ ]+) .*")
    assert directory.node(name, {"hca": "node-7 mlx5_0", NODE_PART: "node-7"}) == nodes["node-7"]
    assert directory.node(name, {"hca": "node-7"}) == Unmatched("node-7", "no-such-node"), "no part was taken"
    gone = {"hca": "node-9 mlx5_0", NODE_PART: "node-9"}
    assert directory.node(name, gone) == Unmatched("node-9 mlx5_0", "no-such-node")
    address = NodeLabel(first=("target",), means="address", part="https?://(.*)/metrics")
    assert directory.node(address, {NODE_PART: "10.0.0.8:9400"}) == nodes["node-8"]


def test_a_label_called_like_the_part_means_nothing_where_there_is_none() -> None:
    directory = Directory.of({"node-7": node("node-7")})
    plain = NodeLabel(first=("Hostname",))
    assert directory.node(plain, {"Hostname": "", "quarantine_node": "node-7"}) == Unmatched("", "unnamed")


def test_coverage_counts_each_node_once() -> None:
    nodes = fleet(4)
    assert verdict(ruled(policy()), answers(nodes, coverage=seen(nodes)), nodes).covered == 32
