"""The forms of `core/promql.py` on a real Prometheus, over simulated time: what is bad, what is good, what is neither.

Every case has its own node, so that one history holds them all. Time is written, not waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.case import Case, Evidence, Finding, Phase
from quarantine.core.decision import State
from quarantine.core.model import Device, DeviceKind, Mode, Node, Samples, Severity, Verdict
from quarantine.core.planner import judge_all
from quarantine.core.policy import Rules
from quarantine.inspection import what_is_seen
from quarantine.observe import Observer
from quarantine.ports import LedgerView
from quarantine.sandbox.notation import series
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import DOWNED, TEMP, flapping, node, nvlink, policy, rules

START = datetime(2026, 11, 1, tzinfo=UTC)
STEP = timedelta(seconds=15)
NOW = START + timedelta(minutes=40)  # 160 steps after START
LAW: Rules = rules(policy(), flapping(), nvlink(), matchers={"cluster": "a"})

# name → the temperature's last minutes in promtool's notation; everything before is 60 °C. A minute has four samples.
HOT: dict[str, tuple[str, bool]] = {
    "sustained": ("84x24", True),
    "one-sample": ("60x18 79 60x4", False),
    "three-minutes": ("60x11 84x12", False),
    "one-cold-among-hot": ("84x12 60 84x11", True),
    "half-and-half": ("84 60 " * 12, False),
    "sentinel": ("9223372036854775794x24", False),
    "garbage": ("644245923x24", False),
    "zero": ("0x24", False),
    "gap": ("84 _x7 84 _x7 84 _x6 84", False),
    "at-the-threshold": ("78x24", False),
    "cooled-just-now": ("84x20 60x3", False),
    "died-hot-two-minutes-ago": ("84x30 stale _x6", False),
    "died-after-three-minutes": ("60x4 84x12 stale _x6", False),
    "died-after-three-and-a-half": ("60x4 84x14 stale _x2", False),
}
DOWN: dict[str, tuple[str, bool]] = {
    "flaps": ("3x20 4x4 5x4 6x11", True),
    "one-event": ("3x30 4x8", False),
    "reset": ("200x20 2x50", False),
    "reset-and-events": ("200x20 2x6 5x11", False),
    "born-at-five": ("_x20 5x18", False),
    "saturated": ("250x20 255x18", False),
    "never-up": ("0x38", False),
    "blip-to-zero": ("100x2 0 100x50", False),
    "flaps-but-collector-failed": ("3x20 4x4 5x4 6x11", False),
}
# the last 31 minutes of temperature and of tensor activity
GOOD: dict[str, tuple[str, str, bool]] = {
    "cool-under-load": ("65x125", "0.6x125", True),
    "cool-and-idle": ("40x125", "0x125", False),
    "cool-half-seen": ("65x30 _x70 65x25", "0.6x125", False),
    "one-hot-sample": ("65x60 79 65x63", "0.6x125", False),
    "above-recovery": ("74x125", "0.6x125", False),
    "load-seen-once": ("65x125", "_x125 0.9", False),
    "frozen-and-thawed": ("65x125", "0.6x125", False),
}


@dataclass(frozen=True)
class Fixed:
    """The moment that is asked about."""

    def now(self) -> datetime:
        return NOW


@dataclass(frozen=True)
class Nodes:
    """A cluster of which only the nodes are asked."""

    known: Mapping[str, Node]

    def nodes(self) -> Mapping[str, Node]:
        return self.known


def address(number: int) -> str:
    return f"10.1.0.{number}"


PORTS = {name: address(number) for number, name in enumerate(DOWN)}


def gpu(
    name: str, text: str, *, tail: int, metric: str = "DCGM_FI_DEV_GPU_TEMP", before: str = "60", **more: str
) -> Series:
    labels = {"__name__": metric, "cluster": "a", "Hostname": name, "UUID": f"GPU-{name}", "gpu": "3", **more}
    return series(labels, f"{before}x{160 - tail - 1} {text}", start=START, interval=STEP)


def samples_in(text: str) -> int:
    return (
        len(series({}, text, start=START, interval=STEP).samples)
        + text.split().count("_")
        + sum(int(item[2:]) for item in text.split() if item.startswith("_x"))
    )


def energy(name: str, text: str = "0+5000x160", **more: str) -> Series:
    return (
        gpu(name, "", tail=0, metric="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", **more)
        if not text
        else series(
            {
                "__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
                "cluster": "a",
                "Hostname": name,
                "UUID": f"GPU-{name}",
            }
            | more,
            text,
            start=START,
            interval=STEP,
        )
    )


def history() -> Iterator[Series]:
    for name, (text, _) in HOT.items():
        yield gpu(name, text, tail=samples_in(text) - 1)
        yield energy(name)
    yield from odd_ones()
    for name, (text, _) in DOWN.items():
        labels = {"cluster": "a", "instance": f"{PORTS[name]}:9100", "device": "mlx5_4", "port": "1"}
        pad = 161 - samples_in(text)
        first = "_" if text.startswith("_") else text.split("x")[0].split()[0]
        lead = f"_x{pad}" if first == "_" else f"{first}x{pad - 1}"
        yield series(
            {"__name__": "node_infiniband_link_downed_total", **labels}, f"{lead} {text}", start=START, interval=STEP
        )
        success = "1x100 0x59" if name == "flaps-but-collector-failed" else "1x160"
        gate = {"__name__": "node_scrape_collector_success", "collector": "infiniband", "cluster": "a"}
        yield series({**gate, "instance": labels["instance"]}, success, start=START, interval=STEP)
    for name, (temperature, tensor, _) in GOOD.items():
        yield gpu(name, temperature, tail=samples_in(temperature) - 1)
        if name == "load-seen-once":
            labels = {
                "__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                "cluster": "a",
                "Hostname": name,
                "UUID": f"GPU-{name}",
            }
            yield series(labels, "_x160 0.9", start=START, interval=STEP)
        else:
            yield gpu(name, tensor, tail=samples_in(tensor) - 1, metric="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", before="0.6")
        yield energy(name, "700x156 800+5000x3" if name == "frozen-and-thawed" else "0+5000x160")
    yield from counters()


NVLINKS = {"both-quiet": ("50x160", True), "crc-goes-on": ("0+0.25x160", False), "crc-not-exported": ("", True)}


def counters() -> Iterator[Series]:
    """Devices that NVLINK_REPLAY found bad once and that is quiet now; the other counter of the same device is not."""
    for name, (crc, _) in NVLINKS.items():
        labels = {"cluster": "a", "Hostname": name, "UUID": f"GPU-{name}", "gpu": "3"}
        yield series({"__name__": "NVLINK_REPLAY", **labels}, "900x160", start=START, interval=STEP)
        if crc:
            yield series({"__name__": "NVLINK_CRC", **labels}, crc, start=START, interval=STEP)
        yield series({"__name__": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", **labels}, "0.6x160", start=START, interval=STEP)
        yield energy(name)


def odd_ones() -> Iterator[Series]:
    """What only labels or a second series make odd."""
    # The job changed in mid-window: a new series, the same hot device.
    yield series(
        {
            "__name__": "DCGM_FI_DEV_GPU_TEMP",
            "cluster": "a",
            "Hostname": "job-change",
            "UUID": "GPU-job-change",
            "pod": "a",
        },
        "84x150 stale",
        start=START,
        interval=STEP,
    )
    yield series(
        {
            "__name__": "DCGM_FI_DEV_GPU_TEMP",
            "cluster": "a",
            "Hostname": "job-change",
            "UUID": "GPU-job-change",
            "pod": "b",
        },
        "_x151 84x9",
        start=START,
        interval=STEP,
    )
    yield energy("job-change")
    # A frozen exporter: up, fresh samples, and energy that stands still.
    yield gpu("frozen", "84x24", tail=24)
    yield energy("frozen", "700x160")
    # Two exporters of the same hot device must not be counted twice: half the samples are hot in each.
    for number, text in enumerate(("84 60 " * 12, "60 84 " * 12)):
        yield gpu("half-in-two-exporters", text, tail=24, endpoint=str(number))
    yield energy("half-in-two-exporters")
    # A cool sibling does not hide a hot one, another cluster's node of the same name is not ours.
    yield series(
        {
            "__name__": "DCGM_FI_DEV_GPU_TEMP",
            "cluster": "b",
            "Hostname": "one-sample",
            "UUID": "GPU-one-sample",
            "gpu": "3",
        },
        "84x160",
        start=START,
        interval=STEP,
    )
    # Unnamed: it is nobody's.
    yield series(
        {"__name__": "DCGM_FI_DEV_GPU_TEMP", "cluster": "a", "Hostname": "unnamed", "gpu": "3"},
        "84x160",
        start=START,
        interval=STEP,
    )
    # The newer exporter says hostname.
    labels = {"cluster": "a", "hostname": "newer-exporter", "uuid": "GPU-newer", "gpu": "3"}
    yield series({"__name__": "DCGM_FI_DEV_GPU_TEMP", **labels}, "84x160", start=START, interval=STEP)
    yield series(
        {"__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", **labels}, "0+5000x160", start=START, interval=STEP
    )


ODD = {"job-change": True, "frozen": False, "half-in-two-exporters": True, "unnamed": False, "newer-exporter": True}


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        write(server.url, history())
        yield server


@pytest.fixture(scope="module")
def metrics(prometheus: PrometheusServer) -> Iterator[PrometheusMetrics]:
    with PrometheusMetrics(PrometheusSettings(url=prometheus.url)) as made:
        yield made


def nodes() -> dict[str, Node]:
    known = {name: node(name, addresses=()) for name in (*HOT, *ODD, *GOOD, *NVLINKS)}
    return known | {name: node(name, addresses=(PORTS[name],)) for name in DOWN}


def bad_nodes(metrics: PrometheusMetrics, name: str, state: State | None = None) -> dict[str, Evidence]:
    observer = Observer(Nodes(nodes()), metrics, Fixed(), LAW)  # type: ignore[arg-type]
    look = observer.snapshot(LedgerView(state or State(), (), ()), cluster="a", mode=Mode.OBSERVE, actor="t")
    found = next(j for j in judge_all(look, LAW) if j.policy.name == name)
    assert found.failed is None
    return {offence.node.name: offence.evidence for offence in found.bad}


def test_heat(metrics: PrometheusMetrics) -> None:
    bad = bad_nodes(metrics, "gpu-hot")
    expected = {name for name, (_, is_bad) in HOT.items() if is_bad} | {name for name, is_bad in ODD.items() if is_bad}
    assert set(bad) == expected
    assert bad["sustained"].value == 84
    assert bad["sustained"].labels["gpu"] == "3", "the raw series' labels come along"
    assert "count_over_time" in bad["sustained"].query


def test_link_events(metrics: PrometheusMetrics) -> None:
    bad = bad_nodes(metrics, "ib-flapping")
    assert set(bad) == {name for name, (_, is_bad) in DOWN.items() if is_bad}
    assert bad["flaps"].value == 3


def test_recovery_needs_evidence_under_load(metrics: PrometheusMetrics) -> None:
    good = good_nodes(metrics, "gpu-hot", TEMP, list(GOOD))
    assert good == {name for name, (_, _, is_good) in GOOD.items() if is_good}


def test_one_counter_that_is_quiet_does_not_clear_anothers_fault(metrics: PrometheusMetrics) -> None:
    good = good_nodes(metrics, "nvlink", "dcgm-exporter/NVLINK_REPLAY", list(NVLINKS))
    assert good == {name for name, (_, is_good) in NVLINKS.items() if is_good}


def good_nodes(metrics: PrometheusMetrics, name: str, source: str, suspects: list[str]) -> set[str]:
    """Those of the suspects, with an open case by this policy and reading, that are found good."""
    cases = {}
    for of in suspects:
        labels = {"Hostname": of, "hostname": "", "UUID": f"GPU-{of}", "uuid": ""}
        evidence = Evidence("q", 84, "°C", "t", NOW, source=source, labels=labels)
        device = Device(DeviceKind.GPU, f"GPU-{of}")
        finding = Finding(name, device, Severity.CRITICAL, NOW, Verdict.BAD, evidence)
        cases[of] = Case(of, of, node(of).machine, Phase.SUSPECTED, NOW, NOW, (finding,), "t", "r")
    observer = Observer(Nodes(nodes()), metrics, Fixed(), LAW)  # type: ignore[arg-type]
    view = LedgerView(State(cases=cases), (), ())
    look = observer.snapshot(view, cluster="a", mode=Mode.OBSERVE, actor="t")
    assert all(isinstance(answer, Samples) for answer in look.answers[name].recovery.values())
    found = next(j for j in judge_all(look, LAW) if j.policy.name == name)
    return {of for of, _ in found.good}


@pytest.mark.parametrize(
    ("policy_name", "name"),
    [
        ("gpu-hot", "died-after-three-minutes"),
        ("gpu-hot", "died-after-three-and-a-half"),
        ("ib-flapping", "blip-to-zero"),
        ("ib-flapping", "reset"),
    ],
)
def test_what_is_not_bad_does_not_become_so_as_time_passes(
    metrics: PrometheusMetrics, policy_name: str, name: str
) -> None:
    """As cool samples leave the window, or a reset does, careless forms fire minutes after the exporter's death."""
    query = next(p for p in LAW.policies if p.name == policy_name)
    for seconds in range(-300, 700, 15):
        at = NOW + timedelta(seconds=seconds)

        @dataclass(frozen=True)
        class Later:
            moment: datetime

            def now(self) -> datetime:
                return self.moment

        observer = Observer(Nodes(nodes()), metrics, Later(at), LAW)  # type: ignore[arg-type]
        look = observer.snapshot(LedgerView(State(), (), ()), cluster="a", mode=Mode.OBSERVE, actor="t")
        found = next(j for j in judge_all(look, LAW) if j.policy is query)
        assert name not in {offence.node.name for offence in found.bad}, seconds


def test_coverage_counts_devices_of_known_nodes(metrics: PrometheusMetrics) -> None:
    observer = Observer(Nodes(nodes()), metrics, Fixed(), LAW)  # type: ignore[arg-type]
    look = observer.snapshot(LedgerView(State(), (), ()), cluster="a", mode=Mode.OBSERVE, actor="t")
    covered = {j.policy.name: j.covered for j in judge_all(look, LAW)}
    blind = {"sentinel", "garbage", "zero", "died-hot-two-minutes-ago", "died-after-three-minutes", "unnamed"}
    assert covered["gpu-hot"] == len({*HOT, *ODD, *GOOD} - blind)
    assert covered["ib-flapping"] == len(DOWN) - 1


SEEN = {
    "sentinel": "9.223e+18 °C by GPU-sentinel, which is no measurement",
    "one-sample": "touch 79 °C, in none of the samples",
    "three-minutes": "above 78 °C in",
    "died-after-three-minutes": "nothing fresh since: unknown is not bad",
    "at-the-threshold": "saw nothing above 78 °C within 5m; the nearest was GPU-at-the-threshold with 78 °C",
    "never-up": "saw 0 new events of InfiniBand port mlx5_4/1 within 10m, and 2 are needed",
    "one-event": "saw 1 new events of InfiniBand port mlx5_4/1",
    "reset": "reset within 10m: unknown is not bad",
    "saturated": "full, where it counts no more",
}


@pytest.mark.parametrize("name", sorted(SEEN))
def test_why_nothing_was_done_is_told(metrics: PrometheusMetrics, name: str) -> None:
    told = what_is_seen(metrics, LAW, nodes()[name], at=NOW, timeout=timedelta(seconds=10))
    assert any(SEEN[name] in sentence for sentence in told), told


def test_the_trail_names_what_found_it(metrics: PrometheusMetrics) -> None:
    assert bad_nodes(metrics, "gpu-hot")["sustained"].source == TEMP
    assert bad_nodes(metrics, "ib-flapping")["flaps"].source == DOWNED
