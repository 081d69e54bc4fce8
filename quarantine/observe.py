"""Read the world once, into a frozen snapshot: nodes, the ledger's state, and what Prometheus answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core import promql
from quarantine.core.case import Case
from quarantine.core.identity import device_of
from quarantine.core.model import Answer, Device, Failed, FailureKind, Mode, Node, PolicyAnswers, Sample, Samples
from quarantine.core.narrowing import (
    ASKED_TOGETHER,
    Key,
    devices_of,
    found_by_others,
    key_of,
    parts,
    to_recover,
    too_many_gone,
)
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, boot_grace, load_reading, needs_uptime, readings_of, uptime_readings
from quarantine.core.selectors import Labels
from quarantine.core.snapshot import Snapshot
from quarantine.core.trigger import Form
from quarantine.ports import Clock, Cluster, LedgerView, Metrics


@dataclass(frozen=True, slots=True)
class Pace:
    """How long questions may take and how often the slow one is asked."""

    deadline: timedelta = timedelta(seconds=60)  # for all of a cycle's questions together
    query_timeout: timedelta = timedelta(seconds=20)
    coverage_interval: timedelta = timedelta(minutes=5)
    delay: timedelta = timedelta(0)  # evaluate a little in the past, where samples arrive late
    workers: int = 4


@dataclass(slots=True)
class _Coverage:
    at: datetime
    queries: Mapping[str, str]  # by reading, as they were asked
    answers: Mapping[str, Answer]


@dataclass(slots=True)
class Observer:
    """Asks; remembers nothing but the last coverage answers, which are asked for at a slow pace."""

    cluster: Cluster
    metrics: Metrics
    clock: Clock
    rules: Rules
    pace: Pace = field(default_factory=Pace)
    _coverage: dict[str, _Coverage] = field(default_factory=dict)

    def snapshot(self, view: LedgerView, *, cluster: str, mode: Mode, actor: str) -> Snapshot:
        """One look at everything. Raises ClusterUnavailable; Prometheus' failures are in the answers."""
        now = self.clock.now()
        nodes = self.cluster.nodes()
        answers, uptime = self._ask_all(now, view, nodes)
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
            uptime=uptime,
        )

    def _ask_all(
        self, now: datetime, view: LedgerView, nodes: Mapping[str, Node]
    ) -> tuple[Mapping[str, PolicyAnswers], Mapping[str, Answer]]:
        until = self.clock.now() + self.pace.deadline
        ask = _Asker(self.metrics, self.clock, now - self.pace.delay, until, self.pace.query_timeout)
        open_cases = [case for case in view.state.cases.values() if case.open]
        with ThreadPoolExecutor(max_workers=self.pace.workers, thread_name_prefix="ask") as pool:
            asked = {
                policy.name: pool.submit(self._ask, ask, policy, now, open_cases, nodes)
                for policy in self.rules.policies
            }
            answers = {name: future.result() for name, future in asked.items()}
        return answers, self._uptime(ask, answers)

    def _uptime(self, ask: _Asker, answers: Mapping[str, PolicyAnswers]) -> Mapping[str, Answer]:
        """Once for all policies, and only where one of them cannot do without: it names every node."""
        grace = boot_grace(self.rules)
        if grace is None or not any(needs_uptime(p, found=_names(answers[p.name])) for p in self.rules.policies):
            return {}
        return {reading.key: ask(promql.uptime(reading, grace)) for reading in uptime_readings(self.rules)}

    def _ask(
        self, ask: _Asker, policy: LoadedPolicy, now: datetime, cases: Sequence[Case], nodes: Mapping[str, Node]
    ) -> PolicyAnswers:
        readings = readings_of(policy, self.rules)
        trigger = {reading.key: self._trigger(ask, policy, reading) for reading in readings}
        recovery: dict[str, Answer] = {}
        for reading in readings:
            devices = to_recover(policy, reading, cases, nodes)
            load = load_reading(policy, self.rules, reading)
            if devices and load is not None:
                query = [promql.good(policy, reading, load, part) for part in parts(devices, reading)]
                recovery[reading.key] = _together([ask(q) for q in query], query[0])
        known = self._cover(ask, policy, readings, now)
        return PolicyAnswers(trigger, recovery, known.answers, known.at, self._others(ask, policy, readings, trigger))

    def _trigger(self, ask: _Asker, policy: LoadedPolicy, reading: Reading) -> Answer:
        """Superset first, exact second: subqueries over a whole fleet cost seconds.

        An expression is not narrowed: parts of the devices would each be put to the whole fleet.
        """
        cheap = promql.candidates(policy, reading)
        if cheap is None:
            return ask(promql.bad(policy, reading, None))
        possible = ask(cheap)
        if isinstance(possible, Failed) or not possible.samples:
            return possible
        devices = _devices(possible, reading)
        many = len(devices) > ASKED_TOGETHER
        if many and policy.spec.trigger.form is Form.ABSENT:
            return Failed(FailureKind.MISCONFIGURED, too_many_gone(len(devices), reading), cheap)
        if many or reading.metric is None:
            return ask(promql.bad(policy, reading, None))
        queries = [promql.bad(policy, reading, part) for part in parts(devices, reading)]
        answer = _together([ask(query) for query in queries], queries[0])
        if isinstance(answer, Failed) or not answer.samples:
            return answer
        return self._described(ask, policy, reading, answer)

    def _described(self, ask: _Asker, policy: LoadedPolicy, reading: Reading, answer: Samples) -> Answer:
        """With the labels of the raw series, for people; an answer without them is as good.

        Except where the bound depends on the model: the record must not name another one's.
        """
        trigger = policy.spec.trigger
        since = trigger.memory if trigger.form is Form.ABSENT else None
        found: dict[Key, Labels] = {}
        for part in parts(_devices(answer, reading), reading):
            raw = ask(promql.describe(reading, part, since))
            if isinstance(raw, Failed) and trigger.models:
                return raw
            for sample in raw.samples if isinstance(raw, Samples) else ():
                found[key_of(sample.labels, reading)] = sample.labels
        named = (replace(s, labels={**found.get(key_of(s.labels, reading), {}), **s.labels}) for s in answer.samples)
        return replace(answer, samples=tuple(named))

    def _others(
        self, ask: _Asker, policy: LoadedPolicy, readings: Sequence[Reading], trigger: Mapping[str, Answer]
    ) -> dict[str, Answer]:
        """What the other exporters say of the devices found bad, to show where they disagree.

        What is absent must be absent from every reading.
        """
        absent = policy.spec.trigger.form is Form.ABSENT
        found = {r.key: _named(trigger[r.key], r) for r in readings}
        answers: dict[str, Answer] = {}
        for reading in readings:
            about = found_by_others(reading, readings, found, absent=absent)
            queries = [query for part in about if (query := promql.others(policy, reading, part)) is not None]
            if queries:
                answers[reading.key] = _together([ask(query) for query in queries], queries[0])
        return answers

    def _cover(self, ask: _Asker, policy: LoadedPolicy, readings: Sequence[Reading], now: datetime) -> _Coverage:
        known = self._coverage.get(policy.name)
        failed = known is not None and any(isinstance(answer, Failed) for answer in known.answers.values())
        empty = known is not None and not any(isinstance(a, Samples) and a.samples for a in known.answers.values())
        # Absence is judged by it, and the answer is then about a window that ends now.
        each_time = policy.spec.trigger.form is Form.ABSENT
        # Edited since: what is known of the former query says nothing about the present one.
        queries = {reading.key: promql.coverage(policy, reading) for reading in readings}
        other = known is not None and known.queries != queries
        old = known is None or now - known.at >= self.pace.coverage_interval
        if known is None or old or failed or empty or other or each_time:
            known = _Coverage(now, queries, {key: ask(query) for key, query in queries.items()})
            self._coverage[policy.name] = known
        return known


@dataclass(slots=True)
class _Asker:
    """Puts questions for one moment, each within its time-out and all within the cycle's deadline."""

    metrics: Metrics
    clock: Clock
    at: datetime
    until: datetime
    timeout: timedelta

    def __call__(self, query: str) -> Answer:
        left = self.until - self.clock.now()
        if left <= timedelta(0):
            detail = "the cycle's deadline passed before this could be asked: raise cycle.deadline, or ask less"
            return Failed(FailureKind.TIMEOUT, detail, query)
        answer = self.metrics.query(query, at=self.at, timeout=min(left, self.timeout))
        if isinstance(answer, Failed):
            return answer
        return Samples(tuple(replace(sample, query=query) for sample in answer.samples), query)


def _names(answers: PolicyAnswers) -> bool:
    """Whether the trigger's answers name anything."""
    return any(isinstance(answer, Samples) and answer.samples for answer in answers.trigger.values())


def _devices(answer: Samples, reading: Reading) -> list[Labels]:
    return devices_of((sample.labels for sample in answer.samples), reading)


def _named(answer: Answer, reading: Reading) -> list[Device]:
    samples = answer.samples if isinstance(answer, Samples) else ()
    devices = (device_of(reading, sample.labels) for sample in samples)
    return [device for device in devices if device is not None and device.name]


def _together(answers: Sequence[Answer], query: str) -> Answer:
    """All of them, or the first failure: half an answer is none."""
    samples: list[Sample] = []
    for answer in answers:
        if isinstance(answer, Failed):
            return answer
        samples += answer.samples
    return Samples(tuple(samples), query)
