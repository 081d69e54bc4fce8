"""Outside, above the siblings, bounds of a model, the graces, two exporters that disagree: on a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.case import Case
from quarantine.core.model import Device, DeviceKind
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.reasons import saw
from quarantine.core.signal import SignalSpec
from quarantine.inspection import what_is_seen
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import GPU_TEMPERATURE, SIGNALS, node, policy, rules
from tests.e2e.forms import NOW, Scene, ending, suspected

BEAT = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEMP = "DCGM_FI_DEV_GPU_TEMP"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
LOAD = {"signal": "gpu.tensor", "above": 0.1}
FAN = SignalSpec.model_validate(
    {
        "description": "a voltage, say",
        "unit": "V",
        "device": "gpu",
        "type": "gauge",
        "plausible": {"min": 0, "max": 100},
        "interval": "30s",
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": ["VOLTS"],
                "node": {"first": ["Hostname"]},
                "device": {"first": ["UUID"]},
            }
        ],
    }
)
BOTH = SignalSpec.model_validate(
    {
        **GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True),
        "sources": [
            {
                "exporter": "dcgm-exporter",
                "metrics": [TEMP],
                "node": {"first": ["Hostname", "hostname"]},
                "device": {"first": ["UUID", "uuid"], "index": "gpu"},
                "model": "modelName",
                "heartbeat": BEAT,
            },
            {
                "exporter": "gpud",
                "metrics": ["accelerator_nvidia_temperature_current_celsius"],
                "node": {"first": ["node"]},
                "device": {"first": ["uuid"]},
            },
        ],
    }
)
UPTIME = SignalSpec.model_validate(
    {
        "description": "seconds since the node booted",
        "unit": "s",
        "device": "node",
        "type": "gauge",
        "plausible": {"min": 0, "max": 1e9},
        "interval": "30s",
        "sources": [{"exporter": "node-exporter", "metrics": ["node_up_seconds"], "node": {"first": ["instance"]}}],
    }
)


def law() -> Rules:
    models = [{"model": "NVIDIA H200*", "above": 85}, {"model": "NVIDIA H*", "above": 80}]
    well = [{"model": "NVIDIA H200*", "below": 79}]
    policies: tuple[LoadedPolicy, ...] = (
        policy(
            "outside",
            signal="gpu.volts",
            trigger={"outside": {"min": 10, "max": 14}, "for": "5m"},
            recovery={"above": 11, "below": 13, "for": "10m", "load": LOAD},
        ),
        policy(
            "siblings",
            signal="gpu.both",
            trigger={"aboveSiblings": 10, "for": "5m"},
            recovery={"below": 5, "for": "10m", "load": LOAD},
        ),
        policy(
            "models",
            signal="gpu.both",
            trigger={"above": 90, "for": "5m", "models": models},
            recovery={"below": 70, "for": "10m", "models": well, "load": LOAD},
        ),
        policy("graced", signal="gpu.both", trigger={"above": 90, "for": "2m"}, grace={"driver": "10m"}),
        policy("booted", signal="gpu.both", trigger={"above": 90, "for": "2m"}, grace={"boot": "10m"}),
        policy("plain", signal="gpu.both", trigger={"above": 90, "for": "2m"}),
    )
    made = rules(*policies, matchers={"cluster": "a"}, uptime="node.uptime")
    signals = {**SIGNALS, "gpu.volts": FAN, "gpu.both": BOTH, "node.uptime": UPTIME}
    return replace(made, signals=signals)


# name → volts, bad, why nothing was done
VOLTS: dict[str, tuple[str, bool]] = {
    "volts-high": ("15x24", True),
    "volts-low": ("9x24", True),
    "volts-both-sides": ("9x11 15x12", True),
    "volts-at-the-bounds": ("10x11 14x12", False),
    "volts-one-sample": ("12x22 15", False),
    "volts-gap": ("15 _x8 15 _x8 15", False),
    "volts-died": ("15x20 stale _x7", False),
    "volts-sentinel": ("2147483632x24", False),
    "volts-other-job": ("12x24", True),  # and a second series that is low: see `history`
}
# name → temperatures of the node's GPUs, those that are bad
SIBLINGS: dict[str, tuple[list[str], set[int]]] = {
    "kin-one-warm": (["60x30"] * 7 + ["75x30"], {7}),
    "kin-all-warm": (["75x30"] * 8, set()),
    "kin-one-sample": (["60x30"] * 7 + ["60x29 75"], set()),
    "kin-three": (["60x30"] * 2 + ["75x30"], set()),
    "kin-four": (["60x30"] * 3 + ["75x30"], {3}),
    "kin-cool-again": (["60x30"] * 7 + ["75x28 60x1"], set()),
    "kin-others-died": (["60x20 stale _x9"] * 6 + ["60x30", "75x30"], set()),
    "kin-at-the-bound": (["60x30"] * 7 + ["70x30"], set()),
    "kin-others-sentinel": (["9223372036854775794x30"] * 6 + ["60x30", "75x30"], set()),
    "kin-others-frozen": (["40x30"] * 5 + ["60x30"] * 3, set()),
    "kin-some-frozen": (["40x30"] * 4 + ["60x30"] * 3 + ["75x30"], {7}),
}
# name → how many of its GPUs, the first ones, the exporter serves from its cache: their energy stands still
FROZEN = {"kin-others-frozen": 5, "kin-some-frozen": 4}
# name → (model, temperature, bad)
MODELS: dict[str, tuple[str, str, bool]] = {
    "model-h200-hot": ("NVIDIA H200", "86x30", True),
    "model-h200-warm": ("NVIDIA H200", "82x30", False),
    "model-h100-warm": ("NVIDIA H100 80GB HBM3", "82x30", True),
    "model-a100-warm": ("NVIDIA A100", "86x30", False),
    "model-a100-hot": ("NVIDIA A100", "91x30", True),
    "model-none": ("", "86x30", False),
    "model-none-hot": ("", "91x30", False),  # it may be one that may be so hot
}
# name → (model, the last eleven minutes, good)
GOOD: dict[str, tuple[str, str, bool]] = {
    "well-h200": ("NVIDIA H200", "75x50", True),
    "well-h100": ("NVIDIA H100", "75x50", False),
    "well-h100-cool": ("NVIDIA H100", "65x50", True),
}
# name → (energy, found bad by a policy with a driver grace)
DRIVER: dict[str, tuple[str, bool]] = {
    "driver-old": ("0+5000x160", True),
    "driver-reloaded": ("500000+5000x140 0+5000x19", False),
    "driver-reloaded-behind-a-gap": ("500000+5000x128 _x20 0+5000x11", False),
    "driver-reloaded-long-ago": ("500000+5000x100 0+5000x59", True),
    "driver-long-ago-behind-a-gap": ("500000+5000x90 _x12 0+5000x57", True),
    "driver-seen-for-the-first-time": ("_x141 0+5000x19", False),
}
UP: dict[str, tuple[float | None, bool]] = {
    "up-long": (90_000, True),
    "up-lately": (300, False),
    "up-at-the-grace": (600, True),
    "up-untold": (None, False),
}
HOT = "95x160"


def gpu(metric: str, name: str, text: str, number: int = 0, before: str = "_", **more: str) -> Series:
    labels = {"Hostname": name, "UUID": f"GPU-{name}-{number}", "gpu": str(number), **more}
    return ending(metric, {k: v for k, v in labels.items() if v}, text, before=before)


def history() -> Iterator[Series]:
    for name, (text, _) in VOLTS.items():
        yield gpu("VOLTS", name, text, before="12")
        yield gpu(TENSOR, name, "0.6x160")
    yield gpu("VOLTS", "volts-other-job", "9x24", before="12", pod="b")
    for name in ("volts-good", "volts-good-but-low-once"):
        yield gpu("VOLTS", name, "12x50" if name == "volts-good" else "12x20 9x1 12x28", before="9")
        yield gpu(TENSOR, name, "0.6x160")
    for name, (gpus, _) in SIBLINGS.items():
        for number, text in enumerate(gpus):
            yield gpu(TEMP, name, text, number, before="60")
            yield gpu(BEAT, name, "7000x160" if number < FROZEN.get(name, 0) else "0+5000x160", number)
    for number in range(8):  # was warm, is like its siblings now, under load
        yield gpu(TEMP, "kin-good", "62x50", number, before="75" if number == 7 else "60")
        yield gpu(BEAT, "kin-good", "0+5000x160", number)
        yield gpu(TENSOR, "kin-good", "0.6x160", number)
    for name, (model, text, _) in {**MODELS, **GOOD}.items():
        yield gpu(TEMP, name, text, before="60", modelName=model)
        yield gpu(BEAT, name, "0+5000x160")
        yield gpu(TENSOR, name, "0.6x160")
    for name, (energy, _) in DRIVER.items():
        yield gpu(TEMP, name, HOT)
        yield gpu(BEAT, name, energy)
    for name, (up, _) in UP.items():
        yield gpu(TEMP, name, HOT)
        yield gpu(BEAT, name, "0+5000x160")
        if up is not None:
            yield ending("node_up_seconds", {"instance": name}, f"{up}x8")
    yield gpu(TEMP, "disputed", HOT)
    yield gpu(BEAT, "disputed", "0+5000x160")
    says = {"node": "disputed", "uuid": "GPU-disputed-0"}
    yield ending("accelerator_nvidia_temperature_current_celsius", says, "61x160")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with PrometheusServer() as server:
        write(server.url, history())
        with PrometheusMetrics(PrometheusSettings(url=server.url)) as metrics:
            names = (*VOLTS, *SIBLINGS, *MODELS, *GOOD, *DRIVER, *UP, "kin-good", "disputed")
            nodes = {name: node(name) for name in (*names, "volts-good", "volts-good-but-low-once")}
            yield Scene(metrics, server.url, law(), nodes)


def test_outside_is_bad_on_either_side(scene: Scene) -> None:
    bad = scene.bad("outside")
    assert set(bad) == {name for name, (_, is_bad) in VOLTS.items() if is_bad}
    assert bad["volts-low"].value == 9
    assert bad["volts-high"].value == 15
    assert bad["volts-high"].threshold == "outside 10 to 14 V for 5m, 10% tolerated"


def test_outside_recovers_within_both_bounds(scene: Scene) -> None:
    names = ("volts-good", "volts-good-but-low-once", "volts-high")
    cases = [suspect("outside", name, "dcgm-exporter/VOLTS") for name in names]
    found = replace(scene, suspects=cases).judgement("outside")
    assert {name for name, _ in found.good} == {"volts-good"}


def test_one_that_is_warmer_than_its_siblings(scene: Scene) -> None:
    found = scene.judgement("siblings")
    bad = {(o.node.name, o.device.name) for o in found.bad if o.node.name in SIBLINGS}
    wanted = {(name, f"GPU-{name}-{number}") for name, (_, warm) in SIBLINGS.items() for number in warm}
    assert bad == wanted
    one = next(o for o in found.bad if o.node.name == "kin-one-warm")
    assert one.evidence.value == 15, "what is shown is the distance"
    assert "more than 10 °C above the median of its siblings" in saw(one.policy, one.device, "n", one.evidence)


def test_it_recovers_by_the_distance(scene: Scene) -> None:
    cases = [suspect("siblings", name, f"dcgm-exporter/{TEMP}", 7) for name in ("kin-good", "kin-one-warm")]
    found = replace(scene, suspects=cases).judgement("siblings")
    assert {name for name, _ in found.good} == {"kin-good"}


def test_each_model_has_its_bound(scene: Scene) -> None:
    bad = {name: evidence for name, evidence in scene.bad("models").items() if name in MODELS}
    assert set(bad) == {name for name, (_, _, is_bad) in MODELS.items() if is_bad}
    assert bad["model-h200-hot"].threshold.startswith("above 85 °C"), "the first that matches counts"
    assert bad["model-h100-warm"].threshold.startswith("above 80 °C")
    assert bad["model-a100-hot"].threshold.startswith("above 90 °C")


def test_each_model_has_its_recovery(scene: Scene) -> None:
    cases = [suspect("models", name, f"dcgm-exporter/{TEMP}") for name in GOOD]
    found = replace(scene, suspects=cases).judgement("models")
    assert {name for name, _ in found.good} == {name for name, (_, _, is_good) in GOOD.items() if is_good}


def test_nothing_is_found_just_after_the_driver_was_loaded(scene: Scene) -> None:
    bad = set(scene.bad("graced")) & set(DRIVER)
    assert bad == {name for name, (_, is_bad) in DRIVER.items() if is_bad}
    assert set(scene.bad("plain")) >= set(DRIVER), "it is the grace that keeps them out"


def test_the_grace_of_a_driver_ends(scene: Scene) -> None:
    """It was reloaded five minutes before NOW, behind a gap: at no moment of ten minutes is it found."""
    held = []
    for seconds in range(-120, 1, 30):
        bad = scene.bad("graced", NOW + timedelta(seconds=seconds))
        held.append("driver-reloaded-behind-a-gap" in bad)
    assert not any(held)


def test_what_is_found_on_a_node_that_booted_lately_is_in_grace(scene: Scene) -> None:
    found = scene.judgement("booted")
    assert {o.node.name for o in found.bad} & set(UP) == {name for name, (_, is_bad) in UP.items() if is_bad}
    in_grace = {o.node.name: o.uptime_told for o in found.in_grace}
    assert {name: told for name, told in in_grace.items() if told or name in UP} == {
        "up-lately": True,
        "up-untold": False,
    }
    assert not scene.judgement("plain").in_grace


def test_two_exporters_that_disagree_are_shown(scene: Scene) -> None:
    evidence = scene.bad("plain")["disputed"]
    assert evidence.others == {"gpud/accelerator_nvidia_temperature_current_celsius": 61}
    device = Device(DeviceKind.GPU, "GPU-disputed-0")
    assert "and gpud reads 61 °C for it" in saw(scene.policy("plain"), device, "disputed", evidence)
    assert not scene.bad("plain")["up-long"].others


@pytest.mark.parametrize(
    ("name", "of"),
    [("outside", "volts-both-sides"), ("siblings", "kin-cool-again"), ("models", "model-h100-warm")]
    + [("siblings", "kin-some-frozen")]
    + [("graced", of) for of in DRIVER],
)
def test_a_range_is_the_instant_at_each_step(scene: Scene, name: str, of: str) -> None:
    number = 7 if name == "siblings" else 0
    labels = {"Hostname": of, "hostname": "", "UUID": f"GPU-{of}-{number}", "uuid": ""}
    compared = scene.range_equals_instant(name, [labels], timedelta(minutes=5), timedelta(minutes=3))
    assert compared > 10


SEEN = {
    "volts-at-the-bounds": "saw nothing outside 10 to 14 V within 5m; the nearest was",
    "volts-one-sample": "in 1 of 11 samples within 5m (12 V to 15 V)",
    "volts-died": "nothing fresh since: unknown is not bad",
    "kin-at-the-bound": "saw nothing more than 10 °C above the median of its siblings within 5m",
    "kin-cool-again": "but 0 °C now",
    "model-h200-warm": "saw nothing above 85 °C within 5m; the nearest was GPU-model-h200-warm-0 with 82 °C",
    "driver-reloaded": "unless its exporter serves its cache or its driver was loaded a moment ago",
}


@pytest.mark.parametrize("name", sorted(SEEN))
def test_why_nothing_was_done_is_told(scene: Scene, name: str) -> None:
    told = what_is_seen(scene.metrics, scene.law, scene.nodes[name], at=NOW, timeout=timedelta(seconds=10))
    assert any(SEEN[name] in sentence for sentence in told), told


def suspect(policy_name: str, of: str, source: str, number: int = 0) -> Case:
    device = Device(DeviceKind.GPU, f"GPU-{of}-{number}")
    labels = {"Hostname": of, "hostname": "", "UUID": device.name, "uuid": ""}
    return suspected(policy_name, of, device, source, labels)
