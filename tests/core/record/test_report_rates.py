"""Rates of failure: the exact interval by tables and by its definition, and what the published formulae give."""

from __future__ import annotations

from datetime import timedelta
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.record.report import job, poisson

HOUR = timedelta(hours=1)
META_1, META_2 = 6.50 / 1000, 2.34 / 1000  # failures per node and day of the two clusters in "Revisiting Reliability…"


def fewer_or_as_many(count: int, mean: float) -> float:
    """P(X <= count), added up term by term."""
    term = total = exp(-mean)
    for number in range(1, count + 1):
        term *= mean / number
        total += term
    return total


# Garwood's 95 % limits, as tables of them have it (twice the mean is a quantile of chi-square).
@pytest.mark.parametrize(
    ("count", "low", "high"),
    [
        (0, 0.0, 3.69),
        (1, 0.03, 5.57),
        (2, 0.24, 7.22),
        (5, 1.62, 11.67),
        (10, 4.80, 18.39),
        (20, 12.22, 30.89),
        (50, 37.11, 65.92),
        (100, 81.36, 121.63),
    ],
)
def test_the_interval_is_that_of_the_tables(count: int, low: float, high: float) -> None:
    assert poisson.interval(count) == pytest.approx((low, high), abs=0.005)


@given(st.integers(1, 600), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_interval_is_where_its_definition_puts_it(count: int, confidence: float) -> None:
    low, high = poisson.interval(count, confidence)
    tail = (1 - confidence) / 2
    assert 1 - fewer_or_as_many(count - 1, low) == pytest.approx(tail, rel=1e-6)
    assert fewer_or_as_many(count, high) == pytest.approx(tail, rel=1e-6)
    assert low < count < high


def test_many_events_have_nearly_the_normal_interval() -> None:
    low, high = poisson.interval(1_000_000)
    assert (low, high) == pytest.approx((1_000_000 - 1960, 1_000_000 + 1960), abs=5)


def test_nobody_can_have_seen_fewer_than_none() -> None:
    with pytest.raises(ValueError, match="-1 events"):
        poisson.interval(-1)


@given(st.integers(1, 500), st.floats(0, 2000, allow_nan=False))
def test_a_probability_is_one(count: int, mean: float) -> None:
    assert -1e-9 <= poisson.at_least(count, mean) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("gpus", "rate", "hours"),
    [(16_384, META_1, 1.8), (131_072, META_1, 0.23), (16_384, META_2, 5.0), (1_024, META_1, 28.8)],
)
def test_the_mean_time_to_failure_is_the_published_one(gpus: int, rate: float, hours: float) -> None:
    """1.8 h and 0.23 h are the paper's projections by this formula. The 7.9 h that it has for 1,024 GPUs were measured
    of jobs, which also end by what is no failure of a node: the formula gives 28.8 h there."""
    mean = job.mean_time_to_failure(gpus // 8, rate)
    assert mean / HOUR == pytest.approx(hours, rel=0.03)


def test_what_hardly_ever_fails_has_a_mean_all_the_same() -> None:
    assert job.mean_time_to_failure(1, 0.0) == job.LONGEST
    assert job.mean_time_to_failure(1, 1e-300) == job.LONGEST


def test_the_intervals_between_checkpoints_are_those_of_the_papers() -> None:
    cost, mean = timedelta(minutes=5), timedelta(hours=24)
    assert job.young(cost, mean) == timedelta(minutes=120)
    assert job.daly(cost, mean) / timedelta(minutes=1) == pytest.approx(116.690, abs=0.001)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e8))
def test_daly_is_never_longer_than_what_it_may_be(cost: float, mean: float) -> None:
    found = job.daly(timedelta(seconds=cost), timedelta(seconds=mean))
    assert timedelta(0) <= found <= timedelta(seconds=mean + cost)
    if cost >= 2 * mean:
        assert found == timedelta(seconds=mean)


def test_daly_of_no_time_at_all_is_no_time() -> None:
    assert job.daly(timedelta(minutes=5), timedelta(0)) == timedelta(0)


def test_a_rate_beyond_all_measure_is_no_error() -> None:
    assert job.mean_time_to_failure(100_000_000, 1e6) == timedelta(0)
    assert job.mean_time_to_failure(1, 0.0) == job.LONGEST
    assert job.daly(timedelta(minutes=5), timedelta(0)) == timedelta(0)
