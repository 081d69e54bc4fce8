"""What there is in simulated time beside the controller: a fleet with its faults, and the far sides of its ports."""

from __future__ import annotations

import bisect
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.adapters.prometheus.answer import Reply, envelope, samples
from quarantine.core import promql
from quarantine.core.alarms import Alarm
from quarantine.core.cards import Card, Fold, Thread
from quarantine.core.cards import Reply as Told
from quarantine.core.decision import Decision
from quarantine.core.model import Node, Sample
from quarantine.core.policy import Rules
from quarantine.core.readings import load_reading, readings_of
from quarantine.core.rulefiles import PolicyRun, RuleFile
from quarantine.core.state import evolve
from quarantine.core.tickets import Attachment
from quarantine.ports import EndedHold, TrailRow
from tests.core.invariants.book import Book
from tests.core.invariants.outside import Chat
from tests.core.invariants.prom import Place, Prometheus
from tests.core.world import NOW, node, nvlink, policy, rules

GPUS = 2
NODES = tuple(f"node-{n}" for n in range(8))
POOL = "gpu"
QUARANTINED, UNAVAILABLE, PER_HOUR = 3, 4, 5  # the pool's budget
HOT, LINKS = "gpu-hot", "nvlink"
LONG_AGO = timedelta(minutes=5)  # Prometheus takes a series for gone that it did not see for so long


def law() -> Rules:
    """Heat, which recovers under load; NVLink errors, which no measurement clears: reported, drained and swapped."""
    proof = {"when": "on-proof", "probation": "1m"}
    trigger = {"above": 78, "for": "1m"}
    hot = policy(trigger=trigger, breaker={"maxShare": "30%"}, response={"release": proof})
    away = {"drain": "now", "ladder": [{"do": "report"}, {"do": "replace", "after": "1m"}]}
    links = nvlink(severity="fatal", recovery=None, breaker={"maxShare": "50%"}, response=away)
    budget = {"quarantined": QUARANTINED, "unavailable": UNAVAILABLE, "perHour": PER_HOUR}
    pool = {"name": POOL, "nodeSelector": {"gpu": "yes"}, "budget": budget, "provider": "acme"}
    return rules(hot, links, pools=[pool])


def fleet() -> dict[str, Node]:
    """All of one pool."""
    return {name: replace(node(name, created_at=NOW - timedelta(days=30)), gpus=GPUS) for name in NODES}


# --- Prometheus -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What a query asks: which policy's question, by which of its readings."""

    what: str
    policy: str
    reading: int


@dataclass
class Then:
    """How the machines were from a moment on."""

    bad: dict[str, frozenset[str]]
    dark: frozenset[str]
    loaded: frozenset[str]
    empty: bool


@dataclass
class Past(Prometheus):
    """Prometheus, asked in its own language, also about a while ago. A query that is none of ours is an error."""

    law: Rules = field(default_factory=law)
    shown_good: Callable[[str, str], None] = lambda _, __: None  # node, GPU: the answer said that it is good again
    _times: list[datetime] = field(default_factory=list)
    _then: list[Then] = field(default_factory=list)
    _shapes: dict[str, Asked] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one = [{"Hostname": "node-1", "UUID": "GPU-node-1-0"}]
        for rule in self.law.policies:
            for number, reading in enumerate(readings_of(rule, self.law)):
                load = load_reading(rule, self.law, reading)
                asked = {
                    promql.candidates(rule, reading): "trigger",
                    promql.bad(rule, reading, None): "trigger",
                    promql.bad(rule, reading, one): "trigger",
                    promql.describe(reading, one, None): "described",
                    promql.coverage(rule, reading): "coverage",
                    promql.good(rule, reading, load, one) if load is not None else None: "recovery",
                }
                for query, what in asked.items():
                    if query is not None:
                        self._shapes[_shape(query)] = Asked(what, rule.name, number)

    def note(self, now: datetime) -> None:
        """The machines are as they are from now on."""
        bad = {name: frozenset(found) for name, found in self.bad.items()}
        self._times.append(now)
        self._then.append(Then(bad, frozenset(self.dark), frozenset(self.loaded), self.empty))

    def ask(self, query: str, at: datetime, now: datetime, *, frozen: datetime | None = None) -> list[Sample]:
        """The answer for `at`, which may lie ahead. `frozen`: it says how things were at that time."""
        asked = self._shapes[_shape(query)]
        if at > now + LONG_AGO:
            return []
        then = self._then[max(0, bisect.bisect_right(self._times, min(at, frozen or at)) - 1)]
        self.at = at
        seen = set() if then.empty else self.gpus().keys() - then.dark
        rule = next(p for p in self.law.policies if p.name == asked.policy)
        reading = readings_of(rule, self.law)[asked.reading]
        here = [place for place in self.devices(rule) if place[0] in seen]
        match asked.what:
            case "coverage":
                return list(self._counted(reading, here))
            case "recovery":
                found = [p for p in here if p[1] in query and p[0] in then.loaded and p[1] not in then.bad[rule.name]]
                for place in found:
                    self.shown_good(*place)
            case _:
                found = [p for p in here if p[1] in then.bad[rule.name]] if asked.reading == 0 else []
        if "UUID=" in query:
            found = [place for place in found if place[1] in query]
        return [self._sample(reading, place, 84.0) for place in found]

    def _counted(self, reading: object, here: Iterable[Place]) -> Iterator[Sample]:
        count: dict[str, int] = {}
        for name, _ in here:
            count[name] = count.get(name, 0) + 1
        for name, number in count.items():
            yield self._sample(reading, (name, ""), float(number))  # type: ignore[arg-type]

    def everybody(self, query: str, at: datetime) -> list[Sample]:
        """As if a threshold were mistyped: all that is asked about is bad."""
        asked = self._shapes[_shape(query)]
        rule = next(p for p in self.law.policies if p.name == asked.policy)
        reading = readings_of(rule, self.law)[asked.reading]
        self.at = at
        found = [p for p in self.devices(rule) if "UUID=" not in query or p[1] in query]
        return [self._sample(reading, place, 84.0) for place in found]

    def about(self, query: str) -> str:
        """Which question it is."""
        return self._shapes[_shape(query)].what


def _shape(query: str) -> str:
    """A query without what narrows it to some devices."""
    return re.sub(r"\{[^{}]*\}", "{}", query)


def body(found: Sequence[Sample], at: datetime, **extra: object) -> bytes:
    """An answer as it comes over the wire."""
    result = [{"metric": dict(s.labels), "value": [at.timestamp(), str(s.value)]} for s in found]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data, **extra}).encode()


def parsed(sent: bytes, at: datetime) -> tuple[Sample, ...]:
    """As the adapter reads it. Raises Problem."""
    reply = Reply(200, "application/json", sent, mask=str)
    return samples(envelope(reply)["data"]["result"], at)


# --- The ledger -------------------------------------------------------------------------------------------------------


@dataclass
class WholeBook(Book):
    """The whole port of the ledger: with the rules that were in force, the trail to be read, and holds that ended."""

    files: tuple[RuleFile, ...] = ()
    runs: Mapping[str, PolicyRun] | None = None
    over: list[tuple[datetime, EndedHold]] = field(default_factory=list)

    def record(self, term: int, decisions: Sequence[Decision], policies: Sequence[object] = ()) -> int:
        assert all(policies)
        self._writer(term)
        for decision in decisions:
            before = self.state.holds
            self.state = evolve(self.state, decision)
            self.trail.append(decision)
            self.over += [
                (decision.at, EndedHold(key, hold.held_by, ""))
                for key, hold in before.items()
                if key not in self.state.holds
            ]
        if decisions:
            self.follow(decisions[-1].at)
        return len(self.trail)

    def keep_rules(self, term: int, files: Sequence[RuleFile], runs: Mapping[str, PolicyRun]) -> None:
        self._writer(term)
        self.files, self.runs = tuple(files), dict(runs)

    def rule_files(self) -> tuple[RuleFile, ...]:
        return self.files

    def policy_runs(self) -> Mapping[str, PolicyRun] | None:
        return self.runs

    def decisions(self, *, node: str | None = None, case: str | None = None) -> Iterator[TrailRow]:
        for seq, decision in enumerate(list(self.trail), 1):
            if (node is None or decision.node == node) and (case is None or decision.case == case):
                digest = hashlib.sha256(f"{seq}{decision.at}{decision.reason}".encode()).hexdigest()
                yield TrailRow(seq, decision, digest)

    def ended_holds(self, since: datetime) -> tuple[EndedHold, ...]:
        return tuple(hold for at, hold in self.over if at > since)


# --- People -----------------------------------------------------------------------------------------------------------


@dataclass
class Slack(Chat):
    """The whole port of the notifier, which counts what is said twice."""

    home: str = "C0GPUOPS"
    posts: dict[str, int] = field(default_factory=dict)  # by key
    shown: dict[str, Card | Fold] = field(default_factory=dict)
    threads: dict[str, Thread] = field(default_factory=dict)
    replies: dict[tuple[str, tuple[tuple[str, str], ...]], int] = field(default_factory=dict)

    def find(self, key: str, channel: str = "") -> str | None:  # noqa: ARG002  (there is one)
        return key if key in self.posted else None

    def _post(self, key: str, ticket: str) -> str:
        self.posts[key] = self.posts.get(key, 0) + 1
        self.posted[key] = ticket
        return key

    def show(self, ref: str, what: Card | Fold) -> None:
        self.shown[ref] = what

    def thread(self, ref: str) -> Thread:
        return self.threads.get(ref, Thread())

    def tell(self, ref: str, reply: Told) -> None:
        said = (ref, tuple(sorted(reply.told.items())))
        self.replies[said] = self.replies.get(said, 0) + 1
        known = self.thread(ref)
        self.threads[ref] = Thread({**known.told, **reply.told}, known.files)

    def attach(self, ref: str, picture: Attachment, text: str) -> None:
        assert text
        known = self.thread(ref)
        self.threads[ref] = Thread(known.told, known.files | {picture.name})


@dataclass
class Channel:
    """Where people are told what concerns no single machine."""

    said: dict[str, int] = field(default_factory=dict)

    def find(self, key: str) -> str | None:
        return key if key in self.said else None

    def tell(self, key: str, title: str, lines: Collection[str], advice: str = "") -> str:
        assert title
        assert lines
        assert advice
        self.said[key] = self.said.get(key, 0) + 1
        return key


@dataclass
class Phone:
    """A pager: what stands there."""

    name: str = "the pager"
    repeats: timedelta | None = None
    standing: dict[str, Alarm] = field(default_factory=dict)
    fired: int = 0

    def fire(self, alarm: Alarm) -> None:
        self.fired += 1
        self.standing[alarm.key] = alarm

    def clear(self, alarm: Alarm) -> None:
        self.standing.pop(alarm.key, None)
