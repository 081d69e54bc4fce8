"""History replayed: the one `plan()` at each step, on the answers that Prometheus would have given then.

It goes forward in pieces of time, which are dropped behind it. In a piece it asks what is asked of the whole fleet;
recovery is asked for as cases open. Steps at which no answer is another one and no deadline is due are skipped: nothing
could be decided there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush

from quarantine.backtest.asking import Asker
from quarantine.backtest.piece import Piece, Questions
from quarantine.backtest.record import Record, gpus_of
from quarantine.backtest.result import Result, Span
from quarantine.backtest.sight import Sight, darkness
from quarantine.core import budget
from quarantine.core.case import Case
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import State
from quarantine.core.model import Answer, FailureKind, Mode, Node, PolicyAnswers
from quarantine.core.policy import Rules
from quarantine.core.rehearsal import Rehearsal
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.ports import RangeMetrics

LONGEST_PIECE = 720  # steps: half a day of minutes
SHORTEST_PIECE = 30
POINTS = 2_000_000  # values that a piece should hold at most: 16 bytes each, and several times that while they arrive
_OF_A_MOMENT = (FailureKind.REJECTED, FailureKind.PARTIAL, FailureKind.UNAVAILABLE, FailureKind.GARBLED)
_DEVICES = 8  # of a node, until it is known how many values a step has


@dataclass(frozen=True, slots=True)
class Manner:
    """How history is asked and walked through; the result is the same in whichever."""

    piece: int | None = None  # steps of a piece; None: by how much the answers hold
    every_step: bool = False  # skip none
    coverage_interval: timedelta = timedelta(minutes=5)  # as the controller's
    timeout: timedelta = timedelta(minutes=2)  # of one request
    workers: int = 4  # questions at once


@dataclass(frozen=True, slots=True)
class Step:
    """One look at the fleet: what was reasoned from, what was decided, and the state after it.

    `judge_all(step.snapshot, rules)` gives the verdicts.
    """

    snapshot: Snapshot
    plan: Plan
    state: State

    @property
    def at(self) -> datetime:
        """When."""
        return self.snapshot.now

    @property
    def answers(self) -> Mapping[str, PolicyAnswers]:
        """What Prometheus said, by policy name."""
        return self.snapshot.answers

    @property
    def uptime(self) -> Mapping[str, Answer]:
        """What it said of nodes that booted lately."""
        return self.snapshot.uptime


def steps(
    rules: Rules,
    nodes: Mapping[str, Node],
    metrics: RangeMetrics,
    span: Span,
    *,
    look_at: Collection[datetime] = (),
    mode: Mode = Mode.ENFORCE,
    manner: Manner | None = None,
) -> Iterator[Step]:
    """The steps at which something is decided, and those of `look_at` (each the last of the grid until then).

    Policies are judged as they are written: see `as_enforced`. Prometheus' failures are in the answers. Raises
    ValueError for a span that holds no step.
    """
    grid = span.grid
    looks = frozenset(grid.last_until(at) for at in look_at)
    for step in _Walk(rules, nodes, metrics, span, mode, manner or Manner(), looks=looks):
        if step.plan.decisions or grid.last_until(step.at) in looks:
            yield step


def run(
    rules: Rules,
    nodes: Mapping[str, Node],
    metrics: RangeMetrics,
    span: Span,
    *,
    mode: Mode = Mode.ENFORCE,
    progress: Callable[[datetime], None] | None = None,
    manner: Manner | None = None,
) -> Result:
    """The whole span. `progress` is told how far it has come, every few hours of history.

    Policies are judged as they are written: see `as_enforced`. Prometheus' failures are the result's gaps. Raises
    ValueError for a span that holds no step.
    """
    walk = _Walk(rules, nodes, metrics, span, mode, manner or Manner(), progress=progress)
    looks = 0
    for step in walk:
        looks += 1
        walk.record.add(step.plan, step.state)
    record = walk.record
    held, unseen = darkness(record.all_held(), span.grid.end)
    gaps = sorted((*record.all_gaps(), *unseen), key=lambda gap: (gap.policy, gap.start))
    return Result(
        span=span,
        nodes=len(nodes),
        gpus=sum(record.gpus.values()),
        policies=tuple(policy.name for policy in rules.policies),
        outages=tuple(record.outages.values()),
        held=tuple(held),
        gaps=tuple(gaps),
        unseen=walk.sight.unseen(),
        partly=walk.sight.partly(span.grid),
        decisions=record.decisions,
        queries=walk.ask.queries,
        points=walk.ask.points,
        steps=looks,
        assumptions=_assumptions(span),
    )


def _assumptions(span: Span) -> tuple[str, ...]:
    return (
        "the inventory is the one given, all the time: no machine joined, left, was repaired or changed its labels",
        "nobody approves, releases, waives or dismisses anything: a machine that is taken out stays out to the end, "
        "unless its policies release it on evidence under load",
        "what runs on a machine is not known and no procedure is run: nothing is drained, reset, rebooted or replaced",
        "every cordon, taint, ticket and message succeeds at once, and the provider replaces nothing",
        "a machine that is taken out goes on in history as it did, under load, and what it shows there still counts",
        f"nothing happens between two looks, which are {span.step.total_seconds():g} s apart",
        "Prometheus' memory is what it said then: nothing arrived late, and nothing was deleted since",
    )


@dataclass(slots=True)
class _Walk:
    """Every step that is planned, in order of time."""

    rules: Rules
    nodes: Mapping[str, Node]
    metrics: RangeMetrics
    span: Span
    mode: Mode
    manner: Manner
    looks: Collection[int] = ()
    progress: Callable[[datetime], None] | None = None
    ask: Asker = field(init=False)
    record: Record = field(init=False)
    sight: Sight = field(init=False)
    _rehearsal: Rehearsal = field(init=False)
    _failing: set[str] = field(default_factory=set)  # policies that had no answer in the piece before
    _due: list[int] = field(default_factory=list)  # steps of the whole grid at which a deadline passes, ascending

    def __post_init__(self) -> None:
        if self.span.grid.count == 0:
            raise ValueError(f"there is no multiple of {self.span.step} between {self.span.start} and {self.span.end}")
        expected = {
            name: pool.expected.gpus or 0
            for name, node in self.nodes.items()
            if (pool := budget.pool_of(node, self.rules)) is not None
        }
        self.ask = Asker(self.metrics, self.manner.timeout)
        self.record = Record(gpus_of(self.nodes, expected))
        self.sight = Sight(self.rules, self.nodes)
        self._rehearsal = Rehearsal(self.rules, self.nodes, mode=self.mode)

    def __iter__(self) -> Iterator[Step]:
        whole, questions = self.span.grid, Questions.of(self.rules)
        first, size = 0, self._size(len(self.nodes) * _DEVICES * max(1, len(self.rules.policies)))
        with ThreadPoolExecutor(self.manner.workers, thread_name_prefix="history") as pool:
            while first < whole.count:
                count, points = min(self.manner.piece or size, whole.count - first), self.ask.points
                self.ask.begin_piece()
                piece = Piece.fetch(questions, self.ask, pool, whole, first, count, self.manner.coverage_interval)
                if self._worth_cutting(piece):
                    size = max(SHORTEST_PIECE, count // 4)
                    continue
                yield from self._through(piece)
                for policy, failed in piece.failures():
                    self.record.unanswered(policy, piece.grid.start, piece.grid.end, failed.detail, whole.step)
                self.sight.look(piece)
                first += count
                size = min(self._size((self.ask.points - points) // count), 2 * max(count, SHORTEST_PIECE))
                if self.progress is not None:
                    self.progress(piece.grid.end)

    def _worth_cutting(self, piece: Piece) -> bool:
        """Whether a policy has no answer that had one before: a bad minute is no reason to know nothing of half a day.

        Not where it is the server that is away, nor again for a policy that had no answer in the shortest piece.
        """
        failing = {policy for policy, failed in piece.failures() if failed.kind in _OF_A_MOMENT}
        new = failing - self._failing
        if new and piece.grid.count > SHORTEST_PIECE and self.manner.piece is None:
            return True
        self._failing = failing
        return False

    def _size(self, values: int) -> int:
        """Steps of the next piece, where one step has so many values."""
        return max(SHORTEST_PIECE, min(LONGEST_PIECE, POINTS // max(1, values)))

    def _through(self, piece: Piece) -> Iterator[Step]:
        ahead = [
            *piece.turns(),
            *(look - piece.first for look in self.looks),
            *piece.follow(self._open_cases(), self.nodes, 0),
        ]
        heapify(ahead)
        step = 0
        while step < piece.grid.count:
            made = self._plan(piece, step)
            yield made
            if made.plan.decisions:
                # What is asked about recovery is another question from here on, and there are other deadlines.
                for turn in (step + 1, *piece.follow(self._open_cases(), self.nodes, step + 1)):
                    heappush(ahead, turn)
                self._set_deadlines()
            step = step + 1 if self.manner.every_step else self._next(piece, step, ahead)

    def _plan(self, piece: Piece, step: int) -> Step:
        now, answers, uptime = piece.grid.at(step), piece.answers(step), piece.uptimes(step)
        seen = self._rehearsal.snapshot(now, answers, uptime)
        made = self._rehearsal.step(now, answers, uptime)
        return Step(seen, made, self._rehearsal.state)

    def _next(self, piece: Piece, step: int, ahead: list[int]) -> int:
        """The next step of the piece at which something may be decided; its end where there is none."""
        while ahead and ahead[0] <= step:
            heappop(ahead)
        passed = bisect_right(self._due, piece.first + step)
        due = self._due[passed] - piece.first if passed < len(self._due) else piece.grid.count
        return min(due, ahead[0] if ahead else piece.grid.count, piece.grid.count)

    def _set_deadlines(self) -> None:
        grid = self.span.grid
        found: set[int] = set()
        for at in deadlines(self._rehearsal.state, self.rules):
            found.update((grid.first_from(at), grid.last_until(at) + 1))  # some pass at their moment, others after it
        self._due = sorted(step for step in found if 0 <= step < grid.count)

    def _open_cases(self) -> list[Case]:
        return [case for case in self._rehearsal.state.cases.values() if case.open]
