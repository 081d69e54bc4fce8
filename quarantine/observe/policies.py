"""What Prometheus answers for each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.core import promql
from quarantine.core.case import Case
from quarantine.core.identity import device_of
from quarantine.core.model import Answer, Device, Failed, FailureKind, Node, PolicyAnswers, Samples
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
from quarantine.core.readings import Reading, load_reading, readings_of
from quarantine.core.selectors import Labels
from quarantine.core.trigger import Form
from quarantine.observe.asking import Asker, together


@dataclass(slots=True)
class _Coverage:
    at: datetime
    queries: Mapping[str, str]  # by reading, as they were asked
    answers: Mapping[str, Answer]


@dataclass(slots=True)
class Questions:
    """Remembers nothing but the last coverage answers, which are asked for at a slow pace."""

    _coverage: dict[str, _Coverage] = field(default_factory=dict)

    def forget(self, rules: Rules) -> None:
        """Coverage of policies that are in force no more: an edit gives them other names for as long as this lives."""
        named = {policy.name for policy in rules.policies}
        self._coverage = {name: known for name, known in self._coverage.items() if name in named}

    def about(
        self,
        ask: Asker,
        rules: Rules,
        policy: LoadedPolicy,
        cases: Sequence[Case],
        nodes: Mapping[str, Node],
        every: timedelta,
    ) -> PolicyAnswers:
        """All answers about one policy. `cases` are the open ones; `every`: how often coverage is asked for."""
        readings = readings_of(policy, rules)
        found = {reading.key: self._trigger(ask, policy, reading) for reading in readings}
        trigger = {key: answer for key, (answer, _) in found.items()}
        emerging = {key: possible for key, (_, possible) in found.items() if possible is not None}
        recovery: dict[str, Answer] = {}
        for reading in readings:
            devices = to_recover(policy, reading, cases, nodes)
            load = load_reading(policy, rules, reading)
            if devices and load is not None:
                query = [promql.good(policy, reading, load, part) for part in parts(devices, reading)]
                recovery[reading.key] = together([ask(q) for q in query], query[0])
        known = self._cover(ask, policy, readings, every)
        others = self._others(ask, policy, readings, trigger)
        return PolicyAnswers(trigger, recovery, known.answers, known.at, others, emerging)

    def _trigger(self, ask: Asker, policy: LoadedPolicy, reading: Reading) -> tuple[Answer, Answer | None]:
        """What is bad, and what is beyond the bound now where that is told: superset first, exact second, since
        subqueries over a whole fleet cost seconds.
        """
        cheap = promql.candidates(policy, reading)
        if cheap is None:
            return ask(promql.bad(policy, reading, None)), None
        possible = ask(cheap)
        told = possible if promql.tells_emerging(policy) else None
        if isinstance(possible, Failed) or not possible.samples:
            return possible, told
        return self._exact(ask, policy, reading, cheap, possible), told

    def _exact(self, ask: Asker, policy: LoadedPolicy, reading: Reading, cheap: str, possible: Samples) -> Answer:
        """Which of these are bad. An expression is not narrowed: each part would be put to the whole fleet."""
        devices = _devices(possible, reading)
        many = len(devices) > ASKED_TOGETHER
        if many and policy.spec.trigger.form is Form.ABSENT:
            return Failed(FailureKind.MISCONFIGURED, too_many_gone(len(devices), reading), cheap)
        if many or reading.metric is None:
            return ask(promql.bad(policy, reading, None))
        queries = [promql.bad(policy, reading, part) for part in parts(devices, reading)]
        answer = together([ask(query) for query in queries], queries[0])
        if isinstance(answer, Failed) or not answer.samples:
            return answer
        return self._described(ask, policy, reading, answer)

    def _described(self, ask: Asker, policy: LoadedPolicy, reading: Reading, answer: Samples) -> Answer:
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
        self, ask: Asker, policy: LoadedPolicy, readings: Sequence[Reading], trigger: Mapping[str, Answer]
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
                answers[reading.key] = together([ask(query) for query in queries], queries[0])
        return answers

    def _cover(self, ask: Asker, policy: LoadedPolicy, readings: Sequence[Reading], every: timedelta) -> _Coverage:
        known = self._coverage.get(policy.name)
        failed = known is not None and any(isinstance(answer, Failed) for answer in known.answers.values())
        empty = known is not None and not any(isinstance(a, Samples) and a.samples for a in known.answers.values())
        # Absence is judged by it, and the answer is then about a window that ends now.
        each_time = policy.spec.trigger.form is Form.ABSENT
        # Edited since: what is known of the former query says nothing about the present one.
        queries = {reading.key: promql.coverage(policy, reading) for reading in readings}
        other = known is not None and known.queries != queries
        old = known is None or ask.now - known.at >= every
        if known is None or old or failed or empty or other or each_time:
            known = _Coverage(ask.now, queries, {key: ask(query) for key, query in queries.items()})
            self._coverage[policy.name] = known
        return known


def _devices(answer: Samples, reading: Reading) -> list[Labels]:
    return devices_of((sample.labels for sample in answer.samples), reading)


def _named(answer: Answer, reading: Reading) -> list[Device]:
    samples = answer.samples if isinstance(answer, Samples) else ()
    devices = (device_of(reading, sample.labels) for sample in samples)
    return [device for device in devices if device is not None and device.name]
