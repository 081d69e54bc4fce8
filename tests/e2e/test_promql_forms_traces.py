"""The series that goes with a finding, on a real Prometheus: it ends in the value that the finding was for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.core.case import Evidence
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.model import Samples
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.record.trace import Trace
from quarantine.core.signal import SignalSpec
from quarantine.observe import Observer
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from tests.core.world import GPU_TEMPERATURE, SIGNALS, THROUGHPUT, node, policy, rules
from tests.e2e.forms import NOW, Moment, Nodes, Scene, ending

TEMP, BEAT = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
LINKED, INFO, SENT = "ib_link_downed_total", "infiniband_hca_info", "port_data_total"
HALF_MINUTE = timedelta(seconds=30)
TEMPERATURE = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)


def signal(of: Mapping[str, object], source: Mapping[str, object]) -> SignalSpec:
    return SignalSpec.model_validate({**of, "sources": [source]})


PORT = {"description": "a link", "unit": "events", "device": "ib_port", "type": "counter", "interval": "15s"}
EVENTS = {**PORT, "plausible": {"min": 0, "max": 255}, "saturates": 255}
RATE = {**PORT, "unit": "B/s", "type": "gauge", "plausible": {"min": 0, "max": 1e12}}
ON_PORT = {"device": {"join": ["device", "port"]}}
EXTRA = {
    # A metric that names no node; one whose node is a part of a label; a rate, which has no samples of its own.
    "ib.mapped": signal(
        RATE,
        {
            "exporter": "ufm",
            "metrics": ["port_speed"],
            "node": {"first": ["hca"], "via": {"metric": INFO, "by": ["guid"]}},
            "device": {"join": ["guid", "port"]},
        },
    ),
    "ib.part": signal(
        RATE,
        {
            "exporter": "ufm",
            "metrics": ["port_heat"],
            "node": {"first": ["hca"], "part": "(\\S+) mlx5_[0-9]+"},
            "device": {"join": ["hca", "port"]},
        },
    ),
    "ib.rate": signal(
        RATE, {"exporter": "node", "expr": f"rate({SENT}[2m])", "node": {"first": ["instance"]}, **ON_PORT}
    ),
    "ib.events": signal(
        EVENTS,
        {
            "exporter": "node",
            "metrics": [LINKED],
            "node": {"first": ["instance"]},
            "gate": "collector_success == 1",
            **ON_PORT,
        },
    ),
    "ib.events-expr": signal(
        EVENTS,
        {"exporter": "node", "expr": f"last_over_time({LINKED}[30s])", "node": {"first": ["instance"]}, **ON_PORT},
    ),
}


def law() -> Rules:
    def never(name: str, of: str, **trigger: object) -> LoadedPolicy:
        return policy(name, signal=of, trigger=trigger, recovery=None, response={"ticket": "none"})

    below = {"below": 20, "for": "5m"}
    made = rules(
        never("hot", "gpu.temperature", above=78, **{"for": "5m"}),
        never("cold", "gpu.temperature", **below),
        never("long", "gpu.temperature", above=95, **{"for": "20m"}),
        never("very-long", "gpu.often", above=95, coverage="20%", **{"for": "20m"}),
        never("kin", "gpu.temperature", aboveSiblings=15, **{"for": "5m"}),
        never("mapped", "ib.mapped", above=78, **{"for": "5m"}),
        never("part", "ib.part", above=78, **{"for": "5m"}),
        never("rate", "ib.rate", above=100, **{"for": "5m"}),
        never("events", "ib.events", events=2, within="10m"),
        never("events-expr", "ib.events-expr", events=2, within="10m"),
        matchers={"cluster": "a"},
    )
    often = SignalSpec.model_validate({**TEMPERATURE, "interval": "5s"})  # 20 minutes of it are too many samples
    return replace(made, signals={**SIGNALS, "ib.throughput": THROUGHPUT, "gpu.often": often, **EXTRA})


def gpu(name: str, text: str, number: int = 0, before: str = "60", **more: str) -> Iterator[Series]:
    labels = {"Hostname": name, "UUID": f"GPU-{name}-{number}", "gpu": str(number)}
    yield ending(TEMP, {**labels, **more}, text, before=before)
    yield ending(BEAT, labels, "0+5000x160")


def history() -> Iterator[Series]:
    yield from gpu("hot", "84x30 85x3")
    yield from gpu("cold", "10x30")
    yield from gpu("long", "96x100")
    for number in range(8):
        yield from gpu("kin", "75x30" if number == 7 else "50x30", number, before="50")
    # A job began: other labels, the same GPU. And two instances of one GPU at once.
    yield from gpu("job", "84x24 stale _x15", job_id="1")
    yield ending(TEMP, {"Hostname": "job", "UUID": "GPU-job-0", "gpu": "0", "job_id": "2"}, "86x15")
    yield from gpu("mig", "84x30", before="70", instance="1")
    yield ending(TEMP, {"Hostname": "mig", "UUID": "GPU-mig-0", "gpu": "0", "instance": "2"}, "50x30", before="50")
    yield from gpu("odd", "84x10 2147483632x1 84x29")
    yield ending(INFO, {"guid": "g1", "hca": "mapped"}, "1x160")
    yield ending("port_speed", {"guid": "g1", "port": "1"}, "84x30", before="60")
    yield ending("port_heat", {"hca": "part mlx5_0", "port": "1"}, "84x30", before="60")
    port = {"instance": "rate", "device": "mlx5_0", "port": "1"}
    yield ending(SENT, port, "0+3000x160")
    yield ending(SENT, {**port, "port": "$1.\\"}, "0+6000x160")  # what a regular expression would make much of
    yield ending(SENT, {**port, "instance": "sound"}, "0+15x160")
    yield ending(LINKED, {**port, "instance": "events"}, "3x10 4x10 5x10", before="2")
    yield ending("collector_success", {"instance": "events"}, "1x160")


NAMES = ("hot", "cold", "long", "kin", "job", "mig", "odd", "mapped", "part", "rate", "sound", "events")


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with PrometheusServer() as server:
        write(server.url, history())
        with PrometheusMetrics(PrometheusSettings(server.url)) as metrics:
            yield Scene(metrics, server.url, law(), {name: node(name) for name in NAMES})


@pytest.fixture(scope="module")
def found(scene: Scene) -> dict[tuple[str, str], list[Evidence]]:
    """By policy and node: what would be recorded, were every device that is found bad taken out."""
    bad = [offence for loaded in scene.law.policies for offence in scene.judgement(loaded.name).bad]
    taken = [
        Decision(
            NOW,
            Kind.DECIDED,
            Action.QUARANTINE,
            "r",
            "t",
            node=offence.node.name,
            case=f"q-{number}",
            policy=offence.policy.name,
            evidence=offence.evidence,
        )
        for number, offence in enumerate(bad)
    ]
    observer = Observer(Nodes(scene.nodes), scene.metrics, Moment(NOW), scene.law, past=scene.metrics)  # type: ignore[arg-type]
    told: dict[tuple[str, str], list[Evidence]] = {}
    for made in observer.traced(taken, State()):
        assert made.evidence is not None
        told.setdefault((str(made.policy), str(made.node)), []).append(made.evidence)
    return told


def only(found: dict[tuple[str, str], list[Evidence]], name: str, of: str) -> tuple[Evidence, Trace]:
    (evidence,) = found[name, of]
    assert evidence.trace is not None
    return evidence, evidence.trace


def spacing(trace: Trace) -> set[timedelta]:
    times = [at for at, _ in trace.points]
    return {b - a for a, b in pairwise(times)}


FORMS = [
    # policy, node, raw, bound, above, minutes that are shown
    ("hot", "hot", True, 78.0, True, 30),
    ("hot", "job", True, 78.0, True, 30),
    ("hot", "mig", True, 78.0, True, 30),
    ("cold", "cold", True, 20.0, False, 30),
    ("long", "long", True, 95.0, True, 60),
    ("very-long", "long", False, 95.0, True, 25),
    ("kin", "kin", False, 15.0, True, 30),
    ("mapped", "mapped", False, 78.0, True, 30),
    ("part", "part", True, 78.0, True, 30),
    ("events", "events", False, 2.0, True, 30),
    ("events-expr", "events", False, 2.0, True, 30),
]


@pytest.mark.parametrize(("name", "of", "raw", "bound", "above", "minutes"), FORMS)
def test_it_ends_in_the_value_that_the_finding_was_for(
    found: dict[tuple[str, str], list[Evidence]],
    name: str,
    of: str,
    raw: bool,
    bound: float,
    above: bool,
    minutes: int,
) -> None:
    evidence, trace = only(found, name, of)
    assert trace.note == ""
    assert trace.points[-1] == (NOW, evidence.value)
    assert (trace.raw, trace.bound, trace.above) == (raw, bound, above)
    assert NOW - timedelta(minutes=minutes) <= trace.points[0][0]
    begun = min(timedelta(minutes=minutes), timedelta(minutes=40))
    assert trace.points[0][0] <= NOW - begun + timedelta(minutes=1)
    assert trace.since is not None
    assert trace.points[0][0] < trace.since < NOW, "something of the time before is shown"
    assert len(trace.points) <= 240


@pytest.mark.parametrize(("name", "of"), [(name, of) for name, of, raw, *_ in FORMS if not raw])
def test_values_at_even_steps_are_what_the_query_answers_then(
    scene: Scene, found: dict[tuple[str, str], list[Evidence]], name: str, of: str
) -> None:
    evidence, trace = only(found, name, of)
    assert not any(apart % min(spacing(trace)) for apart in spacing(trace))
    for at, value in trace.points[::10]:
        answer = scene.metrics.query(trace.query, at=at, timeout=timedelta(seconds=10))
        assert isinstance(answer, Samples)
        assert value in [
            s.value for s in answer.samples if all(evidence.labels.get(k) == v for k, v in s.labels.items())
        ]


def test_samples_are_those_that_were_scraped(found: dict[tuple[str, str], list[Evidence]]) -> None:
    _, trace = only(found, "hot", "hot")
    assert spacing(trace) == {timedelta(seconds=15)}
    values = [value for _, value in trace.points]
    assert values[-35:] == [84.0] * 31 + [85.0] * 4
    assert set(values[:-35]) == {60.0}


def test_another_job_does_not_end_the_line_and_the_hotter_instance_counts(
    found: dict[tuple[str, str], list[Evidence]],
) -> None:
    _, job = only(found, "hot", "job")
    assert spacing(job) == {timedelta(seconds=15)}
    assert [value for _, value in job.points][-40:] == [84.0] * 24 + [86.0] * 16
    _, mig = only(found, "hot", "mig")
    assert [value for _, value in mig.points][-32:] == [70.0, *[84.0] * 31]


def test_what_is_no_measurement_is_not_shown(found: dict[tuple[str, str], list[Evidence]]) -> None:
    evidence, trace = only(found, "hot", "odd")
    assert trace.note == "samples outside 1 to 129 °C are left out: 2"
    assert evidence.value == 84.0
    assert max(value for _, value in trace.points) == 84.0


def test_an_expression_is_asked_about_these_devices_alone(
    scene: Scene, found: dict[tuple[str, str], list[Evidence]]
) -> None:
    both = found["rate", "rate"]
    assert [evidence.labels["port"] for evidence in both] == ["$1.\\", "1"]
    for evidence, speed in zip(both, (400.0, 200.0), strict=True):
        assert evidence.trace is not None
        assert {value for _, value in evidence.trace.points} == {speed}
        assert not evidence.trace.raw
        answer = scene.metrics.query(evidence.trace.query, at=NOW, timeout=timedelta(seconds=10))
        assert isinstance(answer, Samples)
        assert len(answer.samples) == 2, "and not about the port of the sound machine"
