"""Read the world once, into a frozen snapshot: nodes, the ledger's state, and what Prometheus answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core import promql
from quarantine.core.case import Case
from quarantine.core.model import Answer, Failed, FailureKind, Mode, PolicyAnswers, Sample, Samples, Verdict
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, load_reading, readings_of
from quarantine.core.selectors import Labels
from quarantine.core.snapshot import Snapshot
from quarantine.ports import Clock, Cluster, LedgerView, Metrics

ALONE = 8  # so few candidates are asked one by one: the query in the trail then names that device alone
NARROWED_AT_ONCE = 40  # devices named in one query, so that its text stays short
ASKED_TOGETHER = 400  # more candidates than this, and the exact question is put to the whole fleet at once


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
        return Snapshot(
            now=now,
            cluster=cluster,
            mode=mode,
            actor=actor,
            nodes=nodes,
            answers=self._ask_all(now, view),
            state=view.state,
            requests=view.requests,
            pending=view.pending,
        )

    def _ask_all(self, now: datetime, view: LedgerView) -> Mapping[str, PolicyAnswers]:
        until = self.clock.now() + self.pace.deadline
        open_cases = [case for case in view.state.cases.values() if case.open]
        with ThreadPoolExecutor(max_workers=self.pace.workers, thread_name_prefix="ask") as pool:
            asked = {
                policy.name: pool.submit(self._ask, policy, now, until, open_cases) for policy in self.rules.policies
            }
            return {name: future.result() for name, future in asked.items()}

    def _ask(self, policy: LoadedPolicy, now: datetime, until: datetime, cases: Sequence[Case]) -> PolicyAnswers:
        ask = _Asker(self.metrics, self.clock, now - self.pace.delay, until, self.pace.query_timeout)
        readings = readings_of(policy, self.rules)
        trigger = {reading.key: self._trigger(ask, policy, reading) for reading in readings}
        recovery: dict[str, Answer] = {}
        for reading in readings:
            devices = _to_recover(policy, reading, cases)
            load = load_reading(policy, self.rules, reading)
            if devices and load is not None:
                query = [promql.good(policy, reading, load, part) for part in _parts(devices)]
                recovery[reading.key] = _together([ask(q) for q in query], query[0])
        known = self._cover(ask, policy, readings, now)
        return PolicyAnswers(trigger, recovery, known.answers, known.at)

    def _trigger(self, ask: _Asker, policy: LoadedPolicy, reading: Reading) -> Answer:
        """Superset first, exact second: subqueries over a whole fleet cost seconds."""
        cheap = promql.candidates(policy, reading)
        if cheap is None:
            return ask(promql.bad(policy, reading, None))
        possible = ask(cheap)
        if isinstance(possible, Failed) or not possible.samples:
            return possible
        devices = _devices(possible.samples, reading)
        if len(devices) > ASKED_TOGETHER:
            return ask(promql.bad(policy, reading, None))
        queries = [promql.bad(policy, reading, part) for part in _parts(devices)]
        answer = _together([ask(query) for query in queries], queries[0])
        return answer if isinstance(answer, Failed) or not answer.samples else self._described(ask, reading, answer)

    def _described(self, ask: _Asker, reading: Reading, answer: Samples) -> Samples:
        """With the labels of the raw series, for people; an answer without them is as good."""
        found: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        for part in _parts(_devices(answer.samples, reading)):
            raw = ask(promql.describe(reading, part))
            for sample in raw.samples if isinstance(raw, Samples) else ():
                found[_key(sample.labels, reading)] = sample.labels
        named = (replace(s, labels={**found.get(_key(s.labels, reading), {}), **s.labels}) for s in answer.samples)
        return replace(answer, samples=tuple(named))

    def _cover(self, ask: _Asker, policy: LoadedPolicy, readings: Sequence[Reading], now: datetime) -> _Coverage:
        known = self._coverage.get(policy.name)
        failed = known is not None and any(isinstance(answer, Failed) for answer in known.answers.values())
        empty = known is not None and not any(isinstance(a, Samples) and a.samples for a in known.answers.values())
        if known is None or failed or empty or now - known.at >= self.pace.coverage_interval:
            known = _Coverage(now, {reading.key: ask(promql.coverage(reading)) for reading in readings})
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


def _to_recover(policy: LoadedPolicy, reading: Reading, cases: Sequence[Case]) -> list[Labels]:
    """The devices of open cases that this reading found bad and that nothing has found good since."""
    found = [
        {label: f.evidence.labels[label] for label in reading.group if label in f.evidence.labels}
        for case in cases
        for f in case.findings
        if f.policy == policy.name and f.verdict is not Verdict.GOOD and f.evidence.source == reading.key
    ]
    return [labels for labels in found if labels]


def _devices(samples: Sequence[Sample], reading: Reading) -> list[Labels]:
    found = {_key(sample.labels, reading): sample for sample in samples}
    return [dict(key) for key in found]


def _key(labels: Labels, reading: Reading) -> tuple[tuple[str, str], ...]:
    return tuple((label, labels.get(label, "")) for label in reading.group)


def _parts(devices: Sequence[Labels]) -> Iterator[Sequence[Labels]]:
    size = 1 if len(devices) <= ALONE else NARROWED_AT_ONCE
    for start in range(0, len(devices), size):
        yield devices[start : start + size]


def _together(answers: Sequence[Answer], query: str) -> Answer:
    """All of them, or the first failure: half an answer is none."""
    samples: list[Sample] = []
    for answer in answers:
        if isinstance(answer, Failed):
            return answer
        samples += answer.samples
    return Samples(tuple(samples), query)
