"""The lines from one process to what it asks and tells: each call may be slow, fail, be lost, or end the process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from quarantine.adapters.prometheus.clocks import compare
from quarantine.adapters.prometheus.problems import Problem
from quarantine.core.errors import (
    ClusterUnavailable,
    Conflict,
    LedgerUnavailable,
    NotifierRefused,
    NotifierUnavailable,
    PagerRefused,
    PagerUnavailable,
    Refused,
    TicketsRefused,
    TicketsUnavailable,
    TicketsUncertain,
    Unavailable,
)
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch
from quarantine.core.model import Answer, Failed, FailureKind, Node, Sample, Samples
from quarantine.core.workload import PodRules, Workloads
from tests.chaos.sim_trouble import TIMEOUTS, Dependency, Episode, Failure
from tests.chaos.sim_world import body, parsed

if TYPE_CHECKING:
    from quarantine.core.case import PodRef
    from tests.chaos.sim_process import Process

STALE_AFTER = 300.0  # seconds, as the settings' default
_AWAY: dict[Dependency, type[Unavailable]] = {
    Dependency.KUBERNETES: ClusterUnavailable,
    Dependency.LEASE: ClusterUnavailable,
    Dependency.LEDGER: LedgerUnavailable,
    Dependency.SLACK: NotifierUnavailable,
    Dependency.TICKETS: TicketsUnavailable,
    Dependency.PAGER: PagerUnavailable,
}
_REFUSED: dict[Dependency, type[Refused]] = {
    Dependency.SLACK: NotifierRefused,
    Dependency.TICKETS: TicketsRefused,
    Dependency.PAGER: PagerRefused,
}
# What changes something out there: to be done by who leads alone. The ledger's are fenced by their term.
EFFECTS = frozenset(
    {"patch_node", "create_event", "set_condition", "evict", "open", "update", "post", "fold", "show", "tell", "attach"}
    | {"fire", "clear"}
)
LEDGER_WRITES = frozenset({"take_term", "record", "keep_rules", "attempt", "postpone", "settle"})


@dataclass
class Line:
    """One process' line to one dependency. What is not a call is read from the far side as it is."""

    process: Process
    dependency: Dependency
    far: Any

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.far, name)
        return partial(self.call, name, found) if callable(found) else found

    def call(self, name: str, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Raises as the far side does, as the episode says, or `Killed`."""
        process, sim = self.process, self.process.sim
        led, effect = process.leadership.leads(), name in EFFECTS or name in LEDGER_WRITES
        process.point(effect=effect)
        episode = sim.episode(self.dependency)
        carry_out = partial(self._carry_out, name, led, partial(act, *args, **options))
        timeout, rng = TIMEOUTS[self.dependency], sim.rng
        match episode.failure if episode is not None else None:
            case Failure.DOWN:
                raise self._away("does not answer")
            case Failure.RATE_LIMITED:
                wait = timedelta(seconds=rng.uniform(1, 60))
                raise self._away("asks to wait", retry_after=wait)
            case Failure.FLAPPING if rng.random() < 0.5:
                raise self._away("broke the connection")
            case Failure.SLOW if (takes := rng.uniform(0.1, 1.2) * timeout) <= timeout:
                process.wait(takes)
            case Failure.SLOW | Failure.HALF_OPEN:
                process.wait(timeout)
                if rng.random() < 0.5:
                    carry_out()
                raise self._lost()
            case Failure.WRONG:
                assert episode is not None
                self.wrong(name, episode)
        result = carry_out()
        process.point(effect=effect)
        return result

    def wrong(self, name: str, episode: Episode) -> None:  # noqa: ARG002  (others look at the name)
        """What an answer that is wrong does to this call. Raises where it is a refusal."""
        if episode.wrong == "refused":
            raise _REFUSED[self.dependency](f"{self.dependency} says no")

    def _carry_out(self, name: str, led: bool, act: Callable[[], Any]) -> Any:
        if name in EFFECTS:
            self.process.sim.outside.acts(self.process, name, self.dependency, led=led)
        return act()

    def _away(self, said: str, *, retry_after: timedelta | None = None) -> Unavailable:
        return _AWAY[self.dependency](f"{self.dependency} {said}", retry_after=retry_after)

    def _lost(self) -> Unavailable:
        kind = TicketsUncertain if self.dependency is Dependency.TICKETS else _AWAY[self.dependency]
        return kind(f"{self.dependency} did not answer in time")


class LedgerLine(Line):
    """Keeps account of what was acknowledged."""

    def _carry_out(self, name: str, led: bool, act: Callable[[], Any]) -> Any:  # noqa: ARG002  (a term fences it)
        sim = self.process.sim
        if name in LEDGER_WRITES and sim.disk_full:
            raise LedgerUnavailable("the ledger has no disk space left")
        result = act()
        return iter(list(result)) if name == "decisions" else result

    def record(self, term: int, decisions: Any, policies: Any = ()) -> int:
        last: int = self.call("record", self.far.record, term, decisions, policies)
        self.process.sim.outside.acked += decisions
        return last

    def settle(self, term: int, key: str, outcome: Any) -> int:
        last: int = self.call("settle", self.far.settle, term, key, outcome)
        self.process.sim.outside.acked.append(outcome)
        return last


class TicketsLine(Line):
    """One target, which takes every provider's tickets."""

    def of(self, provider: str) -> tuple[str, TicketsLine]:
        assert provider
        return "desk", self

    def names(self) -> tuple[str, ...]:
        return ("desk",)

    def named(self, target: str) -> TicketsLine:
        assert target == "desk"
        return self

    def read(self, ref: str) -> Any:
        episode = self.process.sim.episode(self.dependency)
        if episode is not None and episode.wrong == "not found":
            return None
        return self.call("read", self.far.read, ref)


@dataclass
class KubeLine(Line):
    """With the nodes as the watch of this process told them last."""

    known: dict[str, Node] = field(default_factory=dict)
    alive_at: float = -STALE_AFTER * 2  # never

    def identity(self) -> str:
        found: str = self.call("identity", self.far.identity)
        return found

    def nodes(self) -> Mapping[str, Node]:
        self.process.point()
        self._watch()
        age = self.process.sim.seconds - self.alive_at
        if age > STALE_AFTER:
            raise ClusterUnavailable(f"what is known of the nodes is {age:.0f} s old and not used")
        return dict(self.known)

    def refresh(self) -> None:
        """List them now."""
        self.call("list", lambda: None)
        self._take()

    def patch_node(self, patch: NodePatch) -> Node:
        written: Node = self.call("patch_node", self.far.patch_node, patch)
        self.known[written.name] = written
        return written

    def create_event(self, event: NodeEvent) -> None:
        self.call("create_event", self.far.create_event, event)

    def set_condition(self, condition: NodeCondition) -> None:
        self.call("set_condition", self.far.set_condition, condition)

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        found: Workloads = self.call("workloads", self.far.workloads, nodes, rules)
        return found

    def evict(self, pod: PodRef) -> bool:
        gone: bool = self.call("evict", self.far.evict, pod)
        return gone

    def wrong(self, name: str, episode: Episode) -> None:
        if episode.wrong == "conflicts" and name in EFFECTS:
            raise Conflict("it changed since it was read")
        if episode.wrong == "pods unseen" and name == "workloads":
            raise ClusterUnavailable("pods may not be listed")

    def _watch(self) -> None:
        """A connection that stands goes on while requests are limited; who is slow tells late, and tells."""
        episode = self.process.sim.episode(self.dependency)
        if (
            episode is None
            or episode.failure in (Failure.SLOW, Failure.RATE_LIMITED)
            or (episode.failure is Failure.FLAPPING and self.process.sim.rng.random() < 0.5)
        ):
            self._take()
        elif episode.failure is Failure.WRONG:
            if episode.wrong != "old nodes":
                self._take()
            self.alive_at = self.process.sim.seconds

    def _take(self) -> None:
        episode = self.process.sim.episode(self.dependency)
        none = episode is not None and episode.wrong == "no nodes"
        self.known = {} if none else dict(self.far.nodes())
        self.alive_at = self.process.sim.seconds


@dataclass
class Questions:
    """The line to Prometheus: what cannot be answered is `Failed`, as the adapter says it."""

    process: Process

    def query(self, promql: str, *, at: datetime, timeout: timedelta) -> Answer:
        process, sim = self.process, self.process.sim
        process.point()
        episode, limit = sim.episode(Dependency.PROMETHEUS), timeout.total_seconds()
        wrong = ""
        match episode.failure if episode is not None else None:
            case Failure.DOWN:
                return Failed(FailureKind.UNREACHABLE, "Prometheus refused the connection", promql)
            case Failure.RATE_LIMITED:
                return Failed(FailureKind.UNAVAILABLE, "Prometheus has too many queries (HTTP 429)", promql)
            case Failure.FLAPPING if sim.rng.random() < 0.5:
                return Failed(FailureKind.UNREACHABLE, "Prometheus broke the connection", promql)
            case Failure.SLOW if (takes := sim.rng.uniform(0.1, 1.2) * TIMEOUTS[Dependency.PROMETHEUS]) <= limit:
                process.wait(takes)
            case Failure.SLOW | Failure.HALF_OPEN:
                process.wait(limit)
                return Failed(FailureKind.TIMEOUT, "Prometheus did not answer in time", promql)
            case Failure.WRONG:
                assert episode is not None
                wrong = episode.wrong
        try:
            compare(format_datetime(sim.true_now, usegmt=True), process.clock.now(), timedelta(minutes=1))
            found = self._answer(promql, at, wrong, episode)
        except Problem as problem:
            return Failed(problem.kind, str(problem), promql)
        return Samples(tuple(found), promql)

    def _answer(self, query: str, at: datetime, wrong: str, episode: Episode | None) -> Collection[Sample]:
        """Raises Problem: what is no answer is read, and found out, by the adapter's own parser."""
        sim = self.process.sim
        past, now = sim.prom, sim.true_now
        if wrong == "everybody is bad" and past.about(query) == "trigger":
            return past.everybody(query, at)
        if wrong == "as it was before" and episode is not None:
            return past.ask(query, at, now, frozen=sim.when(episode.begins))
        found = past.ask(query, at, now)
        sent = _WIRE[wrong](found, at) if wrong in _WIRE else None
        return found if sent is None else parsed(sent, at)


def _stranger(value: float, at: datetime) -> Sample:
    return Sample({"Hostname": "stranger-1", "UUID": "GPU-stranger-1-0"}, value, at)


# Answers as they come over the wire, by what is wrong with them.
_WIRE: dict[str, Callable[[Sequence[Sample], datetime], bytes]] = {
    "empty": lambda _, at: body([], at),
    "in part": lambda found, at: body(found, at, warnings=["a store is down"]),
    "a web page": lambda *_: b"<html>log in</html>",
    "of another time": lambda found, at: body(found, at - timedelta(minutes=10)),
    "each twice": lambda found, at: body([*found, *found], at),
    "of strangers": lambda found, at: body([*found, _stranger(84.0, at)], at),
    "NaN of strangers": lambda found, at: body([*found, _stranger(float("nan"), at)], at),
}
