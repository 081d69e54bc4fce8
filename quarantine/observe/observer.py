"""The look at everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ParamSpec, TypeVar

import structlog

from quarantine.core import promql
from quarantine.core.decision import Decision, State
from quarantine.core.model import Answer, Mode, Node, PolicyAnswers, Samples
from quarantine.core.policy import Rules
from quarantine.core.readings import boot_grace, needs_uptime, uptime_readings
from quarantine.core.snapshot import Snapshot
from quarantine.observe import machines, traces
from quarantine.observe.asking import Asker
from quarantine.observe.policies import Questions
from quarantine.observe.tickets import Follower
from quarantine.ports import Clock, Cluster, LedgerView, Metrics, Past, Procedures

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long questions may take and how often the slow one is asked."""

    deadline: timedelta = timedelta(seconds=60)  # for all of a cycle's questions together
    query_timeout: timedelta = timedelta(seconds=20)
    coverage_interval: timedelta = timedelta(minutes=5)
    delay: timedelta = timedelta(0)  # evaluate a little in the past, where samples arrive late
    workers: int = 4
    traces: timedelta = timedelta(seconds=3)  # for the series of all of a cycle's decisions together


@dataclass(slots=True)
class Observer:
    """Asks; remembers nothing but the last coverage answers, which are asked for at a slow pace."""

    cluster: Cluster
    metrics: Metrics
    clock: Clock
    rules: Rules
    pace: Pace = field(default_factory=Pace)
    procedures: Procedures | None = None
    past: Past | None = None  # None: decisions are recorded without a series
    follower: Follower | None = None  # None: nothing is heard of tickets
    asked: Mapping[str, float] = field(
        default_factory=dict
    )  # seconds that each policy's questions took in the last look
    _questions: Questions = field(default_factory=Questions)

    def snapshot(self, view: LedgerView, *, cluster: str, mode: Mode, actor: str) -> Snapshot:
        """One look at everything. Raises ClusterUnavailable where the nodes cannot be seen.

        What else could not be asked is `Failed` in the answers.
        """
        now = self.clock.now()
        nodes = self.cluster.nodes()
        until = self.clock.now() + self.pace.deadline
        ask = Asker(self.metrics, self.clock, now, now - self.pace.delay, until, self.pace.query_timeout)
        answers = self._policies(ask, view, nodes)
        return Snapshot(
            now=now,
            cluster=cluster,
            mode=mode,
            actor=actor,
            nodes=nodes,
            answers=answers,
            state=view.state,
            requests=view.requests,
            pending=view.pending,
            uptime=self._uptime(ask, answers),
            workloads=machines.workloads(self.cluster, ask, self.rules, view.state, answers, nodes),
            runs=machines.runs(self.procedures, self.rules, view.state),
            hardware=machines.hardware(ask, self.rules, view.state, nodes),
            tickets={} if self.follower is None else self.follower.heard(view.state),
        )

    def forget(self) -> None:
        """Another process may have led meanwhile: what this one heard is not news any more."""
        if self.follower is not None:
            self.follower.forget()

    def traced(self, decisions: Sequence[Decision], before: State) -> tuple[Decision, ...]:
        """The decisions with a short series where their evidence opens a case or joins one. Changes nothing else.

        Takes no longer than the pace allows, and never raises: what is decided does not depend on it. `before`: the
        state that they were taken in.
        """
        if self.past is None:
            return tuple(decisions)
        limit, workers = self.pace.traces, self.pace.workers
        try:
            return traces.traced(decisions, before, self.rules, self.past, self.clock, limit=limit, workers=workers)
        except Exception:  # noqa: BLE001  (a machine is taken out with a chart or without)
            structlog.get_logger().exception("a defect left decisions without their series; please report it")
            return tuple(decisions)

    def _policies(self, ask: Asker, view: LedgerView, nodes: Mapping[str, Node]) -> Mapping[str, PolicyAnswers]:
        rules, every = self.rules, self.pace.coverage_interval
        cases = [case for case in view.state.cases.values() if case.open]
        self._questions.forget(rules)
        with ThreadPoolExecutor(max_workers=self.pace.workers, thread_name_prefix="ask") as pool:
            asked = {
                policy.name: pool.submit(_timed, self._questions.about, ask, rules, policy, cases, nodes, every)
                for policy in rules.policies
            }
            found = {name: future.result() for name, future in asked.items()}
        self.asked = {name: seconds for name, (_, seconds) in found.items()}
        return {name: answers for name, (answers, _) in found.items()}

    def _uptime(self, ask: Asker, answers: Mapping[str, PolicyAnswers]) -> Mapping[str, Answer]:
        """Once for all policies, and only where one of them cannot do without: it names every node."""
        grace = boot_grace(self.rules)
        if grace is None or not any(needs_uptime(p, found=_names(answers[p.name])) for p in self.rules.policies):
            return {}
        return {reading.key: ask(promql.uptime(reading, grace)) for reading in uptime_readings(self.rules)}


def _timed(ask: Callable[P, T], *args: P.args, **options: P.kwargs) -> tuple[T, float]:
    """What it gives, and the seconds that it took."""
    began = time.monotonic()
    return ask(*args, **options), time.monotonic() - began


def _names(answers: PolicyAnswers) -> bool:
    """Whether the trigger's answers name anything."""
    return any(isinstance(answer, Samples) and answer.samples for answer in answers.trigger.values())
