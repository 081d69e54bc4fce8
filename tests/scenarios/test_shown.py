"""What Prometheus shows in a scenario: the background, changed from when to when and no further."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.policytest.values import Item, parse_values, render
from tests.scenarios.format import Scenario
from tests.scenarios.shown import INTERVAL, cut, overlaid, shown

START = datetime(2024, 1, 1, tzinfo=UTC)
numbers = st.integers(-50, 50).map(float)
finite = st.builds(Item, first=st.none() | numbers, step=numbers, count=st.integers(1, 6))
endless = st.builds(Item, first=st.none() | numbers, step=numbers, count=st.none())
series = st.tuples(st.lists(finite, max_size=4), st.lists(endless, max_size=1)).map(lambda t: (*t[0], *t[1]))


@given(series, st.integers(0, 30), st.integers(0, 30))
def test_a_piece_of_a_series_is_its_samples(items: tuple[Item, ...], first: int, size: int) -> None:
    every = render(items, first + size, START)
    assert render(cut(items, first, first + size), size, START) == every[first:]
    assert render(cut(items, first, None), size, START) == every[first:]


@given(series, series, st.integers(0, 20), st.integers(0, 20))
def test_a_change_is_there_from_when_to_when(a: tuple[Item, ...], b: tuple[Item, ...], first: int, size: int) -> None:
    last = first + size
    plain, other = render(a, 50, START), render(b, size, START)
    assert render(overlaid(a, b, first, last), 50, START) == [*plain[:first], *other, *plain[last:]]


def scenario(**fields: object) -> Scenario:
    machines = {"count": 2, "gpus": 1, "ports": 1, "links": 0}
    return Scenario.model_validate({"title": "t", "kind": "trap", "lasts": "10m", "machines": machines, **fields})


def test_the_last_of_two_changes_counts_and_the_others_go_on() -> None:
    hot = {"what": "h", "at": "2m", "series": {'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1-0"}': "84..."}}
    cool = {"what": "c", "at": "4m", "until": "5m", "series": {"DCGM_FI_DEV_GPU_TEMP": "50..."}}
    found = {
        one.labels["UUID"]: [value for _, value in one.samples]
        for one in shown(scenario(traps=[hot, cool]), START)
        if one.labels["__name__"] == "DCGM_FI_DEV_GPU_TEMP"
    }
    assert found["GPU-1-0"] == [60.0] * 4 + [84.0] * 4 + [50.0] * 2 + [84.0] * 11
    assert found["GPU-2-0"] == [60.0] * 8 + [50.0] * 2 + [60.0] * 11


def test_counters_go_on_where_they_would_have_been() -> None:
    items = parse_values("0+10...", INTERVAL)
    others = parse_values("7x1m", INTERVAL)
    assert render(overlaid(items, others, 2, 4), 6, START) == [0, 10, 7, 7, 40, 50]


def test_what_changes_nothing_is_a_mistake() -> None:
    nothing = {"what": "n", "series": {'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-9-9"}': "84..."}}
    with pytest.raises(ValueError, match="matches no series"):
        list(shown(scenario(traps=[nothing]), START))


def test_silence_and_stillness_are_in_the_time_that_they_are_given() -> None:
    still = {"what": "s", "at": "5m", "frozen": ['{UUID="GPU-1-0"}']}
    gone = {"what": "g", "at": "8m", "silent": ['{UUID="GPU-1-0"}'], "stale": False}
    [found] = [
        one
        for one in shown(scenario(traps=[still, gone]), START)
        if one.labels["__name__"] == "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" and one.labels["UUID"] == "GPU-1-0"
    ]
    values = [value for _, value in found.samples]
    assert len(values) == 16, "none after eight minutes"
    assert values[9] != values[8]
    assert set(values[10:]) == {values[9]}
    assert found.samples[-1][0] == int((START + timedelta(minutes=7.5)).timestamp() * 1000)
