"""Whole cases by real plans, with the series that a decision keeps: for stories and charts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.core.case import Evidence
from quarantine.core.decision import Action, Decision
from quarantine.core.model import Device, DeviceKind, Machine
from quarantine.core.record.milestones import Milestones
from quarantine.core.record.trace import Trace
from tests.core.treatment.life import ON_PROOF, REPLACE, REPORT, Life, law
from tests.core.world import MINUTE, NOW, node

HOUR = timedelta(hours=1)
NEW = Machine("uid-new", "acme://new", "sys-new", "boot-new")
GPU = Device(DeviceKind.GPU, "GPU-4f2a9c1e-77d0-4e1b-9f5c-0b8d5e6a7c13", "3")
FOUND = Evidence(
    query='bad(temperature{cluster="a|b"})',
    value=84.0,
    unit="°C",
    threshold="above 78 °C for 5m, 10% tolerated",
    at=NOW,
    signal="gpu.temperature",
    source="dcgm-exporter/DCGM_FI_DEV_GPU_TEMP",
    labels={"Hostname": "node-3", "gpu": "3"},
    covered=160,
    offenders=1,
)

Row = tuple[int, Decision]


def warming(to: float = 84.0, count: int = 60, until: datetime = NOW) -> Trace:
    """A GPU that idles, warms, and stays hot: a sample every half minute."""
    step = timedelta(seconds=30)
    values = [min(to, 60 + max(0.0, n - count * 0.6) * 2) for n in range(count)]
    points = tuple((until - step * (count - 1 - n), value) for n, value in enumerate(values))
    return Trace("temperature[30m]", points, raw=True, bound=78.0, since=until - 5 * MINUTE)


def whole(trace: Trace | None = None) -> list[Row]:
    """node-3: found hot at NOW, reported, emptied, replaced after five hours, proven and released."""
    life = Life(law(ladder=[REPORT, {**REPLACE, "after": "10m"}], release=ON_PROOF, drain="now"))
    life.cycles(2)
    life.at = NOW + 11 * MINUTE
    life.cycle()
    life.at, life.hot = NOW + 5 * HOUR, False
    life.nodes = {**life.nodes, life.node: node(life.node, machine=NEW)}
    life.cycles(2)
    life.cool = True
    life.at = NOW + 7 * HOUR
    life.cycles(2)
    return numbered(life.trail, trace)


def numbered(trail: Iterable[Decision], trace: Trace | None = None) -> list[Row]:
    """As the ledger has them: outcomes name their node, and what was found has its series."""
    return [(seq, _as_recorded(decision, trace)) for seq, decision in enumerate(trail, start=101)]


def _as_recorded(decision: Decision, trace: Trace | None) -> Decision:
    decision = replace(decision, node="node-3" if decision.case else decision.node)
    if decision.evidence is None or decision.action not in (Action.QUARANTINE, Action.JOIN):
        return decision
    return replace(decision, evidence=replace(decision.evidence, trace=trace))


def out_hours(milestones: Milestones, since: datetime, until: datetime) -> float:
    """For how many hours of this window the machine was out of service because of us: the ledger adds it up in SQL.

    The taint takes it out: a case that was decided and not marked yet costs nothing. One that is out still is out until
    the window's end.
    """
    if milestones.marked_at is None:
        return 0.0
    begun, over = max(milestones.marked_at, since), min(milestones.back_at or until, until)
    return max(over - begun, timedelta(0)) / timedelta(hours=1)
