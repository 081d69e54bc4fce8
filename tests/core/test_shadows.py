"""A policy that another makes needless: what one finds, the other has found by then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from quarantine.core.shadows import finds_all_of, shadowed
from quarantine.core.trigger import Trigger
from tests.core.world import flapping, policy

STEP = timedelta(seconds=30)
RECOVERY = {"below": 60, "for": "30m", "load": {"signal": "gpu.tensor", "above": 0.1}}


def finds(trigger: Trigger, samples: list[float]) -> list[int]:
    """At which samples a trigger finds the device bad: the exact form of the query, in plain Python."""
    size = trigger.window // STEP

    def bad(value: float) -> bool:
        low, high = (trigger.outside.min, trigger.outside.max) if trigger.outside else (trigger.below, trigger.above)
        return (low is not None and value < low) or (high is not None and value > high)

    return [
        end
        for end in range(size, len(samples) + 1)
        if bad(samples[end - 1]) and sum(map(bad, samples[end - size : end])) >= (1 - trigger.tolerate) * size - 1e-9
    ]


VALUES = st.integers(0, 5).map(float)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Trigger, Trigger]:
    """A trigger of a gauge over a few samples, and one whose bounds, time and tolerance differ a little."""
    form = draw(st.sampled_from(["above", "below", "outside"]))
    made = []
    for _ in range(2):
        low = draw(st.integers(0, 2))
        bound: object = {"min": low, "max": low + draw(st.integers(1, 3))} if form == "outside" else low + 1
        minutes = draw(st.sampled_from([1, 2, 3, 4]))
        tolerate = draw(st.sampled_from(["0%", "10%", "25%", "34%", "50%"]))
        made.append(Trigger.model_validate({form: bound, "for": f"{minutes}m", "tolerate": tolerate}))
    return made[0], made[1]


@settings(suppress_health_check=[HealthCheck.filter_too_much], max_examples=300)
@given(pairs(), st.lists(VALUES, min_size=12, max_size=40))
def test_whatever_a_shadowed_trigger_finds_the_other_has_found_by_then(
    pair: tuple[Trigger, Trigger], samples: list[float]
) -> None:
    other, trigger = pair
    assume(finds_all_of(other, trigger))
    first, second = finds(trigger, samples), finds(other, samples)
    if first:
        assert second
        assert second[0] <= first[0]


def test_a_time_that_is_no_multiple_is_not_always_found_sooner() -> None:
    short = Trigger.model_validate({"above": 1, "for": "1m", "tolerate": "34%"})
    long = Trigger.model_validate({"above": 1, "for": "90s", "tolerate": "34%"})
    samples = [0.0, 2.0, 0.0, 2.0, 0.0, 2.0]
    assert finds(long, samples)
    assert not finds(short, samples)
    assert not finds_all_of(short, long)


@pytest.mark.parametrize(
    ("other", "trigger", "all_of"),
    [
        ({"above": 78, "for": "5m"}, {"above": 85, "for": "10m"}, True),
        ({"above": 85, "for": "5m"}, {"above": 78, "for": "10m"}, False),
        ({"above": 78, "for": "10m"}, {"above": 85, "for": "5m"}, False),
        ({"above": 78, "for": "5m", "tolerate": "5%"}, {"above": 85, "for": "5m"}, False),
        ({"above": 78, "for": "5m", "coverage": "90%"}, {"above": 85, "for": "5m"}, False),
        ({"below": 10, "for": "5m"}, {"below": 5, "for": "5m"}, True),
        ({"below": 5, "for": "5m"}, {"below": 10, "for": "5m"}, False),
        ({"above": 78, "for": "5m"}, {"below": 5, "for": "5m"}, False),
        ({"outside": {"min": 2, "max": 8}, "for": "5m"}, {"outside": {"min": 1, "max": 9}, "for": "5m"}, True),
        ({"outside": {"min": 2, "max": 9}, "for": "5m"}, {"outside": {"min": 1, "max": 8}, "for": "5m"}, False),
        ({"aboveSiblings": 5, "for": "5m"}, {"aboveSiblings": 9, "for": "5m"}, True),
        ({"aboveSiblings": 9, "for": "5m"}, {"aboveSiblings": 5, "for": "5m"}, False),
        ({"events": 2, "within": "10m"}, {"events": 3, "within": "5m"}, True),
        ({"events": 2, "within": "5m"}, {"events": 3, "within": "10m"}, False),
        ({"events": 3, "within": "10m"}, {"events": 2, "within": "10m"}, False),
        ({"absent": True, "for": "5m"}, {"absent": True, "for": "10m"}, True),
        ({"absent": True, "for": "5m", "within": "1h"}, {"absent": True, "for": "10m"}, False),
        (
            {"above": 78, "for": "5m", "models": [{"model": "A*", "above": 80}]},
            {"above": 79, "for": "5m", "models": [{"model": "A*", "above": 81}]},
            True,
        ),
        ({"above": 78, "for": "5m", "models": [{"model": "A*", "above": 90}]}, {"above": 79, "for": "5m"}, False),
        ({"above": 78, "for": "5m"}, {"above": 79, "for": "5m", "models": [{"model": "A*", "above": 78}]}, True),
        ({"above": 78, "for": "5m"}, {"above": 79, "for": "5m", "models": [{"model": "A*", "above": 70}]}, False),
    ],
)
def test_each_form_is_compared_by_what_it_finds(other: Any, trigger: Any, all_of: bool) -> None:
    assert finds_all_of(Trigger.model_validate(other), Trigger.model_validate(trigger)) is all_of


HOT = {"trigger": {"above": 78, "for": "5m"}}
HOTTER = {"trigger": {"above": 85, "for": "10m"}}


def test_of_two_that_are_the_same_the_later_is_needless() -> None:
    one, two = policy("one", **HOT), policy("two", **HOT)
    assert list(shadowed([one, two])) == [(two, one)]


def test_the_stricter_one_stands_before_wherever_it_is_written() -> None:
    hot, hotter = policy("hot", **HOT), policy("hotter", **HOTTER)
    assert list(shadowed([hotter, hot])) == [(hotter, hot)]
    assert list(shadowed([hot, hotter])) == [(hotter, hot)]
    assert list(shadowed([hot, flapping()])) == []


@pytest.mark.parametrize(
    ("changes", "of_the_other"),
    [
        ({"severity": "fatal"}, {}),
        ({"mode": "enforce"}, {"mode": "observe"}),
        ({}, {"nodeSelector": {"zone": "a"}}),
        ({"nodeSelector": {"zone": "b"}}, {"nodeSelector": {"zone": "a"}}),
        ({}, {"escalation": {"findings": 3, "within": "12h"}}),
        ({}, {"grace": {"boot": "10m"}}),
        ({"grace": {"boot": "5m"}}, {"grace": {"boot": "10m"}}),
        ({}, {"correlation": {"by": ["rack"], "within": "5m"}}),
        ({"breaker": {"maxShare": "20%"}}, {"breaker": {"maxShare": "10%"}}),
        ({}, {"response": {"taint": False, "cordon": False}}),
        ({}, {"signal": "gpu.tensor"}),
    ],
)
def test_no_policy_is_needless_that_does_more_or_is_held_less(
    changes: Mapping[str, Any], of_the_other: Mapping[str, Any]
) -> None:
    hotter = policy("hotter", **{**HOTTER, **changes})
    hot = policy("hot", **{**HOT, **of_the_other})
    assert list(shadowed([hotter, hot])) == []


def test_a_policy_of_fewer_machines_is_needless_beside_one_of_all() -> None:
    some = policy("some", **HOTTER, nodeSelector={"zone": "a"}, grace={"boot": "10m"})
    every = policy("all", **HOT, grace={"boot": "5m"})
    assert list(shadowed([some, every])) == [(some, every)]
