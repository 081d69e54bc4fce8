"""Durations and shares."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.units import (
    LONGEST,
    counted,
    format_duration,
    format_number,
    format_share,
    parse_duration,
    parse_share,
)


@given(st.integers(1, int(LONGEST / timedelta(milliseconds=1))))
def test_durations_are_read_as_they_are_written(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "m5", "-5m", "5m5m", "1.5h", "0s", "367d", "5M", 5, None, True, [], "5x"]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"no duration|outside"):
        parse_duration(text)


def test_shares() -> None:
    assert parse_share("10%") == 0.1
    assert parse_share("0.5 %") == 0.005
    assert format_share(0.1) == "10%"
    for wrong in ("10", 10, 0.5, "101%", "-1%", None, "x%", 1.5):
        with pytest.raises(ValueError, match="no share"):
            parse_share(wrong)


def test_numbers_for_people() -> None:
    assert [format_number(v) for v in (84.0, 0.1, 9.223372036854776e18, 1234567.0)] == [
        "84",
        "0.1",
        "9.223e+18",
        "1.23457e+06",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0, 1e12])
def test_what_is_no_number_of_things_is_none_and_not_zero(value: float) -> None:
    assert counted(value) is None


@pytest.mark.parametrize(("value", "said"), [(0.0, 0), (8.0, 8), (7.9, 7)])
def test_how_many_there_are(value: float, said: int) -> None:
    assert counted(value) == said
