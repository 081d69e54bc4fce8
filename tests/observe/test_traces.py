"""Which decisions get a series, what is asked for it, and that nothing else ever depends on the answer."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.model import Failed, FailureKind, Mode, PolicyAnswers, Sample, Samples
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.promql import tracing
from quarantine.core.record.chart import chart
from quarantine.core.record.trace import Trace
from quarantine.core.selectors import Labels
from quarantine.core.series import Grid, RangeAnswer, Track, Tracks
from quarantine.core.signal import SignalSpec
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.observe import Observer, Pace, traces
from tests.core.world import (
    DOWNED,
    GPU_TEMPERATURE,
    NOW,
    answers,
    flapping,
    fleet,
    hot,
    node,
    policy,
    rules,
    seen,
    snapshot,
)

HALF_MINUTE = timedelta(seconds=30)


def labels(name: str, gpu: int = 3) -> dict[str, str]:
    return {"Hostname": name, "UUID": f"GPU-{name}-{gpu}"}


@dataclass
class Past:
    """A Prometheus that remembers ten samples of whatever is in `there`; each question takes `takes`."""

    there: Sequence[Labels] = ()
    values: Callable[[int], float] = lambda n: 75.0 + n
    fails: Failed | None = None
    takes: timedelta = timedelta(0)
    at: datetime = NOW
    asked: list[tuple[str, Grid, timedelta]] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def query_samples(self, promql: str, within: Grid, *, timeout: timedelta) -> RangeAnswer:
        return self._answer(promql, within, timeout)

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta, at_once: bool) -> RangeAnswer:
        assert at_once, "or one question may take several times its time-out"
        return self._answer(promql, grid, timeout)

    def _answer(self, promql: str, grid: Grid, timeout: timedelta) -> RangeAnswer:
        assert timeout > timedelta(0)
        self.asked.append((promql, grid, timeout))
        self.at += self.takes
        if self.fails is not None:
            return self.fails
        apart = HALF_MINUTE // grid.step if grid.step < HALF_MINUTE else 1
        steps = [grid.count - 1 - n * apart for n in reversed(range(10))]
        pairs = array("d", map(self.values, range(10)))
        return Tracks(tuple(Track(each, array("q", steps), pairs) for each in self.there), grid, promql)


def trace_of(decision: Decision) -> Trace:
    assert decision.evidence is not None
    assert decision.evidence.trace is not None
    return decision.evidence.trace


def without(decisions: Sequence[Decision]) -> list[Decision]:
    """As they were, but for their traces."""
    return [d if d.evidence is None else replace(d, evidence=replace(d.evidence, trace=None)) for d in decisions]


def traced(past: Past, given: Snapshot, law: Rules) -> list[Decision]:
    """What is planned with evidence, and what was seen before it."""
    observer = Observer(None, None, past, law, Pace(workers=1), past=past)  # type: ignore[arg-type]
    made = plan(given, law).decisions
    found = observer.traced(made, given.state)
    assert without(found) == list(made), "nothing but the traces may differ"
    return [decision for decision in found if decision.evidence is not None]


def test_a_quarantine_has_the_samples_before_it() -> None:
    past = Past([labels("node-3")])
    (made,) = traced(past, snapshot(None, hot("node-3")), rules())
    trace = trace_of(made)
    assert made.action is Action.QUARANTINE
    selector = 'DCGM_FI_DEV_GPU_TEMP{Hostname="node-3",hostname="",UUID="GPU-node-3-3",uuid=""}[30m]'
    assert trace == Trace(
        selector,
        tuple((NOW - (9 - n) * HALF_MINUTE, 75.0 + n) for n in range(10)),
        raw=True,
        bound=78.0,
        since=NOW - timedelta(minutes=5),
    )
    ((query, within, _),) = past.asked
    assert (query, within.end, within.end - within.start) == (selector, NOW, timedelta(minutes=30))


def test_a_held_finding_has_one_when_it_opens_its_case_and_not_when_its_reason_changes() -> None:
    past = Past([labels("node-3")])
    observing = snapshot(None, hot("node-3"), mode=Mode.OBSERVE)
    (held,) = traced(past, observing, rules())
    assert (held.kind, held.held_by) == (Kind.HELD, HeldBy.OBSERVE_MODE)
    assert trace_of(held).points
    state = fold(State(), [held])
    nodes = fleet()
    nodes["node-3"] = node("node-3", labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})
    (again,) = traced(past, snapshot(nodes, hot("node-3"), state=state), rules())
    assert (again.held_by, again.evidence and again.evidence.trace) == (HeldBy.IGNORED, None)
    (taken,) = traced(past, snapshot(None, hot("node-3"), state=state), rules())
    assert taken.kind is Kind.DECIDED
    assert trace_of(taken).points


def test_what_is_held_on_a_node_without_a_case_has_one_once() -> None:
    past, nodes = Past([labels("node-3")]), fleet()
    nodes["node-3"] = node("node-3", labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})
    look = snapshot(nodes, hot("node-3"))
    (held,) = traced(past, look, rules())
    assert (held.case, held.held_by) == (None, HeldBy.IGNORED)
    assert trace_of(held).points
    drawn = chart("node-3", [(1, held)])
    assert drawn is not None
    assert drawn.panels[0].runs
    assert traced(past, replace(look, state=fold(State(), [held])), rules()) == []
    assert len(past.asked) == 1


def test_what_sends_a_machine_back_from_probation_has_one() -> None:
    taken = plan(snapshot(None, hot("node-3")), rules()).decisions[0]
    assert taken.evidence is not None
    later = replace(taken.evidence, at=NOW + timedelta(hours=2))
    back = replace(taken, at=later.at, action=Action.PROVE, evidence=later)
    past = Past([labels("node-3")], at=later.at)
    observer = Observer(None, None, past, rules(), Pace(workers=1), past=past)  # type: ignore[arg-type]
    (made,) = observer.traced([back], fold(State(), [taken]))
    assert trace_of(made).points[-1][0] == later.at
    assert without([made]) == [back]


def test_what_joins_a_case_has_one_and_what_opens_none_has_none() -> None:
    past = Past([labels("node-3"), labels("node-3", 5)])
    found = traced(past, snapshot(None, hot("node-3"), hot("node-3", 5), hot("stranger")), rules())
    with_series = {(d.node, d.action): bool(d.evidence and d.evidence.trace) for d in found}
    assert with_series[("node-3", Action.QUARANTINE)]
    assert with_series[("node-3", Action.JOIN)]
    assert not with_series[("stranger", Action.QUARANTINE)]
    assert all("stranger" not in query for query, _, _ in past.asked)


def test_many_are_asked_about_together_and_each_has_its_own() -> None:
    names = [f"node-{n}" for n in range(100)]
    past = Past([labels(name) for name in names] + [labels("node-1", 7)])
    given = snapshot(fleet(250), *(hot(name) for name in names))
    found = traced(past, given, rules())
    assert [len(trace_of(d).points) for d in found] == [10] * 100
    assert len(past.asked) == 3
    assert all(labels(str(d.node))["UUID"] in trace_of(d).query for d in found)


def test_what_took_too_long_is_not_waited_for() -> None:
    names = [f"node-{n}" for n in range(8)]  # so few are asked about one by one
    past = Past([labels(name) for name in names], takes=timedelta(seconds=2))
    found = traced(past, snapshot(None, *(hot(name) for name in names)), rules())
    assert [bool(trace_of(d).points) for d in found] == [True] * 2 + [False] * 6
    assert [left for _, _, left in past.asked] == [timedelta(seconds=3), timedelta(seconds=1)]
    assert trace_of(found[-1]).query == "", "it was never sent"
    assert trace_of(found[-1]).note == ("it was not asked about: all series of a cycle's decisions have 3s together")


def test_what_is_taken_out_goes_before_what_is_held() -> None:
    names = [f"node-{n}" for n in range(8)]
    budget = {"quarantined": 2, "unavailable": "60%", "perHour": "50%"}
    law = rules(pools=[{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget}])
    made = [d for d in plan(snapshot(None, *map(hot, names)), law).decisions if d.evidence is not None]
    assert [d.kind for d in made].count(Kind.DECIDED) == 2
    past = Past([labels(name) for name in names], takes=timedelta(seconds=2))
    observer = Observer(None, None, past, law, Pace(workers=1), past=past)  # type: ignore[arg-type]
    found = observer.traced(made[::-1], State())
    assert [d.kind for d in found if trace_of(d).points] == [Kind.DECIDED] * 2


def test_a_prometheus_that_is_away_changes_nothing_and_its_words_are_kept() -> None:
    past = Past(fails=Failed(FailureKind.UNREACHABLE, "http://p:9090/api/v1/query refuses the connection.", "q"))
    (made,) = traced(past, snapshot(None, hot("node-3")), rules())
    trace = trace_of(made)
    assert (trace.points, trace.note) == ((), "http://p:9090/api/v1/query refuses the connection.")
    assert (trace.bound, trace.since) == (78.0, NOW - timedelta(minutes=5))


def test_nothing_there_is_said() -> None:
    (made,) = traced(Past([labels("node-4")]), snapshot(None, hot("node-3")), rules())
    assert trace_of(made).points == ()
    assert trace_of(made).note == "Prometheus has no samples of it from that time"


def test_a_defect_leaves_the_decisions_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(Past):
        def _answer(self, promql: str, grid: Grid, timeout: timedelta) -> RangeAnswer:
            raise KeyError(promql, grid, timeout)

    (made,) = traced(Broken(), snapshot(None, hot("node-3")), rules())
    assert (made.kind, made.evidence and made.evidence.trace) == (Kind.DECIDED, None)
    assert "please report it" in "".join(capsys.readouterr()), "wherever the log goes"


def test_without_a_past_nothing_is_asked() -> None:
    law, given = rules(), snapshot(None, hot("node-3"))
    observer = Observer(None, None, Past(), law)  # type: ignore[arg-type]
    made = plan(given, law).decisions
    assert observer.traced(made, given.state) == made


def test_a_sample_that_is_no_measurement_is_left_out_and_counted() -> None:
    odd = {2: 2147483632.0, 3: float("nan"), 4: float("-inf")}
    (made,) = traced(Past([labels("node-3")], lambda n: odd.get(n, 80.0)), snapshot(None, hot("node-3")), rules())
    assert [value for _, value in trace_of(made).points] == [80.0] * 7
    assert trace_of(made).note == "samples outside 1 to 129 °C are left out: 3"


def test_what_is_scraped_faster_than_the_signal_says_is_thinned_to_what_the_trigger_minds() -> None:
    class Fast(Past):
        def _answer(self, promql: str, grid: Grid, timeout: timedelta) -> RangeAnswer:
            assert timeout
            steps = range(0, grid.count, 1000)
            values = array("d", (84.0 if step % 30_000 == 0 else 60.0 for step in steps))
            return Tracks((Track(labels("node-3"), array("q", steps), values),), grid, promql)

    (made,) = traced(Fast(), snapshot(None, hot("node-3")), rules())
    trace = trace_of(made)
    assert len(trace.points) <= tracing.MOST
    assert trace.note == "shown is the highest of every 8 samples"
    assert sum(value == 84.0 for _, value in trace.points) == 61


def judged(loaded: LoadedPolicy, key: str, sample: Sample) -> tuple[Snapshot, Rules]:
    nodes = fleet()
    given: dict[str, PolicyAnswers] = {loaded.name: answers(nodes, sample, key=key)}
    return snapshot(nodes, given=given), rules(loaded)


def test_new_events_are_counted_at_even_steps() -> None:
    said = {"instance": "10.0.0.3:9100", "device": "mlx5_0", "port": "1"}
    past = Past([said])
    given, law = judged(flapping(), DOWNED, Sample(said, 2.0, NOW, "q"))
    found = traced(past, given, law)
    (trace,) = [trace_of(d) for d in found if d.action is Action.QUARANTINE]
    assert (trace.raw, trace.bound, trace.above) == (False, 2.0, True)
    assert trace.since == NOW - timedelta(minutes=10)
    assert "min_over_time" in trace.query
    assert "node_scrape_collector_success" not in trace.query, "a gate is put to the whole fleet"
    ((_, grid, _),) = past.asked
    assert (grid.step, grid.end) == (timedelta(seconds=15), NOW)


def test_of_an_expression_the_first_are_asked_about_and_the_others_are_told_so() -> None:
    names = [f"node-{n}" for n in range(50)]
    loaded = policy("gpu-hot", recovery=None)
    law = rules(loaded)
    source = {"exporter": "own", "expr": "temperature", "node": {"first": ["Hostname"]}, "device": {"first": ["UUID"]}}
    written = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
    own = SignalSpec.model_validate({**written, "sources": [source]})
    law = replace(law, signals={**law.signals, "gpu.temperature": own})
    past = Past([labels(name) for name in names])
    nodes = fleet(150)
    given = {"gpu-hot": replace(answers(nodes, *map(hot, names), key="own/expr"), coverage={"own/expr": seen(nodes)})}
    found = traced(past, snapshot(nodes, given=given), law)
    assert len(past.asked) == 1
    points = [len(trace_of(d).points) for d in found]
    assert sorted(points) == [0] * 10 + [10] * 40
    assert {trace_of(d).note for d in found if not trace_of(d).points} == {
        "it was not asked about: an expression is put to the whole fleet, so for 40 devices and no more"
    }


def test_a_value_that_is_too_low_is_charted_by_its_lowest() -> None:
    cold = policy("gpu-hot", trigger={"below": 20, "for": "5m"}, recovery=None)
    (made,) = traced(Past([labels("node-3")] * 2), snapshot(None, hot("node-3", value=10.0)), rules(cold))
    trace = trace_of(made)
    assert (trace.bound, trace.above) == (20.0, False)


@pytest.mark.parametrize(
    ("value", "bound", "above", "note"),
    [(9.0, 10.0, False, "it is bad above 14 °C as well"), (15.0, 14.0, True, "it is bad below 10 °C as well")],
)
def test_of_two_bounds_the_one_that_it_is_beyond(value: float, bound: float, above: bool, note: str) -> None:
    outside = policy("gpu-hot", trigger={"outside": {"min": 10, "max": 14}, "for": "5m"}, recovery=None)
    (made,) = traced(Past([labels("node-3")]), snapshot(None, hot("node-3", value=value)), rules(outside))
    trace = trace_of(made)
    assert (trace.bound, trace.above) == (bound, above)
    assert note in trace.note


def test_what_is_absent_has_nothing_to_show_and_is_not_asked_about() -> None:
    gone = policy("gpu-hot", trigger={"absent": True, "for": "5m"}, recovery=None)
    lost = Sample(hot("node-3").labels, 1.0, NOW, "q")
    nodes = fleet()
    seen = Samples(tuple(Sample({"Hostname": n}, 7.0 if n == "node-3" else 8.0, NOW) for n in nodes), "coverage")
    given = {"gpu-hot": answers(nodes, lost, coverage=seen)}
    past = Past()
    found = traced(past, snapshot(nodes, given=given), rules(gone))
    traces = [trace_of(d) for d in found if d.action is Action.QUARANTINE]
    assert [(t.query, t.bound, t.note) for t in traces] == [("", None, "what is absent has no values to show")]
    assert past.asked == []


class _SetBack(Past):
    """Its clock is set back once the limit was taken from it."""

    def now(self) -> datetime:
        at, self.at = self.at, NOW - timedelta(hours=1)
        return at


def test_a_clock_that_is_set_back_grants_no_more_time() -> None:
    past, limit = _SetBack(), timedelta(seconds=3)
    made = plan(snapshot(None, hot("node-3")), rules())
    traces.traced(made.decisions, State(), rules(), past, past, limit=limit, workers=1)
    assert past.asked
    assert max(timeout for _, _, timeout in past.asked) <= limit
