"""The engine on a made-up memory: what it skips, how it cuts, and what it does not know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.backtest.engine import Manner, run, steps
from quarantine.backtest.result import Span
from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision
from quarantine.core.model import Verdict
from quarantine.core.planner import judge_all
from quarantine.core.policy import Rules
from tests.backtest.remembered import Remembered, Steps, Told
from tests.core.world import fleet, nvlink, policy, rules

START = datetime(2026, 6, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
COUNT = 180
SPAN = Span(START, START + (COUNT - 1) * MINUTE, MINUTE)
NODES = fleet(6)
NOBODY: Steps = frozenset()


def between(start: int, stop: int) -> Steps:
    return frozenset(range(start, stop))


def memory(known: Rules, *told: Told, second: tuple[Told, ...] = (), **fields: object) -> Remembered:
    by_policy = {"gpu-hot": told, "nvlink": second}
    return Remembered(known, SPAN.grid, by_policy, nodes=tuple(NODES), **fields)  # type: ignore[arg-type]


def decided(known: Rules, metrics: Remembered, manner: Manner | None = None) -> list[Decision]:
    return [d for step in steps(known, NODES, metrics, SPAN, manner=manner) for d in step.plan.decisions]


# --- Skipping and cutting -----------------------------------------------------------------------------------------

ENDS = st.integers(0, COUNT)
STEPS = st.lists(st.tuples(ENDS, ENDS), max_size=3).map(
    lambda pairs: frozenset(step for a, b in pairs for step in range(min(a, b), max(a, b)))
)
DEVICES = st.lists(
    st.builds(
        lambda n, gpu, bad, good: Told(f"node-{n}", gpu, bad, good), st.integers(0, 6), st.integers(0, 1), STEPS, STEPS
    ),
    max_size=5,
    unique_by=lambda one: (one.node, one.gpu),
).map(tuple)
SEEN = st.dictionaries(st.integers(1, COUNT), st.sampled_from([0, 1, 8]), max_size=3).map(lambda d: {0: 8, **d})
TIGHT = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": {"quarantined": 2, "unavailable": 3, "perHour": 1}}]
ESCALATES = {"findings": 2, "within": "90m"}
SETTLES = {"by": ["rack"], "machines": 2, "within": "20m", "settle": "7m"}
RULES = st.sampled_from(
    [
        rules(policy(), nvlink(severity="fatal"), pools=TIGHT),
        rules(policy(escalation=ESCALATES), nvlink(mode="observe"), pools=TIGHT),
        rules(policy(correlation=SETTLES), nvlink(response={"taint": False}), topology={"rack": "gpu"}),
    ]
)


@settings(max_examples=15, deadline=None)
@given(RULES, DEVICES, DEVICES, SEEN)
def test_what_is_skipped_could_not_have_decided_anything(
    known: Rules, first: tuple[Told, ...], second: tuple[Told, ...], seen: dict[int, int]
) -> None:
    metrics = memory(known, *first, second=second, seen=seen)
    assert decided(known, metrics) == decided(known, metrics, Manner(every_step=True))


@settings(max_examples=15, deadline=None)
@given(RULES, DEVICES, DEVICES, SEEN, st.integers(1, COUNT))
def test_how_it_is_cut_makes_no_difference(
    known: Rules, first: tuple[Told, ...], second: tuple[Told, ...], seen: dict[int, int], piece: int
) -> None:
    metrics = memory(known, *first, second=second, seen=seen)
    assert decided(known, metrics, Manner(piece=piece)) == decided(known, metrics)


@settings(max_examples=15, deadline=None)
@given(RULES, DEVICES, STEPS, st.sampled_from(["candidates", "bad", "coverage", "good"]))
def test_nor_does_what_is_not_answered(known: Rules, first: tuple[Told, ...], gone: Steps, kind: str) -> None:
    metrics = memory(known, *first, failing={kind: gone})
    cut = Manner(piece=20)
    assert decided(known, metrics, cut) == decided(known, metrics, Manner(piece=20, every_step=True))


def test_a_quiet_history_is_hardly_looked_at() -> None:
    known = rules()
    result = run(known, NODES, memory(known, Told("node-1", 0, bad=between(20, 90))), SPAN)
    assert result.steps < 25
    assert result.decisions > 0


def test_recovery_is_asked_for_devices_of_open_cases_alone_and_from_then_on() -> None:
    known = rules()
    metrics = memory(known, Told("node-1", 0, bad=between(20, 40)), Told("node-2", 1))
    decided(known, metrics)
    asked = [(text, grid) for text, grid in metrics.asked if "> 0.1" in text]
    assert len(asked) == 1
    assert asked[0][1].start == START + 21 * MINUTE
    assert "GPU-node-1-0" in asked[0][0]


# --- What it shows ------------------------------------------------------------------------------------------------


def test_an_outage_lasts_to_the_end_and_tells_when_the_machine_was_good_again() -> None:
    known = rules(policy(), nvlink(severity="fatal"))
    one = Told("node-1", 0, bad=between(20, 40), good=between(75, COUNT))
    also = Told("node-1", 1, bad=between(30, 50), good=between(90, COUNT))
    result = run(known, NODES, memory(known, one, second=(also,)), SPAN)
    (outage,) = result.outages
    assert (outage.node, outage.policy, outage.also) == ("node-1", "gpu-hot", ("nvlink",))
    assert (outage.start, outage.end, outage.good_at) == (START + 20 * MINUTE, None, START + 90 * MINUTE)
    assert outage.evidence.labels["gpu"] == "0"
    assert result.machine_hours_out() == pytest.approx(159 / 60)
    assert result.machine_hours_out("nvlink") == 0
    assert result.by_node().keys() == {"node-1"}


def test_gpus_are_those_of_the_node_or_those_that_its_pool_is_expected_to_have() -> None:
    pool = {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "expected": {"gpus": 4}}
    known = rules(pools=[pool])
    result = run(known, NODES, memory(known, Told("node-1", 0, bad=between(0, 9))), SPAN)
    assert result.gpus == 24
    assert result.gpu_hours_out() == pytest.approx(4 * 179 / 60)


def test_a_hold_lasts_until_something_else_is_said() -> None:
    known = rules(pools=TIGHT)
    told = (Told("node-1", 0, bad=between(10, COUNT)), Told("node-2", 0, bad=between(20, COUNT)))
    result = run(known, NODES, memory(known, *told), SPAN)
    (held,) = [h for h in result.held if h.held_by is HeldBy.BUDGET]
    assert (held.node, held.policy) == ("node-2", "gpu-hot")
    # One an hour: the place is free again an hour after the first one took it.
    assert (held.start, held.end) == (START + 20 * MINUTE, START + 70 * MINUTE)
    assert [(o.node, o.start) for o in result.outages][1] == ("node-2", START + 70 * MINUTE)


def test_what_belongs_to_no_node_is_held_and_named() -> None:
    known = rules()
    result = run(known, NODES, memory(known, Told("elsewhere", 0, bad=between(10, 30))), SPAN)
    (stray,) = result.held
    assert stray.stray
    assert (stray.node, stray.start, stray.end) == ("elsewhere", START + 10 * MINUTE, START + 30 * MINUTE)
    assert not result.outages


def test_what_is_not_answered_is_a_gap_and_holds_the_policy() -> None:
    known = rules()
    metrics = memory(known, Told("node-1", 0, bad=between(70, 75)), failing={"candidates": between(65, 80)})
    result = run(known, NODES, metrics, SPAN, manner=Manner(piece=60))
    (gap,) = result.gaps
    assert (gap.policy, gap.start, gap.end) == ("gpu-hot", START + 60 * MINUTE, START + 119 * MINUTE)
    assert "refuses" in gap.detail
    assert not result.outages
    assert [(h.held_by, h.start, h.end) for h in result.held] == [
        (HeldBy.NO_ANSWER, START + 60 * MINUTE, START + 120 * MINUTE)
    ]
    assert result.unanswered("gpu-hot") == timedelta(hours=1)
    assert not result.blind


def test_a_bad_minute_is_no_reason_to_know_nothing_of_half_a_day() -> None:
    known = rules()
    metrics = memory(known, Told("node-1", 0, bad=between(140, 160)), failing={"candidates": between(65, 67)})
    result = run(known, NODES, metrics, SPAN)
    (gap,) = result.gaps
    assert gap.start <= START + 65 * MINUTE
    assert gap.end >= START + 66 * MINUTE
    assert result.unanswered("gpu-hot") < timedelta(minutes=60)
    assert [o.start for o in result.outages] == [START + 140 * MINUTE]


def test_a_query_that_never_has_an_answer_is_not_cut_again_and_again() -> None:
    known = rules()
    metrics = memory(known, failing={"candidates": between(0, COUNT)})
    result = run(known, NODES, metrics, SPAN)
    assert result.blind
    assert result.queries < 20


def test_neighbouring_gaps_of_one_reason_are_one() -> None:
    known = rules()
    metrics = memory(known, failing={"candidates": between(0, COUNT)})
    result = run(known, NODES, metrics, SPAN, manner=Manner(piece=40))
    assert [(gap.start, gap.end) for gap in result.gaps] == [(SPAN.start, SPAN.end)]
    assert result.blind


def test_where_nothing_is_seen_that_is_a_gap_and_it_looks_again_at_each_step() -> None:
    known = rules()
    metrics = memory(known, seen={0: 8, 41: 0, 48: 8})
    result = run(known, NODES, metrics, SPAN)
    # Asked every five minutes, it notices at 45; and then at once that it sees again.
    assert [(g.start, g.end, g.detail) for g in result.gaps] == [
        (START + 45 * MINUTE, START + 48 * MINUTE, "no series of its signal was there")
    ]
    assert result.held == ()


def test_a_look_has_the_verdicts_of_its_moment() -> None:
    known = rules()
    metrics = memory(known, Told("node-1", 0, bad=between(20, 40), good=between(70, COUNT)))
    wanted = [START + 30 * MINUTE, START + 50 * MINUTE, START + timedelta(minutes=80, seconds=59)]
    seen = {step.at: judge_all(step.snapshot, known)[0] for step in steps(known, NODES, metrics, SPAN, look_at=wanted)}
    assert [offence.node.name for offence in seen[wanted[0]].bad] == ["node-1"]
    assert (seen[wanted[1]].bad, seen[wanted[1]].good) == ((), {})
    assert START + 80 * MINUTE in seen
    recovered = [d for s in steps(known, NODES, metrics, SPAN) for d in s.plan.decisions if d.action is Action.RECOVER]
    assert [(d.at, d.verdict) for d in recovered] == [(START + 70 * MINUTE, Verdict.GOOD)]


def test_a_span_without_a_step_is_refused() -> None:
    known = rules()
    short = Span(START + timedelta(seconds=1), START + timedelta(seconds=2), MINUTE)
    with pytest.raises(ValueError, match="no multiple"):
        run(known, NODES, memory(known), short)
