"""Policies held against a real Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quarantine.adapters.policyfiles.promqlcheck import selectors
from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.errors import Unavailable
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.signal import SignalSpec
from quarantine.livecheck import Live, Moment, Remark, hold_against
from tests.core.world import node, policy
from tests.livecheck.conftest import NOW

DCGM: Mapping[str, Any] = {
    "exporter": "dcgm-exporter",
    "metrics": ["DCGM_TEMP"],
    "node": {"first": ["Hostname"]},
    "device": {"first": ["UUID"]},
    "heartbeat": "DCGM_ENERGY",
}


def signal(*sources: Mapping[str, Any], **changes: Any) -> SignalSpec:
    spec: dict[str, Any] = {
        "description": "d",
        "unit": "x",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 0, "max": 130},
        "interval": "30s",
        "sources": list(sources) or [DCGM],
        **changes,
    }
    return SignalSpec.model_validate(spec)


TENSOR = signal({**DCGM, "metrics": ["DCGM_TENSOR"]})


def held(
    metrics: PrometheusMetrics,
    judged: SignalSpec,
    *,
    load: SignalSpec = TENSOR,
    nodes: Mapping[str, Node] | None = None,
    others: Mapping[str, tuple[LoadedPolicy, SignalSpec]] | None = None,
    pool: Mapping[str, str] | None = None,
    later: timedelta = timedelta(0),
    **changes: Any,
) -> Live:
    own = policy("hot", **changes)
    extra = others or {}
    rules = Rules(
        policies=(own, *(p for p, _ in extra.values())),
        signals={"gpu.temperature": judged, "gpu.tensor": load, **{name: s for name, (_, s) in extra.items()}},
        fleet=FleetSpec.model_validate({"pools": [{"name": "gpu", "nodeSelector": pool or {"gpu": "yes"}}]}),
    )
    return hold_against(metrics, rules, Moment(NOW + later), parse=selectors, nodes=nodes)


def faults(live: Live) -> list[Remark]:
    return [remark for remark in live.remarks if remark.severity == "fault"]


def notes(live: Live) -> list[Remark]:
    return [remark for remark in live.remarks if remark.severity == "note"]


def test_what_is_there_is_counted_and_no_fault(metrics: PrometheusMetrics) -> None:
    live = held(metrics, signal())
    assert faults(live) == []
    assert live.series == {"hot": 7}
    assert live.nodes_by is None


def test_a_metric_that_does_not_exist_is_a_fault_with_what_may_be_meant(metrics: PrometheusMetrics) -> None:
    source = {
        "exporter": "node-exporter",
        "metrics": ["node_infiniband_port_receive_errors_total"],
        "node": {"first": ["instance"], "means": "address"},
        "device": {"first": ["instance"]},
    }
    found = faults(held(metrics, signal(source, type="counter"), trigger={"events": 1, "within": "5m"}, recovery=None))
    assert len(found) == 1
    assert (found[0].kind, found[0].name, found[0].path) == ("Policy", "hot", ("spec", "signal"))
    assert "policy hot sees nothing" in found[0].sentence
    assert "there is no metric node_infiniband_port_receive_errors_total" in found[0].sentence
    assert found[0].hint == "did you mean node_infiniband_port_errors_received_total?"


def test_nothing_alike_is_not_suggested(metrics: PrometheusMetrics) -> None:
    found = faults(held(metrics, signal({**DCGM, "metrics": ["zebra"]})))
    assert "is its exporter scraped" in found[0].hint


@pytest.mark.parametrize(
    ("changes", "sentence", "hint"),
    [
        ({"match": {"cluster": "b"}}, 'DCGM_TEMP has 7 series, and none with cluster="b"', "cluster is 'a' there"),
        ({"device": {"first": ["uuid"]}}, 'none with uuid!=""', "its labels are Hostname, UUID, cluster"),
        (
            {"match": {"cluster": "a", "Hostname": "node-1", "UUID": "GPU-2-0"}},
            'none with cluster="a" and Hostname="node-1" and UUID="GPU-2-0"',
            "UUID is 'GPU-0-0', 'GPU-0-1',",
        ),
    ],
)
def test_the_matcher_that_leaves_nothing_is_named(
    metrics: PrometheusMetrics, changes: Mapping[str, Any], sentence: str, hint: str
) -> None:
    source = {k: v for k, v in DCGM.items() if k != "heartbeat"}
    found = faults(held(metrics, signal({**source, **changes})))
    assert sentence in found[0].sentence
    assert hint in found[0].hint


def test_a_heartbeat_that_is_not_there_makes_everything_unknown_so_it_is_a_fault(metrics: PrometheusMetrics) -> None:
    live = held(metrics, signal({**DCGM, "heartbeat": "DCGM_ENERGIE"}))
    assert live.series == {"hot": 0}
    assert "there is no metric DCGM_ENERGIE" in faults(live)[0].sentence
    assert faults(live)[0].hint == "did you mean DCGM_ENERGY?"


def test_an_exporter_that_is_not_in_use_is_told_once_beside_one_that_is(metrics: PrometheusMetrics) -> None:
    live = held(metrics, signal({**DCGM, "exporter": "gpud", "metrics": ["gpud_temp"], "heartbeat": None}, DCGM))
    assert faults(live) == []
    assert live.series == {"hot": 7}
    assert live.unused == ("gpud",)
    assert not any("gpud_temp" in n.sentence for n in notes(live))


def test_of_an_exporter_that_is_there_each_metric_that_is_not_is_a_note(metrics: PrometheusMetrics) -> None:
    live = held(metrics, signal({**DCGM, "metrics": ["DCGM_TEMP", "DCGM_GONE"]}))
    assert faults(live) == []
    note = next(n for n in notes(live) if "DCGM_GONE" in n.sentence)
    assert (note.kind, note.name, note.path) == ("Signal", "gpu.temperature", ("spec", "sources", 0))


def test_a_load_without_series_means_that_nothing_recovers(metrics: PrometheusMetrics) -> None:
    found = faults(held(metrics, signal(), load=signal({**DCGM, "metrics": ["DCGM_TENSER"]})))
    assert [f.path for f in found] == [("spec", "recovery", "load", "signal")]
    assert "policy hot finds nothing recovered" in found[0].sentence


def test_of_an_expression_not_every_selector_needs_a_series(metrics: PrometheusMetrics) -> None:
    source = {k: v for k, v in DCGM.items() if k not in {"metrics", "heartbeat"}}
    either = {**source, "expr": "last_over_time(DCGM_TEMP[1m]) or last_over_time(gone[1m])"}
    live = held(metrics, signal(either))
    assert faults(live) == []
    assert live.series == {"hot": 7}
    assert "a part of the expression has no series: there is no metric gone in this Prometheus" in [
        n.sentence for n in notes(live)
    ]
    none = {**source, "expr": 'last_over_time(DCGM_TEMP{cluster=~"b|c"}[1m])'}
    assert 'none with cluster=~"b|c"' in faults(held(metrics, signal(none)))[0].sentence
    no_value = {**source, "expr": "last_over_time(DCGM_TEMP[1m]) > 1000"}
    assert "the expression of dcgm-exporter/expr has no series" in faults(held(metrics, signal(no_value)))[0].sentence


def test_a_gate_that_is_shut_everywhere_is_a_fault(metrics: PrometheusMetrics) -> None:
    found = faults(held(metrics, signal({**DCGM, "gate": "last_over_time(collector_success[1m]) == 1"})))
    assert "there is no metric collector_success" in found[0].sentence


def test_values_that_come_more_rarely_than_the_signal_says_make_a_policy_unreachable(
    metrics: PrometheusMetrics,
) -> None:
    slow = {**DCGM, "metrics": ["DCGM_SLOW"]}
    found = faults(held(metrics, signal(slow)))
    assert {(f.kind, f.name, f.path) for f in found} == {("Signal", "gpu.temperature", ("spec", "interval"))}
    never = next(f for f in found if "never fires" in f.sentence)
    assert "has a value every 1m and not, as the signal says, every 30s" in never.sentence
    assert "a window of 5m holds 5 of 10 samples and 8 are wanted" in never.sentence
    assert never.hint == "write `interval: 1m`"
    assert any("never finds anything recovered" in f.sentence for f in found)
    assert faults(held(metrics, signal(slow, interval="1m"))) == []
    assert (
        faults(held(metrics, signal(slow), trigger={"above": 78, "for": "5m", "coverage": "40%"}, recovery=None)) == []
    )


@pytest.mark.parametrize("seconds", [0, 75, 120, 150, 180, 240])
def test_data_that_stopped_a_moment_ago_did_not_come_more_rarely(metrics: PrometheusMetrics, seconds: int) -> None:
    live = held(metrics, signal(), later=timedelta(seconds=seconds))
    assert not [remark.sentence for remark in live.remarks if "has a value every" in remark.sentence]


def test_nodes_of_the_pool_that_lack_the_signal_are_named(metrics: PrometheusMetrics) -> None:
    nodes = {name: node(name) for name in ("node-0", "node-1", "node-2", "node-3")}
    nodes["cpu-9"] = replace(node("cpu-9"), labels={})
    live = held(metrics, signal(), nodes=nodes)
    assert faults(live) == []
    said = [n.sentence for n in notes(live)]
    assert "1 of 4 nodes have no gpu.temperature now: node-3" in said
    assert "series of gpu.temperature name 1 nodes that do not exist: localhost" in said
    assert live.nodes_by == "the list that was given"


def test_a_policy_for_no_node_is_told(metrics: PrometheusMetrics) -> None:
    live = held(metrics, signal(), nodes={"node-0": node("node-0")}, nodeSelector={"zone": "b"})
    assert "policy hot is for no node that there is" in [n.sentence for n in notes(live)]


def test_kube_state_metrics_is_asked_where_no_list_is_given(metrics: PrometheusMetrics) -> None:
    live = held(metrics, signal(), pool={"nvidia.com/gpu.present": "true"})
    assert live.nodes_by == "kube-state-metrics"
    said = [n.sentence for n in notes(live)]
    assert "1 of 4 nodes have no gpu.temperature now: node-3" in said, "node-4 is in no pool"
    address = {"exporter": "node-exporter", "metrics": ["node_infiniband_port_errors_received_total"]}
    ports = signal({**address, "node": {"first": ["instance"], "means": "address"}, "device": {"first": ["instance"]}})
    live = held(metrics, ports, pool={"nvidia.com/gpu.present": "true"}, recovery=None)
    assert "3 of 4 nodes have no gpu.temperature now: node-0, node-2, node-3" in [n.sentence for n in notes(live)]


def test_without_any_list_nodes_are_compared_with_what_other_policies_see(metrics: PrometheusMetrics) -> None:
    other = policy("busy", signal="busy", trigger={"below": 0.1, "for": "5m"}, recovery=None)
    live = held(metrics, signal(), others={"busy": (other, TENSOR)})
    note = next(n for n in notes(live) if n.name == "hot")
    assert note.sentence == "1 of 5 nodes that other policies see have no gpu.temperature: node-3"
    assert "--nodes" in note.hint


def test_a_prometheus_that_does_not_answer_ends_the_check() -> None:
    with (
        PrometheusMetrics(PrometheusSettings("http://127.0.0.1:1")) as nobody,
        pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"),
    ):
        held(nobody, signal())
