"""Runs tests on one real Prometheus, each in a stretch of simulated time that no query of another reaches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from quarantine.adapters.prometheus.client import PrometheusMetrics
from quarantine.adapters.prometheus.options import PrometheusSettings
from quarantine.backtest.engine import Step, steps
from quarantine.backtest.result import Span
from quarantine.core import promql
from quarantine.core.decision import Decision, Kind
from quarantine.core.errors import Unavailable, UsageError
from quarantine.core.model import Device, Samples
from quarantine.core.narrowing import to_recover
from quarantine.core.policy import LoadedPolicy
from quarantine.core.readings import load_reading, readings_of
from quarantine.core.units import format_duration
from quarantine.inspection import what_is_seen
from quarantine.policytest.expectations import Happened, Problem, problems, timeline, verdict
from quarantine.policytest.loading import Test
from quarantine.policytest.machines import device, nodes
from quarantine.sandbox.prometheus import PrometheusServer, find_binary
from quarantine.sandbox.remotewrite import write

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
APART = timedelta(days=2)  # between two tests, at least; signals' own expressions may look back as far
AHEAD = 50  # tests written and not yet run
WORKERS = 4  # Prometheus works while Python waits for it
TIMEOUT = timedelta(seconds=60)  # of one query; a machine under load is slow, and that is no fault of a policy
TOLD = 12  # decisions that a failure shows

# The whole simulated time stays in the head: compacting it would cost more than all the tests.
_HEAD_ONLY = ("--storage.tsdb.min-block-duration=36500d", "--storage.tsdb.max-block-duration=36500d")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one test."""

    test: Test
    problems: tuple[str, ...]  # empty: passed
    evidence: tuple[str, ...] = field(default=())  # of a failure: what was seen and decided instead
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether all was as expected."""
        return not self.problems


def run(tests: Sequence[Test], *, progress: Callable[[Outcome], None] = lambda _: None) -> list[Outcome]:
    """Runs all tests; the outcomes are in their order. `progress` is told of each, in this order too.

    Raises Unavailable where there is no Prometheus to run, or it does not start.
    """
    try:
        binary = find_binary()
    except UsageError as error:
        raise Unavailable(f"the tests need a Prometheus: {error}") from error
    found: list[Outcome] = []
    with (
        PrometheusServer(binary=binary, flags=_HEAD_ONLY) as server,
        PrometheusMetrics(PrometheusSettings(server.url, timeout=TIMEOUT)) as metrics,
        ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="policy-test") as pool,
    ):
        asked: deque[Future[Outcome]] = deque()
        try:
            for test, start in stretches(tests):
                # In order of time and on this thread alone: a series takes no sample that is older than its last.
                write(server.url, test.history.at(start))
                asked.append(pool.submit(_run, metrics, test, start))
                while asked and (asked[0].done() or len(asked) > AHEAD):
                    found.append(_told(asked.popleft(), progress))
            found += [_told(future, progress) for future in asked]
        except BaseException:
            pool.shutdown(cancel_futures=True)  # nobody waits for the others
            raise
    return found


def _told(future: Future[Outcome], progress: Callable[[Outcome], None]) -> Outcome:
    outcome = future.result()
    progress(outcome)
    return outcome


def stretches(tests: Sequence[Test]) -> Iterator[tuple[Test, datetime]]:
    """When each test begins, in simulated time."""
    free = FIRST
    for test in tests:
        interval = test.history.interval
        start = EPOCH - (EPOCH - free - _reach(test.policy)) // interval * interval
        yield test, start
        free = start + test.case.length


def _reach(policy: LoadedPolicy) -> timedelta:
    """How far back what is asked of a policy may look."""
    spec = policy.spec
    recovery = spec.recovery.lasting if spec.recovery is not None else timedelta(0)
    return max(APART, 3 * spec.trigger.window, 3 * recovery, 2 * spec.trigger.memory)


def _run(metrics: PrometheusMetrics, test: Test, start: datetime) -> Outcome:
    began = time.monotonic()
    happened = _happened(metrics, test, start, test.case.times)
    found = problems(test, happened)
    evidence = _evidence(metrics, test, start, found) if found else []
    told = tuple(problem.sentence for problem in found)
    return Outcome(test, told, tuple(evidence), time.monotonic() - began)


def _happened(metrics: PrometheusMetrics, test: Test, start: datetime, times: Sequence[timedelta]) -> Happened:
    interval = test.history.interval
    span = Span(start, start + test.case.length, interval)
    looks = {start + when // interval * interval for when in times}
    machines = test.case.machines or test.document.spec.machines
    made = nodes(machines, test.case.nodes, test.policy, test.rules.fleet)
    return Happened(start, interval, list(steps(test.rules, made, metrics, span, look_at=looks)))


# --- What a failure shows ---------------------------------------------------------------------------------------------


def _evidence(metrics: PrometheusMetrics, test: Test, start: datetime, found: Sequence[Problem]) -> list[str]:
    """The verdicts over the whole test, the decisions, and what the trigger saw where a verdict is another."""
    interval = test.history.interval
    moments = [n * interval for n in range(test.history.samples)]
    happened = _happened(metrics, test, start, moments)
    told = []
    for node, judged in dict.fromkeys([_on_trial(test), *((p.node, p.device) for p in found if p.node and p.device)]):
        assert node is not None and judged is not None  # noqa: S101, PT018
        over = {moment: verdict(happened.look(moment), test.rules, node, judged) for moment in moments}
        told.append(f"{judged} of {node}: {timeline(over)}")
    decided = [_decision(when, decision) for when, decision in happened.decisions]
    told += decided[:TOLD] or ["nothing was decided"]
    if len(decided) > TOLD:
        told.append(f"and {len(decided) - TOLD} further decisions")
    return told + list(_seen(metrics, test, happened, found))


def _on_trial(test: Test) -> tuple[str, Device]:
    kind = test.rules.signal_of(test.policy).device
    return test.case.node, device(test.case.device, test.case.node, kind)


def _decision(when: timedelta, decision: Decision) -> str:
    what = f"{decision.action}" + (f" of {decision.node}" if decision.node else "")
    held = f", held by {decision.held_by}" if decision.kind is Kind.HELD else ""
    return f"{format_duration(when)} {what}{held}: {decision.reason}"


def _seen(metrics: PrometheusMetrics, test: Test, happened: Happened, found: Sequence[Problem]) -> Iterator[str]:
    for problem in found:
        if problem.node is None or problem.device is None or problem.at is None:
            continue
        step = happened.look(problem.at)
        node = step.snapshot.nodes[problem.node]
        seen = what_is_seen(metrics, test.rules, node, at=step.at, timeout=TIMEOUT, only=problem.device)
        for sentence in seen or [f"policy {test.policy.name} saw no series of it"]:
            yield f"at {format_duration(problem.at)} {sentence}"
        yield from _asked(test, step, problem.node)


def _asked(test: Test, step: Step, node: str) -> Iterator[str]:
    """The questions, to be put again; of readings that nothing is seen of, none."""
    answers = step.answers[test.policy.name]
    for reading in readings_of(test.policy, test.rules):
        covered = answers.coverage.get(reading.key)
        if isinstance(covered, Samples) and covered.samples:
            yield f"is it bad, by {reading.key}: {promql.bad(test.policy, reading, None)}"
        case = step.state.open_case_of(node)
        devices = to_recover(test.policy, reading, [case], step.snapshot.nodes) if case is not None else []
        load = load_reading(test.policy, test.rules, reading)
        if devices and load is not None:
            yield f"is it good, by {reading.key}: {promql.good(test.policy, reading, load, devices)}"
