"""A piece of history: what Prometheus answered for every policy at each of its steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import timedelta

from quarantine.backtest import asking
from quarantine.backtest.asking import Asker, Line, Lines
from quarantine.core.case import Case
from quarantine.core.identity import device_of
from quarantine.core.model import Answer, Failed, Node, PolicyAnswers, Sample, Samples
from quarantine.core.narrowing import Key, key_of, to_recover
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.readings import Reading, load_reading, needs_uptime, readings_of, uptime_readings
from quarantine.core.series import Grid
from quarantine.core.trigger import Form

Named = tuple[str, str]  # a policy's name and a reading's key


@dataclass(frozen=True, slots=True)
class Questions:
    """What there is to ask of the fleet, whatever its state."""

    rules: Rules
    policies: tuple[tuple[LoadedPolicy, tuple[Reading, ...]], ...]
    uptime: tuple[Reading, ...]
    graces: tuple[float, ...]  # after a boot, in seconds, ascending

    @classmethod
    def of(cls, rules: Rules) -> Questions:
        """As the observer asks them."""
        graces = sorted({p.spec.grace.boot.total_seconds() for p in rules.policies if p.spec.grace.boot is not None})
        uptime = uptime_readings(rules) if graces else ()
        return cls(rules, tuple((p, readings_of(p, rules)) for p in rules.policies), uptime, tuple(graces))

    def pace(self, policy: LoadedPolicy, grid: Grid, coverage_interval: timedelta) -> int:
        """At every how manieth step a policy's coverage is asked. Absence is judged by it, so it is asked at each."""
        if policy.spec.trigger.form is Form.ABSENT:
            return 1
        return max(1, coverage_interval // grid.step)


@dataclass(slots=True)
class Piece:
    """Steps `first` … `first + grid.count - 1` of the whole grid. Recovery is asked for as cases open."""

    questions: Questions
    ask: Asker
    pool: Executor
    grid: Grid
    first: int
    trigger: Mapping[Named, Lines]
    emerging: Mapping[Named, Lines]  # of the readings that tell it
    others: Mapping[str, Mapping[str, Lines]]  # by policy, by the reading that was asked about another one's finding
    coverage: Mapping[Named, Lines]
    paces: Mapping[str, int]  # by policy
    uptime: Mapping[str, Lines]
    _good: dict[Named, dict[Key, Line | Failed | None]] = field(default_factory=dict)
    _wanted: dict[Named, frozenset[Key]] = field(default_factory=dict)
    _covered: dict[Named, tuple[int, Answer]] = field(default_factory=dict)
    _shifts: dict[Named, list[int]] = field(default_factory=dict)  # the steps at which coverage is another one

    @classmethod
    def fetch(
        cls,
        questions: Questions,
        ask: Asker,
        pool: Executor,
        whole: Grid,
        first: int,
        count: int,
        coverage_interval: timedelta,
    ) -> Piece:
        """Everything that does not depend on which cases are open, several questions at a time."""
        grid = whole.part(first, count)
        paces = {p.name: questions.pace(p, whole, coverage_interval) for p, _ in questions.policies}
        each = [(policy, reading) for policy, known in questions.policies for reading in known]
        bad = [pool.submit(asking.trigger, ask, policy, reading, grid) for policy, reading in each]
        seen = {
            policy.name: pool.submit(asking.coverage, ask, policy, known, whole, first, count, paces[policy.name])
            for policy, known in questions.policies
        }
        names = [(policy.name, reading.key) for policy, reading in each]
        found = {name: future.result() for name, future in zip(names, bad, strict=True)}
        trigger = {name: one.bad for name, one in found.items()}
        up: dict[str, Future[Lines]] = {}
        if (stretch := _needing_uptime(questions, trigger, grid)) is not None:
            longest = timedelta(seconds=questions.graces[-1])
            up = {r.key: pool.submit(asking.uptime, ask, r, longest, grid, stretch) for r in questions.uptime}
        others = {
            policy.name: pool.submit(
                asking.others, ask, policy, known, {r.key: trigger[policy.name, r.key] for r in known}, grid
            )
            for policy, known in questions.policies
        }
        return cls(
            questions=questions,
            ask=ask,
            pool=pool,
            grid=grid,
            first=first,
            trigger=trigger,
            emerging={name: one.emerging for name, one in found.items() if one.emerging is not None},
            others={name: future.result() for name, future in others.items()},
            coverage={name: seen[name[0]].result()[name[1]] for name in names},
            paces=paces,
            uptime={key: future.result() for key, future in up.items()},
        )

    def turns(self) -> set[int]:
        """The steps at which an answer is another one than before, as far as decisions can tell."""
        found = {0}
        for lines in (*self.trigger.values(), *self.emerging.values()):
            found.update(_steps(lines, Line.turns))
        for policy, _ in self.questions.policies:
            if policy.spec.trigger.form is Form.ABSENT:  # of others it only shows where exporters disagree
                for lines in self.others[policy.name].values():
                    found.update(_steps(lines, Line.turns))
        for lines in self.coverage.values():
            found.update(_steps(lines, Line.changes))
        for lines in self.uptime.values():
            found.update(_steps(lines, lambda line: line.grades(self.questions.graces)))
        return {step for step in found if 0 <= step < self.grid.count}

    def follow(self, cases: Sequence[Case], nodes: Mapping[str, Node], step: int) -> set[int]:
        """From `step` on, recovery is wanted for the devices of these cases. Returns the steps at which it turns."""
        asked: list[tuple[Named, Reading, list[Key], Future[Lines]]] = []
        for policy, known in self.questions.policies:
            for reading in known:
                load = load_reading(policy, self.questions.rules, reading)
                devices = to_recover(policy, reading, cases, nodes) if load is not None else []
                by_key = {key_of(labels, reading): labels for labels in devices}
                name = (policy.name, reading.key)
                self._wanted[name] = frozenset(by_key)
                missing = [key for key in by_key if key not in self._good.setdefault(name, {})]
                if load is not None and missing and step < self.grid.count:
                    rest = self.grid.part(step, self.grid.count - step)
                    which = [by_key[key] for key in missing]
                    task = self.pool.submit(asking.recovery, self.ask, policy, reading, load, which, rest)
                    asked.append((name, reading, missing, task))
        found: set[int] = set()
        for name, reading, missing, task in asked:
            found |= self._keep(name, reading, missing, task.result(), step)
        return found

    def _keep(self, name: Named, reading: Reading, missing: Sequence[Key], lines: Lines, step: int) -> set[int]:
        if isinstance(lines, Failed):
            self._good[name].update(dict.fromkeys(missing, lines))
            return set()
        by_device = {key_of(line.track.labels, reading): replace(line, shift=-step) for line in reversed(lines)}
        self._good[name].update({key: by_device.get(key) for key in missing})
        found: set[int] = set()
        for line in by_device.values():
            # Of a node that lacked some of its devices it counts how many are good.
            counts = device_of(reading, line.track.labels) is None
            found.update(line.changes() if counts else line.turns())
        return {turn for turn in found if turn < self.grid.count}

    def answers(self, step: int) -> Mapping[str, PolicyAnswers]:
        """What each policy is judged by at a step."""
        return {
            policy.name: PolicyAnswers(
                trigger={r.key: self._samples(self.trigger[policy.name, r.key], step) for r in known},
                recovery=self._recovery(policy, known, step),
                coverage={r.key: self._coverage((policy.name, r.key), step) for r in known},
                coverage_at=self.grid.at(step - (self.first + step) % self.paces[policy.name]),
                others={key: self._samples(lines, step) for key, lines in self.others[policy.name].items()},
                emerging={
                    r.key: self._samples(self.emerging[policy.name, r.key], step)
                    for r in known
                    if (policy.name, r.key) in self.emerging
                },
            )
            for policy, known in self.questions.policies
        }

    def uptimes(self, step: int) -> Mapping[str, Answer]:
        """How long the nodes have been up, at a step at which it is asked."""
        if not any(needs_uptime(p, found=self._finds(p, known, step)) for p, known in self.questions.policies):
            return {}
        return {key: self._samples(lines, step) for key, lines in self.uptime.items()}

    def _finds(self, policy: LoadedPolicy, known: Sequence[Reading], step: int) -> bool:
        each = (self.trigger[policy.name, reading.key] for reading in known)
        return any(line.value(step) is not None for lines in each if not isinstance(lines, Failed) for line in lines)

    def failures(self) -> Iterator[tuple[str, Failed]]:
        """For each policy that has no answer to one of its questions, the first reason."""
        up = next((lines for lines in self.uptime.values() if isinstance(lines, Failed)), None)
        for policy, known in self.questions.policies:
            names = [(policy.name, reading.key) for reading in known]
            failed = [one for name in names for one in (self.trigger[name], self.coverage[name])]
            if policy.spec.trigger.form is Form.ABSENT:
                failed += self.others[policy.name].values()
            good = [self._good[name].get(key) for name in names for key in sorted(self._wanted.get(name, ()))]
            needs_uptime = [up] if policy.spec.grace.boot is not None else []
            first = next((one for one in (*failed, *needs_uptime, *good) if isinstance(one, Failed)), None)
            if first is not None:
                yield policy.name, first

    # --- inside -------------------------------------------------------------------------------------------------------

    def _samples(self, lines: Lines, step: int) -> Answer:
        if isinstance(lines, Failed):
            return lines
        return _together(lines, step, self.grid)

    def _recovery(self, policy: LoadedPolicy, known: Sequence[Reading], step: int) -> Mapping[str, Answer]:
        found: dict[str, Answer] = {}
        for reading in known:
            name = (policy.name, reading.key)
            lines = [self._good[name].get(key) for key in sorted(self._wanted.get(name, ()))]
            if not lines:
                continue
            failed = next((line for line in lines if isinstance(line, Failed)), None)
            seen = [line for line in lines if isinstance(line, Line)]
            found[reading.key] = failed if failed is not None else _together(seen, step, self.grid)
        return found

    def _coverage(self, name: Named, step: int) -> Answer:
        """Kept while it stays the same: it names every node. To absence it is evidence, and then its time counts."""
        lines = self.coverage[name]
        if isinstance(lines, Failed) or self.paces[name[0]] == 1:
            return self._samples(lines, step)
        if name not in self._shifts:
            self._shifts[name] = sorted(set(_steps(lines, Line.changes)))
        since = bisect_right(self._shifts[name], step)
        kept = self._covered.get(name)
        if kept is None or kept[0] != since:
            kept = self._covered[name] = (since, _together(lines, step, self.grid))
        return kept[1]


def _needing_uptime(questions: Questions, trigger: Mapping[Named, Lines], grid: Grid) -> tuple[int, int] | None:
    """From the first step at which a policy cannot do without the nodes' uptime to one past the last."""
    found: list[int] = []
    for policy, known in questions.policies:
        if needs_uptime(policy, found=False):
            return 0, grid.count
        each = [trigger[policy.name, reading.key] for reading in known] if needs_uptime(policy, found=True) else []
        for lines in each:
            found += [end for line in (lines if not isinstance(lines, Failed) else ()) for end in line.ends()]
    return (max(0, min(found)), min(grid.count, max(found))) if found else None


def _together(lines: Iterable[Line], step: int, grid: Grid) -> Samples:
    at = grid.at(step)
    found: list[Sample] = [sample for line in lines if (sample := line.sample(step, at)) is not None]
    return Samples(tuple(found), found[0].query if found else "")


def _steps(lines: Lines, of: Callable[[Line], Iterator[int]]) -> Iterator[int]:
    for line in lines if not isinstance(lines, Failed) else ():
        yield from of(line)
