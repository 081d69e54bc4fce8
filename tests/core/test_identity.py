"""From labels to a node and a device: one name for one device, and nothing that an exporter can make slow."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.decision import RequestKind, State
from quarantine.core.identity import Directory, device_of, named_by
from quarantine.core.model import Device, DeviceKind, PolicyAnswers, Sample, Samples
from quarantine.core.planner import plan
from quarantine.core.readings import NODE_PART, Reading, readings
from quarantine.core.selectors import named_devices, same_name
from quarantine.core.signal import NodeLabel, SignalSpec
from tests.core.world import (
    GPU_TEMPERATURE,
    MINUTE,
    NOW,
    SIGNALS,
    TEMP,
    after,
    ask,
    carried_out,
    fleet,
    policy,
    rules,
    seen,
    snapshot,
)

WRITTEN = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
SMI = "nvidia-gpu-exporter/nvidia_smi_temperature_gpu"
BOTH = SignalSpec.model_validate(
    {
        **WRITTEN,
        "sources": [
            *WRITTEN["sources"],
            {
                "exporter": "nvidia-gpu-exporter",
                "metrics": ["nvidia_smi_temperature_gpu"],
                "node": {"first": ["instance"], "means": "address"},
                "device": {"first": ["uuid"]},
            },
        ],
    }
)
LINKS = SignalSpec.model_validate(
    {
        **WRITTEN,
        "device": "nvlink",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": ["LINK"],
                "node": {"first": ["Hostname"]},
                "device": {"join": ["gpu_uuid", "nvlink"]},
            }
        ],
    }
)
UUID = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"


def smi() -> Reading:
    return readings(BOTH, {})[-1]


@pytest.mark.parametrize("said", [UUID, f"GPU-{UUID}", UUID.upper(), f"gpu-{UUID.upper()}"])
def test_a_gpu_has_one_name_however_exporters_spell_it(said: str) -> None:
    assert device_of(smi(), {"uuid": said}) == Device(DeviceKind.GPU, f"GPU-{UUID}")
    link = device_of(readings(LINKS, {})[0], {"gpu_uuid": said, "nvlink": "7"})
    assert link == Device(DeviceKind.NVLINK, f"GPU-{UUID}/7")


@pytest.mark.parametrize("said", ["3", "nvidia0", "00000000:07:00.0", "MIG-df6e7a7c-7314", "mlx5_0"])
def test_what_is_no_uuid_stays_as_it_is(said: str) -> None:
    assert device_of(smi(), {"uuid": said}) == Device(DeviceKind.GPU, said)


def test_a_port_that_looks_like_a_uuid_is_none() -> None:
    assert same_name(DeviceKind.IB_PORT, "A0-b1") == "A0-b1"


@given(st.text(max_size=20))
def test_a_name_that_was_backthe_same_stays(said: str) -> None:
    once = same_name(DeviceKind.GPU, said)
    assert same_name(DeviceKind.GPU, once) == once


@given(st.lists(st.uuids().map(str), min_size=1, max_size=3), st.booleans(), st.booleans())
def test_a_question_by_name_finds_each_spelling(uuids: list[str], bare: bool, capital: bool) -> None:
    devices = [Device(DeviceKind.GPU, same_name(DeviceKind.GPU, uuid)) for uuid in uuids]
    devices.append(Device(DeviceKind.GPU, "nvidia0"))
    (only,) = named_devices(smi(), devices)
    assert only is not None
    (matcher,) = only
    regex = re.compile(matcher.removeprefix('uuid=~"').removesuffix('"'))
    for uuid in uuids:
        said = uuid if bare else f"GPU-{uuid}"
        assert regex.fullmatch(said.upper() if capital else said)
    assert regex.fullmatch("nvidia0")
    assert not regex.fullmatch("NVIDIA0")
    assert not regex.fullmatch(uuids[0][:-1])


def test_a_persons_word_about_a_gpu_holds_for_every_exporter() -> None:
    law = replace(rules(policy(recovery=None)), signals={**SIGNALS, "gpu.temperature": BOTH})
    nodes = fleet()
    dcgm = Sample({"Hostname": "node-3", "UUID": f"GPU-{UUID}", "gpu": "3"}, 84.0, NOW)
    other = Sample({"instance": "10.0.0.3:9835", "uuid": UUID}, 84.0, NOW)

    def said(*bad: Sample) -> dict[str, PolicyAnswers]:
        trigger = {TEMP: Samples((dcgm,), "q"), SMI: Samples(bad, "q")}
        return {"gpu-hot": PolicyAnswers(trigger, {}, {TEMP: seen(nodes), SMI: seen(nodes, by="instance")}, NOW)}

    state, out = carried_out(after(State(), plan(snapshot(nodes, given=said()), law)), nodes)
    word = [ask(RequestKind.RELEASE, "node-3")]
    back = plan(snapshot(out, given=said(), state=state, now=NOW + 10 * MINUTE, requests=word), law)
    state, _ = carried_out(after(state, back), out)
    later = plan(snapshot(nodes, given=said(other), state=state, now=NOW + 11 * MINUTE), law)
    assert not [d for d in later.decisions if d.held_by is None]


# --- Nodes ------------------------------------------------------------------------------------------------------------


def test_the_part_that_is_a_nodes_name_is_taken_by_the_query_alone() -> None:
    name = NodeLabel(first=("instance",), part=r"((?:[a-z0-9]+-?)+)\.gpu\.example\.com(?::[0-9]+)?")
    said = "a" * 60 + ".cpu.example.com:9100"
    assert named_by(name, {"instance": said}) is None  # by Python's engine this would take years
    assert Directory.of({}).node(name, {"instance": said}).said == said  # type: ignore[union-attr]
    assert named_by(name, {"instance": said, NODE_PART: "node-7"}) == "node-7"
