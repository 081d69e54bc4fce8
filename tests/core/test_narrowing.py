"""Which devices a question is about, and how many go into one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quarantine.core.case import Case, Evidence, Finding, Phase
from quarantine.core.model import Device, DeviceKind, Severity, Verdict
from quarantine.core.narrowing import parts, to_recover
from quarantine.core.readings import Reading, readings_of
from quarantine.core.selectors import Labels
from quarantine.core.signal import SignalSpec
from quarantine.core.trigger import Form
from tests.core.world import GPU_TEMPERATURE, NOW, SIGNALS, TEMP, node, policy, rules

NODE = Device(DeviceKind.NODE, "")
RECOVERY = {"for": "10m", "load": {"signal": "gpu.tensor", "above": 0.1}}
LOST = policy("lost", trigger={"absent": True, "for": "5m"}, recovery=RECOVERY)
HOT = policy("hot")
KNOWN = {"node-3": node("node-3", addresses=("10.0.0.3", "fd00::3"))}


def case(
    of: str, device: Device, *, source: str = TEMP, verdict: Verdict = Verdict.BAD, labels: Labels | None = None
) -> Case:
    evidence = Evidence("q", 1, "°C", "t", NOW, source=source, labels=labels or {})
    finding = Finding(of, device, Severity.CRITICAL, NOW, verdict, evidence)
    known = node("node-3")
    return Case("c", known.name, known.machine, Phase.SUSPECTED, NOW, NOW, (finding,), "t", "r")


def reading(**source: object) -> Reading:
    written = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = SignalSpec.model_validate({**written, "sources": [{**written["sources"][0], **source}]})
    law = replace(rules(LOST), signals={**SIGNALS, "gpu.temperature": made})
    return readings_of(LOST, law)[0]


BY_NAME = reading()
BY_ADDRESS = reading(node={"first": ["instance"], "means": "address"})
BY_PART = reading(node={"first": ["hca"], "part": "([^ ]+) .*"})
EXPR = reading(metrics=(), expr="x", heartbeat=None)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (BY_NAME, [{"Hostname": "node-3"}, {"hostname": "node-3"}]),
        (BY_ADDRESS, [{"instance": "10.0.0.3"}, {"instance": "fd00::3"}]),
        (BY_PART, [{"quarantine_node": "node-3"}]),
    ],
)
def test_a_node_that_lacked_something_is_asked_for_by_all_its_names(asked: Reading, names: list[object]) -> None:
    assert LOST.spec.trigger.form is Form.ABSENT
    of = case("lost", NODE, source="another/reading")
    assert to_recover(LOST, asked, [of], KNOWN) == names
    assert to_recover(HOT, asked, [of], KNOWN) == [], "another policy's"
    assert to_recover(LOST, asked, [case("lost", NODE, verdict=Verdict.GOOD)], KNOWN) == [], "good already"


def test_of_a_node_that_is_not_listed_no_address_is_known() -> None:
    assert to_recover(LOST, BY_ADDRESS, [case("lost", NODE)], {}) == []
    assert to_recover(LOST, BY_NAME, [case("lost", NODE)], {})


def test_a_device_is_asked_for_by_what_found_it() -> None:
    one = Device(DeviceKind.GPU, "GPU-1")
    labels = {"Hostname": "node-3", "UUID": "GPU-1"}
    assert to_recover(LOST, BY_NAME, [case("lost", one, labels={**labels, "gpu": "1"})], KNOWN) == [labels]
    assert to_recover(LOST, BY_NAME, [case("lost", one, source="gpud/x", labels=labels)], KNOWN) == []


def test_of_an_expression_all_are_asked_for_at_once() -> None:
    devices = [{"UUID": f"GPU-{n}"} for n in range(100)]
    assert [len(part) for part in parts(devices[:3], BY_NAME)] == [1, 1, 1]
    assert [len(part) for part in parts(devices, BY_NAME)] == [40, 40, 20]
    assert list(parts(devices, EXPR)) == [devices]
    assert list(parts([], EXPR)) == []
