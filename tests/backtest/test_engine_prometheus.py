"""The backtest on a real Prometheus decides what the controller's own cycles would have decided, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.backtest.engine import Manner, run, steps
from quarantine.backtest.result import Span
from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision
from quarantine.core.model import Device, DeviceKind, Mode, Node
from quarantine.core.policy import Rules
from quarantine.core.rehearsal import Rehearsal
from quarantine.core.signal import SignalSpec
from quarantine.observe import Observer
from quarantine.ports import LedgerView
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import STALE, Series, write
from tests.core.world import fleet, nvlink, policy, rules

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SCRAPE = timedelta(seconds=30)
HOURS = 3
COUNT = HOURS * 120
SPAN = Span(START, START + timedelta(hours=HOURS), timedelta(minutes=1))
NODES, GPUS = 6, 4
NODE = Device(DeviceKind.NODE, "")
DCGM = "dcgm-exporter"


def _minutes(text: str) -> list[float | None]:
    """`60x30 84x20 _x10 stale`: a value for so many minutes; the last one goes on to the end."""
    out: list[float | None] = []
    for item in text.split():
        value, _, minutes = item.partition("x")
        said = {"_": None, "stale": STALE}.get(value) if value in ("_", "stale") else float(value)
        out += [said] * (2 * int(minutes) if minutes else 1)
    return [*out, *[out[-1]] * (COUNT - len(out))][:COUNT]


# What is special; everything else is 65 °C, busy, without errors, its exporter alive.
HEAT = {
    ("node-0", 1): "65x20 84x40 60x200",  # hot, then good again under load
    ("node-1", 0): "65x30 84x20 stale _x20 84x60 60x200",  # its exporter dies while it is hot
    ("node-1", 2): "65x60 90x2 65x10 90x2 65x200",  # spikes
    ("node-2", 3): "65x70 79x12 77x1 79x12 70x200",  # one cool sample among hot ones
    ("node-3", 0): "65x20 200x20 65x200",  # no measurement
    ("node-9", 0): "65x10 88x30 65x200",  # of no node of this cluster
}
BUSY = {("node-1", 0): "0.7x90 0x200"}  # idle once it is cool: that proves nothing
ERRORS = {("node-4", 2): "0x40 30x30 60x200", ("node-5", 1): "7x50 0x20 2x10 14x200"}  # a jump; a reset


LATE = ("node-1", 1)  # is not there for the first half an hour, and nothing is known of it
GONE = ("node-5", 3)  # falls off the bus after 40 minutes; its siblings go on
BOOTS = {"node-2": 60}  # after so many minutes: it is hot soon after
UNTOLD = {"node-2": (78, 91)}  # from which minute to which its uptime is not scraped: its grace ends meanwhile


def _history() -> Iterator[Series]:
    for n in range(NODES):
        up: list[float | None] = [30.0 * i + (0 if f"node-{n}" in BOOTS else 1e6) for i in range(COUNT)]
        told = [*up[: 2 * BOOTS.get(f"node-{n}", 0)], *up][:COUNT]
        begin, end = UNTOLD.get(f"node-{n}", (0, 0))
        told[2 * begin : 2 * end] = [None] * (2 * (end - begin))
        yield _series("node_up_seconds", {"node": f"node-{n}"}, told)
        yield _series("agent_beat", {"node": f"node-{n}"}, _minutes("1x70 stale _x30 1x90" if n == 3 else "1x1"))
    for n in (*range(NODES), 9):
        for gpu in range(GPUS):
            key = (f"node-{n}", gpu)
            labels = {"Hostname": key[0], "UUID": f"GPU-{n}-{gpu}", "gpu": str(gpu)}
            dead = [value is None or value is STALE for value in _minutes(HEAT.get(key, "65x1"))]
            alive = [None if gone else 1000.0 * i for i, gone in enumerate(dead)]
            yield _series("DCGM_FI_DEV_GPU_TEMP", labels, _minutes(HEAT.get(key, "65x1")))
            yield _series("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels, alive)
            yield _series("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", labels, _minutes(BUSY.get(key, "0.7x1")))
            yield _series("NVLINK_REPLAY", labels, _minutes(ERRORS.get(key, "0x1")))
            yield _series("NVLINK_CRC", labels, _minutes("0x1"))
            listed = {GONE: "1x40 stale _x300", LATE: "_x30 1x300"}.get(key, "1x1")
            yield _series("gpu_listed", labels, _minutes(listed))


def _series(name: str, labels: dict[str, str], values: Sequence[float | None]) -> Series:
    samples = [(START + i * SCRAPE, value) for i, value in enumerate(values) if value is not None]
    return Series({"__name__": name, **labels}, samples)


@pytest.fixture(scope="module")
def metrics() -> Iterator[PrometheusMetrics]:
    with PrometheusServer() as server:
        write(server.url, _history())
        with PrometheusMetrics(PrometheusSettings(server.url)) as made:
            yield made


RULES = rules(policy(breaker={"maxShare": "50%"}), nvlink(breaker={"maxShare": "50%"}))


class Now:
    """A clock that is set."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


class Obedient:
    """The rehearsal's nodes as a cluster."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal

    def nodes(self) -> dict[str, Node]:
        return dict(self._rehearsal.nodes)


def live(metrics: PrometheusMetrics, known: Rules, span: Span) -> list[Decision]:
    """What cycles decide that observe by instant queries, one after the other."""
    rehearsal = Rehearsal(known, fleet(NODES))
    clock = Now(span.start)
    observer = Observer(Obedient(rehearsal), metrics, clock, known)  # type: ignore[arg-type]
    decided: list[Decision] = []
    for i in range(span.grid.count):
        clock.at = span.grid.at(i)
        view = LedgerView(rehearsal.state, (), ())
        seen = observer.snapshot(view, cluster="rehearsal", mode=Mode.ENFORCE, actor="rehearsal")
        decided += rehearsal.step(seen.now, seen.answers, seen.uptime).decisions
    return decided


def test_it_decides_what_the_controller_would_have_decided(metrics: PrometheusMetrics) -> None:
    span = replace(SPAN, step=timedelta(minutes=2))  # half as many cycles to wait for
    expected = live(metrics, RULES, span)
    assert {d.action for d in expected} >= {Action.QUARANTINE, Action.RECOVER, Action.TICKET, Action.JUDGE}
    assert HeldBy.NO_SUCH_NODE in {d.held_by for d in expected}
    for manner in (Manner(), Manner(piece=37), Manner(piece=1000, every_step=True)):
        found = [d for step in steps(RULES, fleet(NODES), metrics, span, manner=manner) for d in step.plan.decisions]
        assert found == expected


def _signal(device: str, metric: str, **source: object) -> SignalSpec:
    node = {"first": ["Hostname"]} if device == "gpu" else {"first": ["node"]}
    more = {"device": {"first": ["UUID"], "index": "gpu"}} if device == "gpu" else {}
    fields = {"description": metric, "unit": "s", "device": device, "type": "gauge", "interval": "30s"}
    sources = [{"exporter": "agent", "metrics": [metric], "node": node, **more, **source}]
    return SignalSpec.model_validate({**fields, "plausible": {"min": 0, "max": 1e9}, "sources": sources})


def test_nor_do_absence_siblings_and_grace_make_a_difference(metrics: PrometheusMetrics) -> None:
    mild = {"recovery": None, "breaker": {"maxShare": "50%"}}
    again = {**mild, "recovery": {"for": "15m", "load": {"signal": "gpu.tensor", "above": 0.1, "exporter": DCGM}}}
    seen = {**mild, "recovery": {"for": "10m", "load": {"signal": "agent.beat", "above": 0.5}}}
    made = rules(
        policy(breaker={"maxShare": "50%"}, grace={"boot": "20m"}),
        policy("lost", signal="gpu.listed", trigger={"absent": True, "for": "5m", "within": "1h"}, **again),
        policy("blind", signal="agent.beat", trigger={"absent": True, "for": "5m"}, **seen),
        policy("warmer", trigger={"aboveSiblings": 18, "for": "5m"}, mode="observe", **mild),
        uptime="node.up",
        pools=[{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "expected": {"gpus": GPUS}}],
    )
    signals = {
        "gpu.listed": _signal("gpu", "gpu_listed"),
        "agent.beat": _signal("node", "agent_beat"),
        "node.up": _signal("node", "node_up_seconds"),
    }
    known = replace(made, signals={**made.signals, **signals})
    span = replace(SPAN, end=START + timedelta(hours=2), step=timedelta(minutes=2))
    expected = live(metrics, known, span)
    assert {d.node for d in expected if d.held_by is HeldBy.GRACE} == {"node-2"}
    out = [d.at for d in expected if d.node == "node-2" and d.policy == "gpu-hot" and d.held_by is not HeldBy.GRACE]
    assert out[0] == START + timedelta(minutes=92), "the first look at which its uptime is told again"
    assert {"lost", "blind", "warmer", "gpu-hot"} <= {d.policy for d in expected if d.action is not Action.JUDGE}
    recovered = {(d.policy, d.node) for d in expected if d.action is Action.RECOVER and d.device == NODE}
    assert recovered == {("lost", "node-1"), ("blind", "node-3")}
    for manner in (Manner(), Manner(piece=13)):
        found = [d for step in steps(known, fleet(NODES), metrics, span, manner=manner) for d in step.plan.decisions]
        assert found == expected


def test_what_it_shows(metrics: PrometheusMetrics) -> None:
    told: list[datetime] = []
    result = run(RULES, fleet(NODES), metrics, SPAN, progress=told.append, manner=Manner(piece=60))
    assert told == [SPAN.grid.at(59), SPAN.grid.at(119), SPAN.grid.at(179), SPAN.end]
    assert {(o.node, o.policy) for o in result.outages} == {
        ("node-0", "gpu-hot"),
        ("node-1", "gpu-hot"),
        ("node-4", "nvlink"),
    }
    # Half of the pool is out; both are good again under load after a while.
    budget = {h.node: h.end for h in result.held if h.held_by is HeldBy.BUDGET}
    assert budget.keys() == {"node-2", "node-5"}
    assert all(end is not None and end < SPAN.end for end in budget.values())
    assert all(o.end is None for o in result.outages)
    assert [h.node for h in result.held if h.stray] == ["node-9"]
    assert result.gaps == ()
    assert not result.blind


def test_what_is_looked_at_without_a_decision(metrics: PrometheusMetrics) -> None:
    wanted = [START + timedelta(minutes=10), START + timedelta(minutes=17, seconds=40), SPAN.end]
    seen = [step.at for step in steps(RULES, fleet(NODES), metrics, SPAN, look_at=wanted) if not step.plan.decisions]
    assert seen == [START + timedelta(minutes=10), START + timedelta(minutes=17), SPAN.end]


def test_a_prometheus_that_is_away_is_a_gap_and_no_health(metrics: PrometheusMetrics) -> None:
    with PrometheusMetrics(PrometheusSettings("http://127.0.0.1:1")) as nobody:
        result = run(RULES, fleet(NODES), nobody, SPAN, manner=Manner(piece=20))
    assert result.blind
    assert result.queries < 10  # nobody is there, and that is known soon
    assert {gap.policy for gap in result.gaps} == {"gpu-hot", "nvlink"}
    assert all((gap.start, gap.end) == (SPAN.start, SPAN.end) for gap in result.gaps)
    assert not result.outages
    assert {h.held_by for h in result.held} == {HeldBy.NO_ANSWER}
