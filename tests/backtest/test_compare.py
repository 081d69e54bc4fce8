"""Two results, and what differs."""

from __future__ import annotations

from datetime import timedelta

from quarantine.backtest.compare import compare
from tests.backtest.results import HOUR, outage, result


def test_a_machine_that_only_one_version_takes_out_is_added_or_spared() -> None:
    found = compare(result(outage("a"), outage("b")), result(outage("b"), outage("c")))
    assert [o.node for o in found.added] == ["c"]
    assert [o.node for o in found.spared] == ["a"]
    assert (found.moved, found.same, found.nothing) == ((), 1, False)


def test_a_machine_that_both_take_out_at_another_time_has_moved() -> None:
    found = compare(result(outage("a", at=5 * HOUR)), result(outage("a", at=2 * HOUR)))
    assert [pair.sooner for pair in found.moved] == [timedelta(hours=3)]
    assert found.gpu_hours == 3 * 8


def test_another_policy_at_the_same_time_is_a_difference() -> None:
    found = compare(result(outage("a", policy="x")), result(outage("a", policy="y")))
    assert (len(found.moved), found.same) == (1, 0)


def test_a_second_outage_of_a_machine_is_its_own() -> None:
    twice = result(outage("a", at=HOUR, lasting=HOUR), outage("a", at=4 * HOUR))
    found = compare(result(outage("a", at=HOUR, lasting=HOUR)), twice)
    assert ([o.start for o in found.added], found.same) == ([twice.outages[1].start], 1)


def test_the_same_twice_is_no_difference() -> None:
    same = result(outage("a"), outage("b", at=2 * HOUR))
    assert compare(same, same).nothing
