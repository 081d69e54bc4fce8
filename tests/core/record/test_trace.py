"""One device's points from several series, and fewer of them: always the ones that the trigger would mind."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.record.trace import Points, merged, thinned
from quarantine.core.series import Grid, Track

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
GRID = Grid(START, SECOND, 1000)
REACH = 30 * SECOND


def track(values: Mapping[int, float]) -> Track:
    """By the second."""
    return Track({}, array("q", values), array("d", values.values()))


def points(values: Mapping[int, float]) -> Points:
    return tuple((START + second * SECOND, value) for second, value in values.items())


def test_one_series_is_as_it_is() -> None:
    assert merged([track({0: 1, 30: 5, 31: 2})], GRID, reach=REACH, above=True) == points({0: 1, 30: 5, 31: 2})


@pytest.mark.parametrize(("above", "kept"), [(True, {0: 60, 30: 84}), (False, {0: 50, 30: 60})])
def test_of_two_at_one_time_the_one_that_the_trigger_would_mind(above: bool, kept: dict[int, float]) -> None:
    """MIG instances of one scrape."""
    both = [track({0: 50, 30: 84}), track({0: 60, 30: 60})]
    assert merged(both, GRID, reach=REACH, above=above) == points(kept)


def test_a_series_that_goes_on_under_other_labels_is_one() -> None:
    """A job began: the old value is as old as the interval when the new one comes, and counts no longer."""
    both = [track({0: 84, 30: 84}), track({60: 50, 90: 51})]
    assert merged(both, GRID, reach=REACH, above=True) == points({0: 84, 30: 84, 60: 50, 90: 51})


def test_of_two_exporters_in_turn_neither_makes_the_line_jump() -> None:
    both = [track({0: 84, 30: 84, 60: 84}), track({15: 50, 45: 50, 100: 50})]
    assert merged(both, GRID, reach=REACH, above=True) == points({0: 84, 15: 84, 30: 84, 45: 84, 60: 84, 100: 50})


SERIES = st.dictionaries(st.integers(0, 300), st.floats(-1e6, 1e6), max_size=30).map(lambda d: dict(sorted(d.items())))


@given(given=st.lists(SERIES, min_size=1, max_size=4), above=st.booleans())
def test_merged_points_have_each_time_once_and_the_worst_of_what_is_fresh(
    given: list[dict[int, float]], above: bool
) -> None:
    found = merged([track(values) for values in given], GRID, reach=REACH, above=above)
    assert [at for at, _ in found] == [START + s * SECOND for s in sorted({s for values in given for s in values})]
    for at, value in found if len(given) > 1 else ():
        second = (at - START) // SECOND
        latest = [max((s for s in values if s <= second), default=None) for values in given]
        fresh = [v[s] for v, s in zip(given, latest, strict=True) if s is not None and second - s < 30]
        assert value == (max if above else min)(fresh)


def test_few_points_stay_as_they_are() -> None:
    few = points({0: 1, 1: 2, 2: 3})
    assert thinned(few, 3, above=True) == (few, 1)
    assert thinned((), 3, above=True) == ((), 1)


@given(values=st.lists(st.floats(-1e6, 1e6), max_size=200), most=st.integers(1, 50), above=st.booleans())
def test_of_many_few_are_kept_and_the_worst_is_among_them(values: list[float], most: int, above: bool) -> None:
    many = points(dict(enumerate(values)))
    kept, each = thinned(many, most, above=above)
    assert len(kept) <= most
    assert set(kept) <= set(many)
    assert [at for at, _ in kept] == sorted(at for at, _ in kept)
    assert len(kept) == -(-len(many) // each)
    if many:
        worst = max if above else min
        assert worst(v for _, v in kept) == worst(values)
