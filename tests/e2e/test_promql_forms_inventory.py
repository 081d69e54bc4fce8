"""Which GPUs a machine has, on a real Prometheus: those that fell off the bus, and not those of the machine before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.case import Case, Phase
from quarantine.core.identity import Directory
from quarantine.core.model import Answer, Failed, FailureKind, Node, Samples
from quarantine.core.policy import Rules
from quarantine.core.promql.inventory import Look
from quarantine.core.signal import SignalSpec
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import SIGNALS, node, rules
from tests.e2e.forms import NOW, ending

TEMP, SMI = "DCGM_FI_DEV_GPU_TEMP", "nvidia_smi_temperature_gpu"
MINUTE = timedelta(minutes=1)
PLACE = {"first": ["Hostname", "hostname"]}
GPUS = SignalSpec.model_validate(
    {
        "description": "temperature",
        "unit": "°C",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 1, "max": 129},
        "interval": "30s",
        "sources": [
            {"exporter": "dcgm-exporter", "metrics": [TEMP], "node": PLACE, "device": {"first": ["UUID", "uuid"]}},
            {
                "exporter": "nvidia-smi",
                "metrics": [SMI],
                "node": {"first": ["instance"], "means": "address"},
                "device": {"first": ["uuid"]},
            },
        ],
    }
)
BY_EXPR = SignalSpec.model_validate(
    {
        **GPUS.model_dump(mode="json", by_alias=True, exclude={"sources"}),
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "expr": f"last_over_time({TEMP}{{cluster='a'}}[1m])",
                "node": PLACE,
                "device": {"first": ["UUID"]},
            }
        ],
    }
)


def gpu(name: str, number: int) -> str:
    return f"GPU-{number:08x}-{name.encode().hex()[:4]}-4000-8000-000000000000"


def temperature(name: str, number: int, text: str = "60x160", **labels: str) -> Series:
    return ending(TEMP, {"Hostname": name, "UUID": gpu(name, number), **labels}, text)


def history() -> Iterator[Series]:
    for number in range(4):
        # Its series of two jobs: one GPU all the same.
        yield temperature("whole", number, "60x80 stale _x79", pod="job-1")
        yield temperature("whole", number, "_x80 60x79", pod="job-2")
        yield temperature("lost-one", number, "60x40 stale _x119" if number == 3 else "60x160")
        yield temperature("nonsense", number, "644245923x160")
        yield temperature("swapped", number, "60x100 stale _x59")
        yield temperature("swapped", number + 10, "_x110 60x49")
        yield temperature("nobody-asks", number)
        yield temperature("elsewhere", number, cluster="b")
    for host, number, text in (("p-1", 0, "60x160"), ("p-10", 1, "60x100 stale _x59"), ("p-10", 2, "_x110 60x49")):
        yield ending("degrees", {"host": f"{host}.lab", "UUID": gpu(host, number)}, text)
    yield ending(TEMP, {"hostname": "renamed", "uuid": gpu("renamed", 0).upper().replace("GPU-", "GPU-")}, "60x160")
    yield ending(TEMP, {"Hostname": "indexed", "UUID": "3"}, "60x160")
    yield ending(SMI, {"instance": "10.8.0.1:9835", "uuid": gpu("smi", 0).removeprefix("GPU-")}, "60x160")
    yield ending(SMI, {"instance": "10.8.0.11:9835", "uuid": gpu("other", 0).removeprefix("GPU-")}, "60x160")
    yield ending(SMI, {"instance": "10.8.0.2:9835", "uuid": gpu("whole", 0).removeprefix("GPU-")}, "60x160")


BY_PART = SignalSpec.model_validate(
    {
        **GPUS.model_dump(mode="json", by_alias=True, exclude={"sources"}),
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": ["degrees"],
                "node": {"first": ["host"], "part": "([^.]+)[.].*"},
                "device": {"first": ["UUID"]},
            }
        ],
    }
)
NAMES = (
    "whole",
    "lost-one",
    "nonsense",
    "swapped",
    "nobody-asks",
    "elsewhere",
    "renamed",
    "indexed",
    "silent",
    "p-1",
    "p-10",
)


def law(memory: str = "30m", signal: SignalSpec = GPUS) -> Rules:
    made = rules(matchers={"cluster": "a"}, inventory={"signal": "gpus", "memory": memory})
    return replace(made, signals={**SIGNALS, "gpus": signal})


@dataclass(frozen=True)
class Fleet:
    metrics: PrometheusMetrics
    nodes: Mapping[str, Node]

    def ask(self, look: Look, also: Mapping[str, Answer] | None = None) -> Mapping[str, tuple[str, ...]] | Failed:
        answers: dict[str, Answer] = {}
        for key, queries in look.queries.items():
            found = [self.metrics.query(query, at=NOW, timeout=timedelta(seconds=20)) for query in queries]
            assert all(isinstance(answer, Samples) for answer in found), found
            samples = [sample for answer in found if isinstance(answer, Samples) for sample in answer.samples]
            answers[key] = Samples(tuple(samples), queries[0])
        return look.hardware({**answers, **(also or {})}, Directory.of(self.nodes))

    def look(self, *names: str, of: Rules | None = None, **changes: Any) -> Look:
        return Look.of(of or law(), [case(name, **changes) for name in names], self.nodes, NOW)


def case(name: str, **changes: Any) -> Case:
    marked = Case(f"q-{name}", name, node(name).machine, Phase.QUARANTINED, NOW, NOW, (), "t", "r")
    return replace(marked, **changes)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with PrometheusServer() as server:
        write(server.url, history())
        nodes = {name: node(name, addresses=()) for name in NAMES}
        nodes |= {"smi": node("smi", addresses=("10.8.0.1",)), "other": node("other", addresses=("10.8.0.11",))}
        nodes["whole"] = node("whole", addresses=("10.8.0.2", "fd00::2"))
        with PrometheusMetrics(PrometheusSettings(url=server.url)) as metrics:
            yield Fleet(metrics, nodes)


def gpus(name: str, *numbers: int) -> tuple[str, ...]:
    return tuple(sorted(gpu(name, number) for number in numbers))


def test_the_gpus_of_the_nodes_that_are_asked_about_are_told_and_no_others(fleet: Fleet) -> None:
    look = fleet.look("whole", "nonsense", "renamed", "smi", "indexed", "silent", "elsewhere")
    assert fleet.ask(look) == {
        "nonsense": gpus("nonsense", 0, 1, 2, 3),
        "renamed": gpus("renamed", 0),
        "smi": gpus("smi", 0),
        "whole": gpus("whole", 0, 1, 2, 3),
    }
    assert "nobody-asks" not in str(look.queries)


def test_a_gpu_that_fell_off_the_bus_is_told_as_far_as_the_fleet_remembers(fleet: Fleet) -> None:
    assert fleet.ask(fleet.look("lost-one")) == {"lost-one": gpus("lost-one", 0, 1, 2, 3)}
    brief = law(memory="20m")
    assert fleet.ask(fleet.look("lost-one", of=brief)) == {"lost-one": gpus("lost-one", 0, 1, 2)}


def test_nobody_looks_back_beyond_the_exchange(fleet: Fleet) -> None:
    assert fleet.ask(fleet.look("swapped")) == {"swapped": gpus("swapped", 0, 1, 2, 3, 10, 11, 12, 13)}
    for came in ({"swapped_at": NOW - 12 * MINUTE}, {"booted_at": NOW - 12 * MINUTE}):
        look = Look.of(law(), [case("swapped", **came)], fleet.nodes, NOW)
        assert fleet.ask(look) == {"swapped": gpus("swapped", 10, 11, 12, 13)}


def test_a_node_object_that_was_made_just_now_stands_for_no_earlier_machine(fleet: Fleet) -> None:
    young = replace(fleet.nodes["swapped"], created_at=NOW - 12 * MINUTE)
    made = Fleet(fleet.metrics, {**fleet.nodes, "swapped": young})
    assert made.ask(made.look("swapped")) == {"swapped": gpus("swapped", 10, 11, 12, 13)}


def test_of_a_machine_that_came_a_moment_ago_nothing_is_asked(fleet: Fleet) -> None:
    look = fleet.look("swapped", swapped_at=NOW - timedelta(seconds=59))
    assert look.queries == {}
    assert fleet.ask(look) == {}
    assert fleet.look("swapped", swapped_at=NOW - MINUTE).queries


def test_what_an_expression_sees_is_told_of_the_nodes_that_are_asked_about(fleet: Fleet) -> None:
    look = fleet.look("lost-one", of=law(signal=BY_EXPR))
    assert fleet.ask(look) == {"lost-one": gpus("lost-one", 0, 1, 2)}


def test_a_node_whose_name_contains_anothers_is_looked_at_no_further_back_than_it_may_be(fleet: Fleet) -> None:
    cases = [case("p-1"), case("p-10", swapped_at=NOW - 12 * MINUTE)]
    look = Look.of(law(signal=BY_PART), cases, fleet.nodes, NOW)
    assert fleet.ask(look) == {"p-1": gpus("p-1", 0), "p-10": gpus("p-10", 2)}


def test_half_an_answer_is_none(fleet: Fleet) -> None:
    failed = Failed(FailureKind.TIMEOUT, "too slow")
    assert fleet.ask(fleet.look("whole"), {f"nvidia-smi/{SMI}": failed}) == failed


def test_machines_that_came_at_different_times_share_few_queries(fleet: Fleet) -> None:
    cases = [case(name, swapped_at=NOW - (2 + n) * MINUTE) for n, name in enumerate(NAMES)]
    look = Look.of(law(), cases, fleet.nodes, NOW)
    assert {back / MINUTE for back in look.back.values()} == {2, 4, 8}
    assert all(look.back[each.node] <= NOW - each.swapped_at for each in cases if each.swapped_at is not None)
    assert len(look.queries[f"dcgm-exporter/{TEMP}"]) == 2 * 3, "one for each label that may name the node, and time"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (law(signal=SIGNALS["ib.downed"]), "the signal is of ports"),
        (rules(), "the fleet has no inventory"),
        (rules(inventory={"signal": "gone"}), "there is no such signal"),
    ],
)
def test_where_the_fleet_knows_no_gpus_nothing_is_asked(fleet: Fleet, given: Rules, why: str) -> None:
    assert fleet.look("whole", of=given).queries == {}, why


def test_only_of_cases_that_are_marked_and_of_nodes_that_are_there(fleet: Fleet) -> None:
    assert fleet.look("whole", phase=Phase.SUSPECTED).queries == {}
    assert fleet.look("whole", phase=Phase.RELEASED).queries == {}
    assert fleet.look("ghost").queries == {}
