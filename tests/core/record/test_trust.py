"""The path of trust: what counts as observed, where a policy stands, and how sure its precision is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Phase
from quarantine.core.decision import Census
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import Verdict
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.record.milestones import Fate
from quarantine.core.record.trust import (
    Edition,
    Found,
    Rank,
    Standing,
    Step,
    Trail,
    Wanted,
    standing,
    standings,
    waiting,
)
from quarantine.core.record.trust.material import Stretch, Sweep, Told
from quarantine.core.record.trust.observed import Day, finds_the_same, observed, run
from quarantine.core.record.trust.path import pools_of
from quarantine.core.record.trust.share import interval
from tests.core.world import policy, quarantined, rules

NOW = datetime.fromisoformat("2026-11-29T12:00:00+00:00")
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WANTED = Wanted(NOW - 14 * DAY, NOW, NOW)
FLEET = FleetSpec.model_validate(
    {"pools": [{"name": pool, "nodeSelector": {"pool": pool}} for pool in ("h100", "a100", "l40")]}
)
SIZES = {"h100": Census(100, 800, NOW), "a100": Census(1000, 8000, NOW)}
OTHER = {"trigger": {"above": 75, "for": "5m"}}
FALSE = Found(cases=1, fates={Fate.REFUTED: 1}, refuted=(Told("q-1", "node-3", NOW - 5 * DAY),))


def only(**changes: object) -> LoadedPolicy:
    return policy("gpu-hot", **{"mode": "observe", **changes})


def in_pool(pool: str, **changes: object) -> LoadedPolicy:
    return only(nodeSelector={"pool": pool}, **changes)


def trail(*editions: tuple[float, LoadedPolicy | None], **held: tuple[Stretch, ...]) -> Trail:
    """Editions by how many days ago they came into force."""
    return Trail(tuple(Edition(NOW - ago * DAY, None if one is None else one.spec) for ago, one in editions), **held)


def stands(one: LoadedPolicy, of: Trail, found: Found | None = None, sizes: Mapping[str, Census] = SIZES) -> Standing:
    return standing(one, FLEET, of, found or Found(), sizes, WANTED)


# --- Observing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"description": "in other words"}, True),
        ({"owner": "somebody else"}, True),
        ({"mode": "enforce"}, True),
        ({"response": {"ticket": "none", "drain": "now"}}, True),
        ({"nodeSelector": {"pool": "h100"}}, True),
        ({"trigger": {"above": 77.9, "for": "5m"}}, False),
        ({"trigger": {"above": 78, "for": "6m"}}, False),
        ({"signal": "gpu.tensor"}, False),
        ({"grace": {"driver": "10m"}}, False),
        ({"breaker": {"maxShare": "20%"}}, False),
        ({"escalation": {"findings": 2, "within": "1d"}}, False),
        ({"recovery": None}, False),
    ],
)
def test_what_a_policy_finds_is_not_what_is_done_about_it(changes: dict[str, object], same: bool) -> None:
    assert finds_the_same(only().spec, only(**changes).spec) is same


def seen(of: Trail, one: LoadedPolicy) -> timedelta:
    return observed(run(of, one.spec, NOW), of, one.spec.node_selector)


def test_a_new_mode_or_prose_goes_on_and_a_new_threshold_begins_anew() -> None:
    went_on = trail((20, only()), (10, only(description="better said")), (3, only(mode="enforce")))
    assert seen(went_on, only(mode="enforce")) == 20 * DAY
    changed = trail((20, only()), (10, only(**OTHER)), (3, only(**OTHER, owner="others")))
    assert seen(changed, only(**OTHER)) == 10 * DAY
    assert seen(changed, only()) == timedelta(0), "it is not what was observed last"


def test_what_comes_back_after_a_change_or_a_removal_begins_anew() -> None:
    assert seen(trail((20, only()), (10, only(**OTHER)), (3, only())), only()) == 3 * DAY
    assert seen(trail((20, only()), (10, None), (3, only())), only()) == 3 * DAY
    assert seen(trail((20, only()), (10, None)), only()) == timedelta(0)
    assert seen(Trail(), only()) == timedelta(0)


def test_fewer_machines_were_observed_with_all_and_more_were_not() -> None:
    of = trail((30, only()), (10, in_pool("h100")))
    assert seen(of, in_pool("h100")) == 30 * DAY
    assert seen(of, only()) == 20 * DAY, "nobody looked at the others since"
    assert seen(of, in_pool("a100")) == 20 * DAY
    assert seen(trail((30, in_pool("h100")), (2, only())), only()) == 2 * DAY


def test_what_was_blind_is_not_observed_and_overlaps_are_counted_once() -> None:
    blind = (
        Stretch(NOW - 30 * DAY, NOW - 19 * DAY),  # before it was there, and a day of it
        Stretch(NOW - 10 * DAY, NOW - 8 * DAY),
        Stretch(NOW - 9 * DAY, NOW - 7 * DAY),
        Stretch(NOW - DAY, None),
    )
    assert seen(trail((20, only()), blind=blind), only()) == 15 * DAY


ALL, H100 = only(), in_pool("h100")
KINDS = (ALL, H100, only(**OTHER), None)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0, 1, 2, 3])), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=5),
)
def test_nothing_counts_twice_and_blindness_never_adds(
    came: list[tuple[int, int]], dark: list[tuple[int, int]]
) -> None:
    of = trail(*((ago, KINDS[kind]) for ago, kind in sorted(came, reverse=True)))
    blind = tuple(Stretch(NOW - max(pair) * DAY, NOW - min(pair) * DAY) for pair in dark)
    bright = seen(of, H100)
    with_holes = seen(replace(of, blind=blind), H100)
    assert timedelta(0) <= with_holes <= bright <= max(came)[0] * DAY
    lost = sum((one.until - one.since for one in blind if one.until), timedelta(0))
    assert bright - with_holes <= lost
    assert seen(of, ALL) <= bright, "who looks at all looks at these too"


def test_the_days_tell_what_they_were() -> None:
    found = replace(FALSE, cases=2, days={9: 1, 11: 2}, refuted_days=frozenset({9}))
    dark = (Stretch(NOW - 8 * DAY, NOW - 7.5 * DAY), Stretch(NOW - 6 * DAY, NOW - 5.6 * DAY))
    days = stands(only(), trail((10.2, only()), blind=dark), found).days
    assert len(days) == 14
    told = {Day.NONE: ".", Day.BLIND: "b", Day.QUIET: "-", Day.FOUND: "f", Day.REFUTED: "x"}
    assert "".join(told[day] for day in days) == "...---b--x-f--"


def test_time_that_nothing_proves_is_neither_observed_nor_blind() -> None:
    """Also where it was blind at the same time: when it was last heard of, it may have been."""
    dark, absent = (Stretch(NOW - 9 * DAY, NOW - 7 * DAY),), (Stretch(NOW - 8 * DAY, NOW - 4 * DAY),)
    made = stands(only(), trail((15, only()), blind=dark, unproven=absent))
    assert (made.observed, made.blind, made.unproven) == (10 * DAY, DAY, 4 * DAY)
    assert made.step is Step.OBSERVE
    told = {Day.NONE: ".", Day.BLIND: "b", Day.QUIET: "-"}
    assert "".join(told[day] for day in made.days) == "-----b....----"


def suspected(case: str, *policies: str, **changes: Any) -> Case:
    """A suspicion that these policies found."""
    state, _ = quarantined("node-3")
    (known,) = state.cases.values()
    findings = tuple(replace(known.findings[0], policy=name, verdict=Verdict.BAD) for name in policies)
    return replace(known, id=case, phase=Phase.SUSPECTED, opened_at=NOW, findings=findings, **changes)


def test_what_waits_is_every_suspicion_that_a_policy_found_however_old() -> None:
    old = replace(suspected("q-1", "hot", "link"), opened_at=NOW - 99 * DAY)
    recovered = suspected("q-2", "hot", "link")
    recovered = replace(recovered, findings=(replace(recovered.findings[0], verdict=Verdict.GOOD), old.findings[1]))
    other = [
        suspected("q-3", "hot", by_person=True),
        replace(suspected("q-4", "hot"), phase=Phase.DISMISSED),
        replace(suspected("q-5", "hot"), phase=Phase.QUARANTINED),
    ]
    told = waiting([old, recovered, *other])
    assert {name: [one.case for one in cases] for name, cases in told.items()} == {
        "hot": ["q-1"],
        "link": ["q-2", "q-1"],
    }


def test_time_without_a_controller_is_not_observed() -> None:
    wanted = Wanted(NOW - 14 * DAY, NOW, NOW - 5 * DAY)
    made = standing(only(), FLEET, trail((15, only())), Found(), SIZES, wanted)
    assert (made.observed, made.step) == (10 * DAY, Step.OBSERVE)
    assert len(made.days) == 9


# --- The steps --------------------------------------------------------------------------------------------------------

LONG = trail((30, only()))
ACTS = {"mode": "enforce"}


@pytest.mark.parametrize(
    ("one", "of", "found", "step", "turn"),
    [
        (only(), Trail(), None, Step.OBSERVE, Rank.TIME),
        (only(), trail((13.9, only())), None, Step.OBSERVE, Rank.TIME),
        (only(), trail((13.9, only())), Found(cases=1, waits=1), Step.OBSERVE, Rank.PEOPLE),
        (only(), trail((14, only())), None, Step.BACKTEST, Rank.PEOPLE),
        (only(), LONG, Found(cases=3, waits=1), Step.READ, Rank.PEOPLE),
        (only(), LONG, Found(cases=3, passed=3, fates={Fate.OPEN: 3}), Step.BACKTEST, Rank.PEOPLE),
        (only(), LONG, FALSE, Step.READ, Rank.BACK),
        (only(**ACTS), trail((3, only())), None, Step.OBSERVE, Rank.BACK),
        (only(**ACTS), LONG, FALSE, Step.READ, Rank.BACK),
        (only(**ACTS), LONG, Found(cases=1, waits=1), Step.FULL, Rank.DONE),
        (in_pool("h100", **ACTS), trail((30, only()), (5, in_pool("h100", **ACTS))), None, Step.ONE_POOL, Rank.PEOPLE),
        (in_pool("h100", **ACTS), trail((30, in_pool("h100"))), None, Step.FULL, Rank.DONE),
        (in_pool("h100", **ACTS), trail((31, only()), (30, in_pool("h100"))), None, Step.FULL, Rank.DONE),
    ],
)
def test_each_step_asks_for_what_comes_before_it(
    one: LoadedPolicy, of: Trail, found: Found | None, step: Step, turn: Rank
) -> None:
    made = stands(one, of, found)
    assert (made.step, made.turn) == (step, turn)
    assert made.ahead is (one.spec.mode.value == "enforce" and step in (Step.OBSERVE, Step.READ))


def test_some_of_several_pools_is_widening() -> None:
    two = only(nodeSelector={"zone": "b"}, **ACTS)
    made = stands(two, trail((30, only()), (5, two)))
    assert (made.step, made.pools, made.seen_in) == (Step.WIDEN, ("h100", "a100", "l40"), ("h100", "a100", "l40"))


def test_pools_are_those_that_a_selector_leaves() -> None:
    assert pools_of({}, FLEET) == ("h100", "a100", "l40")
    assert pools_of({"pool": "a100", "zone": "b"}, FLEET) == ("a100",)
    assert pools_of({"zone": "b"}, FLEET) == ("h100", "a100", "l40")
    assert pools_of({"pool": "none"}, FLEET) == ()


@settings(max_examples=30)
@given(st.integers(0, 40), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_nothing_that_was_not_observed_or_was_judged_false_goes_on(
    ago: int, false: int, waits: int, acts: bool
) -> None:
    told = (Told("q-1", "node-3", NOW),) * false
    found = Found(cases=false + waits, fates={Fate.REFUTED: false}, waits=waits, refuted=told)
    made = stands(only(mode="enforce" if acts else "observe"), trail((ago, only())), found)
    assert (made.step.rank >= Step.BACKTEST.rank) is (ago >= 14 and not false and (acts or not waits))


def test_what_waits_for_people_is_told_first() -> None:
    named = [
        policy(f"p-{n}", mode=mode) for n, mode in enumerate(("observe", "observe", "enforce", "observe", "enforce"))
    ]
    law: Rules = replace(rules(*named), fleet=FLEET)
    trails = {p.name: trail((30, p)) for p in named} | {"p-0": trail((2, named[0]))}
    found = {"p-1": FALSE, "p-3": Found(cases=1, waits=1)}
    told = [one.policy.name for one in standings(law, trails, found, SIZES, WANTED)]
    assert told == ["p-1", "p-3", "p-0", "p-2", "p-4"]


# --- At once ----------------------------------------------------------------------------------------------------------


def test_a_sweep_is_held_against_its_pool_s_budget() -> None:
    def most(*sweeps: Sweep) -> tuple[str, int | None, bool] | None:
        over = stands(only(), LONG, Found(cases=9, sweeps=sweeps)).overflow
        return None if over is None else (over.sweep.pool, over.allowed, over.exceeds)

    assert most() is None
    assert most(Sweep("h100", 2, NOW)) == ("h100", 2, False)
    assert most(Sweep("h100", 3, NOW), Sweep("a100", 19, NOW)) == ("h100", 2, True)
    assert most(Sweep("l40", 3, NOW)) == ("l40", None, False), "how large it is, was never counted"
    assert most(Sweep("gone", 3, NOW)) == ("gone", None, False)


def test_the_breaker_counts_within_the_window() -> None:
    tripped = (Stretch(NOW - 20 * DAY, NOW - 19 * DAY), Stretch(NOW - 15 * DAY, NOW - 13 * DAY), Stretch(NOW, None))
    assert stands(only(), replace(LONG, tripped=tripped)).tripped == 2


# --- Precision --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "of", "low", "high"),
    [
        (0, 0, 0, 1),
        (0, 10, 0, 0.3085),
        (10, 10, 0.6915, 1),
        (5, 10, 0.1871, 0.8129),
        (1, 1, 0.025, 1),
        (90, 100, 0.8238, 0.9510),
    ],
)
def test_the_interval_is_that_of_the_tables(right: int, of: int, low: float, high: float) -> None:
    assert interval(right, of) == pytest.approx((low, high), abs=5e-5)


@settings(max_examples=20)
@given(st.integers(0, 100), st.integers(0, 100))
def test_the_interval_s_ends_are_where_as_many_have_the_tail_s_probability(right: int, wrong: int) -> None:
    of = right + wrong
    low, high = interval(right, of)
    assert 0 <= low <= (right / of if of else 0.5) <= high <= 1
    if right:
        assert tail(right, of, low, up=True) == pytest.approx(0.025, abs=1e-6)
    if wrong:
        assert tail(right, of, high, up=False) == pytest.approx(0.025, abs=1e-6)


def tail(right: int, of: int, share: float, *, up: bool) -> float:
    """The probability of so many or more (or fewer), summed up term by term."""
    which = range(right, of + 1) if up else range(right + 1)
    return math.fsum(math.comb(of, n) * share**n * (1 - share) ** (of - n) for n in which)


def test_counts_that_cannot_be_have_no_interval() -> None:
    for right, of in ((2, 1), (-1, 1)):
        with pytest.raises(ValueError, match="cannot have been seen"):
            interval(right, of)


def test_precision_is_of_what_was_judged() -> None:
    made = stands(
        only(),
        LONG,
        Found(
            cases=9, fates={Fate.CONFIRMED: 3, Fate.REFUTED: 1, Fate.RETURNED: 4, Fate.OPEN: 1}, refuted=FALSE.refuted
        ),
    )
    assert made.judged == 4
    assert made.right == interval(3, 4)
