"""Grids and tracks: the arithmetic that everything over time rests on."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.model import Sample
from quarantine.core.series import Grid, Track, Tracks

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def track(**values: float) -> Track:
    steps = sorted(int(key[1:]) for key in values)
    return Track({"gpu": "0"}, array("q", steps), array("d", [values[f"s{step}"] for step in steps]))


@given(
    st.integers(-10_000, 10_000),
    st.integers(-10_000, 10_000),
    st.sampled_from([1, 15, 60, 300]),
    st.integers(-500, 500),
)
def test_a_grid_holds_the_multiples_of_its_step_within(start: int, end: int, step: int, probe: int) -> None:
    first, last = NOON + timedelta(seconds=start), NOON + timedelta(seconds=end)
    grid = Grid.within(first, last, timedelta(seconds=step))
    moments = [grid.at(i) for i in range(grid.count)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert all((at - epoch) % grid.step == timedelta(0) and first <= at <= last for at in moments)
    assert not moments or (moments[0] - first < grid.step and last - moments[-1] < grid.step)
    at = first + timedelta(seconds=probe)
    assert grid.at(grid.last_until(at)) <= at < grid.at(grid.last_until(at) + 1)
    assert grid.at(grid.first_from(at) - 1) < at <= grid.at(grid.first_from(at))


def test_a_grid_in_parts_is_the_same_grid() -> None:
    grid = Grid(NOON, MINUTE, 10)
    assert grid.part(4, 3) == Grid(NOON + 4 * MINUTE, MINUTE, 3)
    assert grid.end == NOON + 9 * MINUTE
    assert Grid.within(NOON + MINUTE, NOON, MINUTE).count == 0


def test_a_step_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="more than nothing"):
        Grid.within(NOON, NOON, timedelta(0))


def test_a_track_tells_where_it_is_and_where_it_turns() -> None:
    found = track(s2=80.0, s3=80.0, s4=81.0, s7=90.0)
    assert [found.value(step) for step in (1, 2, 4, 5, 7, 8)] == [None, 80.0, 81.0, None, 90.0, None]
    assert list(found.turns()) == [2, 5, 7, 8]
    assert sorted(set(found.changes())) == [2, 4, 5, 7, 8]
    assert list(track().turns()) == []


@given(st.sets(st.integers(0, 40)))
def test_between_two_turns_nothing_comes_or_goes(steps: set[int]) -> None:
    found = Track({}, array("q", sorted(steps)), array("d", [1.0] * len(steps)))
    there = [found.value(step) is not None for step in range(-1, 43)]
    assert set(found.turns()) == {step for step in range(42) if there[step] != there[step + 1]}


def test_the_instant_vector_at_a_step() -> None:
    other = Track({"gpu": "1"}, array("q", [3]), array("d", [7.0]))
    answer = Tracks((track(s2=80.0, s3=81.0), other), Grid(NOON, MINUTE, 5), "q")
    assert answer.points == 3
    assert answer.samples(2) == (Sample({"gpu": "0"}, 80.0, NOON + 2 * MINUTE, "q"),)
    assert [sample.value for sample in answer.samples(3)] == [81.0, 7.0]
    assert answer.samples(4) == ()
