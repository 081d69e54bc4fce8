"""The values of a series: promtool's notation means what it means there, and lengths of time are whole intervals."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.policytest.values import parse_values, render
from quarantine.sandbox.notation import values as promtool
from quarantine.sandbox.remotewrite import STALE

START = datetime(2026, 3, 1, tzinfo=UTC)
HALF = timedelta(seconds=30)


def shown(text: str, count: int = 8) -> list[float | None]:
    return render(parse_values(text, HALF), count, START)


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("60", [60, None, None, None]),
        ("60x2", [60, 60, 60, None]),
        ("60x1m 84...", [60, 60, 84, 84]),
        ("0+5...", [0, 5, 10, 15]),
        ("20-5x1m 1", [20, 15, 1, None]),
        ("-3 _ -4e2", [-3, None, -400, None]),
        ("_x2 7...", [None, None, 7, 7]),
        ("_x30s 7x9m", [None, 7, 7, 7]),
        ("7 _...", [7, None, None, None]),
        ("t+1m...", [START.timestamp() + 60] * 4),
        ("t-10dx1m 0", [START.timestamp() - 864000] * 2 + [0, None]),
    ],
)
def test_runs(text: str, samples: list[float | None]) -> None:
    assert shown(text, 4) == samples


def test_a_stale_marker_is_the_very_one() -> None:
    before, marker, after = shown("5 stale 6", 3)
    assert (before, after) == (5, 6)
    assert marker is STALE


def test_numbers_that_json_does_not_have() -> None:
    first, second = shown("NaN Inf", 2)
    assert first is not None
    assert math.isnan(first)
    assert second == math.inf


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no values"),
        ("sixty", "'sixty' is no series value"),
        ("60x", "is no series value"),
        ("60...x3", "is no series value"),
        ("60+1", "is no series value"),
        ("60... 84", "goes on to the end"),
        ("60x45s", "no whole number of intervals of 30s"),
        ("stalex3", "stale marker is one sample"),
        ("60x100001", "more than 100000 samples"),
        ("60x999999h", "more than"),
        ("t+0s", "outside what a duration may be"),
    ],
)
def test_refusals_quote_the_item(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_values(text, HALF)


ITEMS = st.one_of(
    st.builds("{}".format, st.integers(-99, 99)),
    st.builds("{}x{}".format, st.integers(-99, 99), st.integers(0, 5)),
    st.builds("{}{:+}x{}".format, st.integers(-99, 99), st.integers(-9, 9).filter(bool), st.integers(0, 5)),
    st.builds("_x{}".format, st.integers(1, 5)),
    st.sampled_from(["_", "stale", "1.5x2"]),
)


@given(st.lists(ITEMS, min_size=1, max_size=6))
def test_what_promtool_knows_means_the_same_here(items: list[str]) -> None:
    text = " ".join(items)
    wanted = promtool(text)
    found = shown(text, len(wanted) + 2)
    assert found[len(wanted) :] == [None, None]
    assert [STALE if v is STALE else v for v in found[: len(wanted)]] == wanted or all(
        a is b or a == b for a, b in zip(found, wanted, strict=False)
    )


@given(st.lists(ITEMS, min_size=1, max_size=6), st.integers(0, 40))
def test_there_are_always_as_many_as_asked_for(items: list[str], count: int) -> None:
    assert len(shown(" ".join([*items, "5..."]), count)) == count
