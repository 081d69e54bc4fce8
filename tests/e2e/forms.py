"""For the tests of query forms: one written history, and what a policy finds in it at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import requests

from quarantine.adapters.prometheus import PrometheusMetrics
from quarantine.core import promql
from quarantine.core.case import Case, Evidence, Finding, Phase
from quarantine.core.decision import State
from quarantine.core.identity import Directory
from quarantine.core.judge import Judgement, judge
from quarantine.core.model import Device, Mode, Node, Samples, Severity, Verdict
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import load_reading, readings_of
from quarantine.core.selectors import Labels
from quarantine.core.snapshot import Snapshot
from quarantine.observe import Observer
from quarantine.ports import LedgerView
from quarantine.sandbox.notation import values
from quarantine.sandbox.remotewrite import Series
from tests.core.world import node

START = datetime(2026, 11, 1, tzinfo=UTC)
STEP = timedelta(seconds=15)
NOW = START + timedelta(minutes=40)
STEPS = 161  # from START to NOW, both there; four a minute


def ending(metric: str, labels: Mapping[str, str], text: str, *, before: str = "_") -> Series:
    """A series whose last sample is at NOW. `before` fills the time since START: a value, or `_` for nothing."""
    tail = values(text)
    first = values(before)[0]
    told = [first] * (STEPS - len(tail)) + tail
    assert len(told) == STEPS
    samples = [(START + STEP * n, value) for n, value in enumerate(told) if value is not None]
    return Series({"__name__": metric, "cluster": "a", **labels}, samples)


@dataclass(frozen=True)
class Moment:
    """A clock that stands still."""

    at: datetime

    def now(self) -> datetime:
        return self.at


@dataclass(frozen=True)
class Nodes:
    """A cluster of which only the nodes are asked."""

    known: Mapping[str, Node]

    def nodes(self) -> Mapping[str, Node]:
        return self.known


@dataclass(frozen=True)
class Scene:
    """A Prometheus with a history, the nodes of a cluster, and what people wrote."""

    metrics: PrometheusMetrics
    url: str
    law: Rules
    nodes: Mapping[str, Node]
    suspects: Sequence[Case] = field(default=())

    def snapshot(self, at: datetime = NOW) -> Snapshot:
        """What the controller sees at a moment."""
        observer = Observer(Nodes(self.nodes), self.metrics, Moment(at), self.law)  # type: ignore[arg-type]
        view = LedgerView(State(cases={case.id: case for case in self.suspects}), (), ())
        return observer.snapshot(view, cluster="a", mode=Mode.OBSERVE, actor="t")

    def judgement(self, name: str, at: datetime = NOW) -> Judgement:
        """What a policy says at a moment."""
        look = self.snapshot(at)
        policy = self.policy(name)
        return judge(policy, look.answers[name], self.law, Directory.of(look.nodes), look.uptime)

    def bad(self, name: str, at: datetime = NOW) -> dict[str, Evidence]:
        """The nodes that a policy finds bad, with the evidence of one of their devices."""
        found = self.judgement(name, at)
        assert found.failed is None, found.failed
        return {offence.node.name: offence.evidence for offence in found.bad}

    def policy(self, name: str) -> LoadedPolicy:
        """By name."""
        return next(p for p in self.law.policies if p.name == name)

    def range_equals_instant(self, name: str, devices: Sequence[Labels], since: timedelta, until: timedelta) -> int:
        """Asks every query of a policy both ways at each step about NOW; returns how many samples were compared."""
        policy, compared = self.policy(name), 0
        for reading in readings_of(policy, self.law):
            load = load_reading(policy, self.law, reading)
            queries = [promql.candidates(policy, reading), promql.bad(policy, reading, devices)]
            queries.append(promql.coverage(policy, reading))
            queries.append(promql.good(policy, reading, load, devices) if load is not None else None)
            for query in queries:
                compared += self._both_ways(query, NOW - since, NOW + until) if query is not None else 0
        return compared

    def _both_ways(self, query: str, start: datetime, end: datetime) -> int:
        step = 30
        params = {"query": query, "start": start.timestamp(), "end": end.timestamp(), "step": step}
        answer = requests.post(f"{self.url}/api/v1/query_range", data=params, timeout=30)
        answer.raise_for_status()
        by_range: dict[float, set[tuple[frozenset[tuple[str, str]], float]]] = {}
        for line in answer.json()["data"]["result"]:
            for at, value in line["values"]:
                labels = frozenset((k, v) for k, v in line["metric"].items() if k != "__name__")
                by_range.setdefault(float(at), set()).add((labels, float(value)))
        moment, compared = start, 0
        while moment <= end:
            asked = self.metrics.query(query, at=moment, timeout=timedelta(seconds=30))
            assert isinstance(asked, Samples), asked
            instant = {(frozenset(s.labels.items()), s.value) for s in asked.samples}
            assert instant == by_range.get(moment.timestamp(), set()), (query, moment)
            compared += len(instant)
            moment += timedelta(seconds=step)
        return compared


def suspected(policy: str, of: str, device: Device, source: str, labels: Labels) -> Case:
    """A case with one finding, as a query of that source would have it."""
    evidence = Evidence("q", 84, "°C", "t", NOW, source=source, labels=labels)
    finding = Finding(policy, device, Severity.CRITICAL, NOW, Verdict.BAD, evidence)
    return Case(of, of, node(of).machine, Phase.SUSPECTED, NOW, NOW, (finding,), "t", "r")
