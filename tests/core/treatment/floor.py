"""Machines that are out, with pods on them: what the drain's tests look at, and what carries out its evictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, Phase, PodRef
from quarantine.core.decision import ACTION_OF, Decision, Kind, PendingEffect, State
from quarantine.core.draft import Draft
from quarantine.core.model import Failed, Node
from quarantine.core.policy import Rules
from quarantine.core.response import Drain, Moment, Release
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.core.treatment.drain import drains
from quarantine.core.treatment.owed import Owed
from quarantine.core.workload import Class, Gang, Pod, Workloads
from tests.core.world import MINUTE, NOW, quarantined, rules, snapshot


def pod(name: str, on: str, **changes: object) -> Pod:
    """A service's pod that runs since long before the quarantine."""
    uid = str(changes.pop("uid", f"uid-{name}"))
    base = Pod(PodRef("inference", name, uid), on, Class.SERVICE, started_at=NOW - timedelta(days=1))
    return replace(base, **changes)  # type: ignore[arg-type]


def rank(name: str, on: str, gang: str = "JobSet training/llama", **changes: object) -> Pod:
    """A pod of a gang that trains."""
    made = pod(name, on, **{"kind": Class.TRAINING, "gang": gang, **changes})
    return replace(made, ref=replace(made.ref, namespace="training"))


def gang(*pods: Pod, **changes: object) -> Gang:
    """What the cluster says of the gang of these pods."""
    running = [p for p in pods if p.running]
    base = Gang(
        pods[0].gang,
        pods=len(pods),
        running=len(running),
        nodes=frozenset(p.node for p in pods),
        youngest=max((p.started_at for p in running if p.started_at is not None), default=None),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def paced(evictions: int = 100, machines: int = 10) -> Rules:
    """Rules over one pool with this pace of drains."""
    pace = {"evictionsPerMinute": evictions, "machinesAtOnce": machines}
    budget = {"quarantined": "50%", "unavailable": "60%", "perHour": "50%"}
    return rules(pools=[{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget, "drain": pace}])


@dataclass
class Floor:
    """A cluster with open cases whose drains are owed. Time passes by `at`, and by `minutes()`."""

    state: State
    nodes: dict[str, Node]
    pods: list[Pod] = field(default_factory=list)
    gangs: dict[str, Gang] = field(default_factory=dict)  # by key, where what is made of the pods is not what is meant
    drain: dict[str, Drain] = field(default_factory=dict)  # by node; of the others: now
    law: Rules = field(default_factory=paced)
    at: datetime = NOW + MINUTE
    protected: set[str] = field(default_factory=set)  # pods that a disruption budget keeps, by name
    doomed: set[str] = field(default_factory=set)  # those that can never be evicted
    attempts: dict[str, int] = field(default_factory=dict)  # by case
    stopped: set[str] = field(default_factory=set)  # nodes about which nothing is owed
    unseen: set[str] = field(default_factory=set)  # nodes that were not asked about
    failed: Failed | None = None

    def case(self, node: str) -> Case:
        """The node's case, open or ended."""
        return next(case for case in self.state.cases.values() if case.node == node)

    def phase(self, node: str) -> Phase:
        """Of the node's case."""
        return self.case(node).phase

    def on(self, node: str) -> list[str]:
        """The names of the pods that are there."""
        return [p.ref.name for p in self.pods if p.node == node]

    def due(self) -> Mapping[str, Owed]:
        """What is owed: the drain of each machine."""
        return {
            case.id: Owed(self.drain.get(case.node, Drain(when=Moment.NOW)), (), Release())
            for case in self.state.cases.values()
            if case.marked and case.node not in self.stopped
        }

    def works(self) -> Workloads | Failed:
        """What is seen of the pods."""
        if self.failed is not None:
            return self.failed
        of_cases = {case.node for case in self.state.cases.values() if case.marked} - self.unseen
        keys = dict.fromkeys(p.gang for p in self.pods if p.gang)
        made = {key: gang(*(p for p in self.pods if p.gang == key)) for key in keys}
        here = {node: tuple(p for p in self.pods if p.node == node) for node in of_cases}
        return Workloads(here, {**made, **self.gangs})

    def look(self) -> Snapshot:
        """What a cycle sees."""
        pending = [
            PendingEffect(f"{case.id}/evict", case.id, Effect.EVICT, self.at, self.attempts.get(case.id, 0))
            for case in self.state.cases.values()
            if case.is_pending(Effect.EVICT)
        ]
        found = snapshot(self.nodes, state=self.state, now=self.at, pending=pending)
        return replace(found, workloads=self.works())

    def plan(self) -> list[Decision]:
        """One cycle's decisions, folded; to decide again on the result yields nothing new."""
        look, due = self.look(), self.due()
        draft = Draft(look, self.law)
        drains(draft, due)
        self.state = draft.state
        again = Draft(replace(look, state=draft.state), self.law)
        drains(again, due)
        assert again.decisions == [], "planning again yields nothing new"
        return draft.decisions

    def carry_out(self) -> None:
        """As the API server and the kubelets do: pods that were asked end, and are gone at the next call."""
        self.pods = [p for p in self.pods if not p.terminating]
        for case in [c for c in self.state.cases.values() if c.is_pending(Effect.EVICT)]:
            asked = {ref.uid for ref in case.leaving[-1].pods}
            here = [p for p in self.pods if p.ref.uid in asked]
            leaves = {p.ref.uid for p in here if p.ref.name not in self.protected | self.doomed}
            ended = {"terminating": True, "running": False}
            self.pods = [replace(p, **ended) if p.ref.uid in leaves else p for p in self.pods]  # type: ignore[arg-type]
            if any(p.ref.name in self.protected for p in here):
                self.attempts[case.id] = self.attempts.get(case.id, 0) + 1
                continue
            self.attempts.pop(case.id, None)
            self.settle(case, done=not any(p.ref.name in self.doomed for p in here))

    def settle(self, case: Case, *, done: bool) -> None:
        """The outcome of a case's evictions."""
        kind, action = Kind.DONE if done else Kind.FAILED, ACTION_OF[Effect.EVICT]
        self.state = fold(
            self.state, [Decision(self.at, kind, action, "r", "t", case=case.id, node=case.node, effect=Effect.EVICT)]
        )

    def minutes(self, count: int) -> list[Decision]:
        """So many cycles, one a minute, carried out: everything that was decided."""
        found = []
        for _ in range(count):
            found += self.plan()
            self.carry_out()
            self.at += MINUTE
        return found


def floor(*names: str, **fields: object) -> Floor:
    """These machines quarantined at NOW and marked, in this order; it is a minute later."""
    state, nodes = quarantined(*names)
    opened = {name: NOW - timedelta(seconds=len(names) - number) for number, name in enumerate(names)}
    cases = {case.id: replace(case, opened_at=opened[case.node]) for case in state.cases.values()}
    return Floor(replace(state, cases=cases), nodes, **fields)  # type: ignore[arg-type]


def one(*pods: Pod, when: str = "now", **fields: object) -> Floor:
    """node-3 out, with these pods on it and a drain of this moment."""
    drain = {"node-3": Drain.model_validate({"when": when, **fields})}
    return floor("node-3", pods=list(pods), drain=drain)


def asked(decisions: Iterable[Decision]) -> list[list[str]]:
    """The names of the pods of each batch, in order."""
    return [[ref.name for ref in d.leaving.pods] for d in decisions if d.leaving is not None]


def held(decisions: Sequence[Decision]) -> list[tuple[str, str]]:
    """What was told: by what a node is held, and why."""
    return [(str(d.held_by), d.reason) for d in decisions if d.held_by is not None]
