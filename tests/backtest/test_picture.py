"""The timeline: well-formed, complete, and safe with whatever names say."""

from __future__ import annotations

from datetime import timedelta
from xml.etree import ElementTree

import pytest

from quarantine.backtest.compare import compare
from quarantine.backtest.picture import MOST_ROWS, timeline, timelines
from quarantine.backtest.result import Gap
from quarantine.core.case import HeldBy
from tests.backtest.results import HOUR, START, held, outage, result

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawn).iter(f"{SVG}text")]  # noqa: S314


def test_every_machine_that_was_out_or_held_has_a_row() -> None:
    drawn = texts(timeline(result(outage("node-1"), outage("node-2", at=5 * HOUR), held=(held("node-3"),))))
    assert [text for text in drawn if text.startswith("node-")] == ["node-1", "node-2", "node-3"]
    assert "gpu-hot · 01 Nov 01:00" in drawn
    assert "found, and held back" in drawn


def test_nothing_found_is_a_picture_too() -> None:
    drawn = texts(timeline(result()))
    assert "nothing was found" in drawn
    assert drawn[0] == "0 of 32 machines would have been taken out"


def test_stretches_without_an_answer_are_shaded() -> None:
    gap = Gap("gpu-hot", START, START + HOUR, "time-out")
    assert "a policy saw nothing" in texts(timeline(result(gaps=(gap,))))


def test_names_and_reasons_from_outside_are_no_markup() -> None:
    evil = outage("<script>&\"'", reason="</title><script>alert(1)</script>")
    ElementTree.fromstring(drawn := timeline(result(evil)))  # noqa: S314
    assert "<script>" not in drawn


@pytest.mark.parametrize("machines", [1, MOST_ROWS + 7])
def test_it_says_how_many_rows_it_leaves_out(machines: int) -> None:
    drawn = texts(
        timeline(result(*(outage(f"n{number:03d}", at=number * timedelta(minutes=1)) for number in range(machines))))
    )
    assert ("7 more rows not shown" in drawn) is (machines > MOST_ROWS)


def test_of_two_versions_the_older_row_stands_below_where_they_differ() -> None:
    base, head = result(outage("a"), outage("b")), result(outage("a", at=3 * HOUR), outage("b"))
    drawn = texts(timelines(compare(base, head)))
    assert [text for text in drawn if text in {"a", "b", "before"}] == ["a", "before", "b"]


def test_a_stray_is_no_machine_of_ours() -> None:
    assert "ghost" not in texts(timeline(result(held=(held("ghost", HeldBy.NO_SUCH_NODE),))))
