"""All of it, for all policies."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from quarantine.core import promql
from quarantine.core.compatible import Where
from quarantine.core.identity import Directory
from quarantine.core.model import Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, readings
from quarantine.core.signal import SignalSpec
from quarantine.livecheck.asking import Ask, Rejected, Selector, selectors_of
from quarantine.livecheck.missing import Finder
from quarantine.livecheck.nodes import Seen, from_kube_state_metrics, lacking
from quarantine.livecheck.pace import rounded_up, spacing, too_rare
from quarantine.ports import Metrics

Parse = Callable[[str], Iterable[tuple[str, tuple[str, ...]]]]


@dataclass(frozen=True, slots=True)
class Moment:
    """When everything is asked, and how long one question may take."""

    at: datetime
    timeout: timedelta = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Remark:
    """What the check found, at a path of the document of this kind and name."""

    kind: Literal["Policy", "Signal"]
    name: str
    path: Where
    sentence: str
    hint: str = ""
    severity: Literal["fault", "note"] = "fault"
    exporter: str = ""  # whose lack it is about, where that may be all of it


@dataclass(frozen=True, slots=True)
class Live:
    """What was found, how many series each policy touches, and where the nodes are known from (None: from nowhere).

    Of exporters that have no series at all it is said once that they are not in use, and not of each of their sources.
    """

    remarks: tuple[Remark, ...]
    series: Mapping[str, int]
    nodes_by: str | None
    unused: tuple[str, ...] = ()


def hold_against(
    metrics: Metrics, rules: Rules, moment: Moment, *, parse: Parse, nodes: Mapping[str, Node] | None = None
) -> Live:
    """Hold the rules against what a Prometheus has now. Raises Unavailable where it does not answer.

    `parse` gives the selectors of an expression, each a metric and its matchers.
    """
    ask = Ask(metrics, moment.at, moment.timeout)
    ask("vector(1)")  # that nobody answers is said once, and before anything else
    nodes_by = "the list that was given" if nodes is not None else None
    if nodes is None and (nodes := from_kube_state_metrics(ask, rules)) is not None:
        nodes_by = "kube-state-metrics"
    checker = _Checker(ask, rules, parse, Finder(ask), nodes)
    remarks = [remark for remark in checker.remarks() if remark.exporter in {"", *checker.in_use}]
    return Live(tuple(dict.fromkeys(remarks)), checker.series, nodes_by, checker.unused)


@dataclass(frozen=True, slots=True)
class _About:
    """Where the fault stands if a signal has no series at all, and what follows from it."""

    kind: Literal["Policy", "Signal"]
    name: str
    path: Where
    consequence: str


@dataclass(slots=True)
class _Checker:
    ask: Ask
    rules: Rules
    parse: Parse
    finder: Finder
    nodes: Mapping[str, Node] | None
    series: dict[str, int] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    in_use: dict[str, bool] = field(default_factory=dict)  # the exporters that have a series (as an ordered set)
    asked_for: dict[str, bool] = field(default_factory=dict)  # all that were asked for

    @property
    def unused(self) -> tuple[str, ...]:
        """The exporters that have none."""
        return tuple(name for name in self.asked_for if name not in self.in_use)

    def remarks(self) -> Iterator[Remark]:
        for policy in self.rules.policies:
            yield from self._policy(policy)
        for policy in self.rules.policies:
            if not self.series[policy.name]:
                continue  # that is said already
            others = self.seen.values()
            for sentence, hint in lacking(policy, self.rules, self.seen[policy.name], self.nodes, others):
                yield Remark("Policy", policy.name, _judged(policy), sentence, hint, "note")
        uptime = self.rules.fleet.uptime
        if uptime is not None and any(p.spec.grace.boot is not None for p in self.rules.policies):
            about = _About("Signal", uptime, ("spec", "sources"), "no grace after a boot can be told")
            yield from self._signal(uptime, self.rules.signals[uptime], about)

    def _policy(self, policy: LoadedPolicy) -> Iterator[Remark]:
        signal, recovery = self.rules.signal_of(policy), policy.spec.recovery
        about = _About("Policy", policy.name, _judged(policy), f"policy {policy.name} sees nothing")
        self.seen[policy.name] = Seen()
        self.series[policy.name] = yield from self._signal(policy.spec.signal, signal, about)
        if recovery is not None:
            name, at = recovery.load.signal, ("spec", "recovery", "load", "signal")
            about = _About("Policy", policy.name, at, f"policy {policy.name} finds nothing recovered")
            yield from self._signal(name, self.rules.signals[name], about)
        if self.series[policy.name]:
            yield from self._asked(policy, signal)

    def _signal(self, name: str | None, signal: SignalSpec, about: _About) -> Generator[Remark, None, int]:
        """Remarks on the readings that have no series; returns how many the others have."""
        total = 0
        silent: list[tuple[str, str]] = []
        for number, reading in _numbered(readings(signal, self.rules.fleet.matchers)):
            exporter, reasons = reading.source.exporter, self._silence(reading)
            self.asked_for[exporter] = True
            if reasons:
                silent += reasons
            else:
                self.in_use[exporter] = True
                total += self._touched(reading)
            for sentence, hint in (reasons or self._partly(reading)) if name is not None else ():
                yield Remark("Signal", name or "", ("spec", "sources", number), sentence, hint, "note", exporter)
        if not total and silent:
            sentence = f"{about.consequence}, since nothing that is selected is there: {silent[0][0]}"
            yield Remark(about.kind, about.name, about.path, sentence, silent[0][1])
        return total

    def _silence(self, reading: Reading) -> list[tuple[str, str]]:
        """(sentence, hint) for each reason why a reading has nothing to say; none where it has."""
        found = [self.finder.reason(s) for s in selectors_of(reading) if not self.finder.count(s)]
        for what, text in (("expression", reading.source.expr), ("gate", reading.source.gate)):
            # Of an expression with several selectors, not all need a series: only that it has one counts.
            if text is None or self.finder.size(text):
                continue
            empty = [s for s in self._parsed(text) if not self.finder.count(s)]
            found += [self.finder.reason(s) for s in empty] or [(f"the {what} of {reading.key} has no series now", "")]
        return found

    def _partly(self, reading: Reading) -> list[tuple[str, str]]:
        """The same for the parts of an expression that has values: `or` may well have a branch that is seldom there."""
        empty = [s for s in self._parsed(reading.source.expr or "") if not self.finder.count(s)]
        return [
            (f"a part of the expression has no series: {what}", hint) for what, hint in map(self.finder.reason, empty)
        ]

    def _touched(self, reading: Reading) -> int:
        if reading.source.expr is None:
            return sum(self.finder.count(s) for s in list(selectors_of(reading))[:1])
        return sum(self.finder.count(s) for s in self._parsed(reading.source.expr))

    def _parsed(self, text: str) -> list[Selector]:
        return [Selector(metric, matchers) for metric, matchers in self.parse(text)]

    def _asked(self, policy: LoadedPolicy, signal: SignalSpec) -> Iterator[Remark]:
        """What the policy's own questions say: refusals, nodes, and how often values come."""
        directory = None if self.nodes is None else Directory.of(self.nodes)
        for reading in readings(signal, self.rules.fleet.matchers):
            if self._silence(reading):
                continue
            covered = self.ask(promql.coverage(policy, reading))
            cheap = promql.candidates(policy, reading)
            first = self.ask(cheap if cheap is not None else promql.bad(policy, reading, None))
            for refused in (covered, first):
                if isinstance(refused, Rejected):
                    yield Remark("Policy", policy.name, ("spec", "trigger"), refused.why)
            if not isinstance(covered, Rejected):
                self.seen[policy.name].add(reading, covered, directory)
            real = None if reading.metric is None else spacing(self.ask, reading, next(selectors_of(reading)))
            if real is not None:
                yield from _late(policy, reading, real)


def _late(policy: LoadedPolicy, reading: Reading, real: timedelta) -> Iterator[Remark]:
    own = policy.spec.signal is None
    at: Where = ("spec", "query", "interval") if own else ("spec", "interval")
    for sentence in too_rare(policy, reading, real):
        hint = f"write `interval: {rounded_up(real)}`"
        yield Remark("Policy" if own else "Signal", policy.spec.signal or policy.name, at, sentence, hint)


def _judged(policy: LoadedPolicy) -> Where:
    return ("spec", "signal") if policy.spec.signal is not None else ("spec", "query")


def _numbered(found: Sequence[Reading]) -> Iterator[tuple[int, Reading]]:
    """Each reading with the number of its source."""
    sources = list(dict.fromkeys(id(reading.source) for reading in found))
    for reading in found:
        yield sources.index(id(reading.source)), reading
