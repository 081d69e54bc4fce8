"""The background as a test changes it: other values, silence, a frozen exporter, new series."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from quarantine.adapters.policyfiles.strictyaml import Path_
from quarantine.policytest.format import PolicyTestSpec
from quarantine.policytest.history import History, history
from quarantine.policytest.selectors import written
from quarantine.sandbox.remotewrite import STALE

START = datetime(2026, 3, 1, tzinfo=UTC)
BACKGROUND = {'m{n="$node"}': "5...", 'up{n="$node"}': "1..."}


def made(case: Mapping[str, Any], **spec: Any) -> tuple[History, list[tuple[Path_, str]]]:
    """The history of a test of four samples, and what was wrong."""
    whole = {
        "policy": "hot",
        "machines": {"count": 2, "gpus": 1},
        "series": BACKGROUND,
        "tests": [{"name": "x", "lasts": "1m30s", "decisions": [], **case}],
        **spec,
    }
    faults: list[tuple[Path_, str]] = []
    found = history(PolicyTestSpec.model_validate(whole), 0, {}, lambda path, text: faults.append((path, text)))
    return found, faults


def shown(case: Mapping[str, Any], **spec: Any) -> dict[str, list[float | None]]:
    """Series → its four samples."""
    found, faults = made(case, **spec)
    assert faults == []
    out = {}
    for series in found.at(START):
        by_time = dict(series.samples)
        out[written(series.labels)] = [by_time.get(int(START.timestamp() + 30 * n) * 1000) for n in range(4)]
        assert len(by_time) == 4 - out[written(series.labels)].count(None)
    return out


def test_the_background_is_there_for_every_machine() -> None:
    found = shown({})
    assert sorted(found) == ['m{n="node-1"}', 'm{n="node-2"}', 'up{n="node-1"}', 'up{n="node-2"}']
    assert found['m{n="node-1"}'] == [5, 5, 5, 5]


def test_other_values_go_to_what_the_matchers_match_and_the_later_count() -> None:
    found = shown({"series": {"m": "7...", 'm{n=~".*-2"}': "8x1m 9"}})
    assert found['m{n="node-1"}'] == [7, 7, 7, 7]
    assert found['m{n="node-2"}'] == [8, 8, 9, None]
    assert found['up{n="node-1"}'] == [1, 1, 1, 1]


def test_series_can_be_added_and_taken_out() -> None:
    found = shown({"without": ['{n="node-2"}'], "more": {'m{n="node-2",job="next"}': "_ 3...", 'k{n="$node"}': "1"}})
    assert sorted(found) == [
        'k{n="node-1"}',
        'k{n="node-2"}',
        'm{n="node-1"}',
        'm{n="node-2",job="next"}',
        'up{n="node-1"}',
    ]
    assert found['m{n="node-2",job="next"}'] == [None, 3, 3, 3]


def test_silence_begins_with_a_stale_marker() -> None:
    found = shown({"silent": [{"series": '{n="node-1"}', "since": "30s", "until": "90s"}]})
    before, marker, gap, after = found['m{n="node-1"}']
    assert (before, gap, after) == (5, None, 5)
    assert marker is STALE
    assert found['m{n="node-2"}'] == [5, 5, 5, 5]


def test_silence_that_prometheus_does_not_notice() -> None:
    found = shown({"silent": [{"series": "m", "since": "30s", "stale": False}]})
    assert found['m{n="node-1"}'] == [5, None, None, None]


def test_silence_from_the_beginning_is_no_series_at_all() -> None:
    assert sorted(shown({"silent": [{"series": "m"}]})) == ['up{n="node-1"}', 'up{n="node-2"}']


def test_nothing_goes_stale_that_was_not_there() -> None:
    found = shown({"series": {"m": "1 stale"}, "silent": [{"series": "m", "since": "1m"}]})
    assert found['m{n="node-1"}'][2:] == [None, None]


def test_a_frozen_exporter_repeats_what_it_showed_last() -> None:
    found = shown({"series": {"m": "0+1..."}, "frozen": [{"series": '{n="node-1"}', "since": "1m", "until": "90s"}]})
    assert found['m{n="node-1"}'] == [0, 1, 1, 3]
    assert found['m{n="node-2"}'] == [0, 1, 2, 3]


def test_a_frozen_exporter_makes_up_nothing() -> None:
    found = shown({"series": {"m": "5 stale 6 6"}, "frozen": [{"series": "m", "since": "1m"}]})
    assert found['m{n="node-1"}'][2:] == [None, None]


def test_a_stretch_may_begin_between_two_samples() -> None:
    found = shown({"frozen": [{"series": "m", "since": "40s"}], "series": {"m": "0+1..."}})
    assert found['m{n="node-1"}'] == [0, 1, 1, 1]


def test_the_fleets_matchers_are_on_every_series_that_does_not_say_otherwise() -> None:
    spec = PolicyTestSpec.model_validate(
        {
            "policy": "hot",
            "series": {"m": "1", 'm{cluster="there"}': "1"},
            "tests": [{"name": "x", "lasts": "1m", "decisions": []}],
        }
    )
    found = history(spec, 0, {"cluster": "here"}, lambda *fault: pytest.fail(str(fault)))
    assert sorted(written(s.labels) for s in found.at(START)) == ['m{cluster="here"}', 'm{cluster="there"}']


@pytest.mark.parametrize(
    ("case", "path", "problem"),
    [
        ({"series": {"mm": "1"}}, ("spec", "tests", 0, "series", "mm"), "mm matches no series of this test"),
        ({"series": {"m": "x"}}, ("spec", "tests", 0, "series", "m"), "'x' is no series value"),
        ({"series": {"m{": "1"}}, ("spec", "tests", 0, "series", "m{"), "is no selector"),
        ({"more": {'m{n="node-1"}': "1"}}, ("spec", "tests", 0, "more", 'm{n="node-1"}'), "is there already"),
        ({"without": ["q"]}, ("spec", "tests", 0, "without", 0), "q matches no series"),
        ({"silent": [{"series": "q"}]}, ("spec", "tests", 0, "silent", 0, "series"), "q matches no series"),
        ({"frozen": [{"series": "q"}]}, ("spec", "tests", 0, "frozen", 0, "series"), "q matches no series"),
    ],
)
def test_what_is_wrong_is_reported_where_it_stands(case: Mapping[str, Any], path: Path_, problem: str) -> None:
    _, faults = made(case)
    assert [where for where, _ in faults] == [path]
    assert problem in faults[0][1]


def test_too_many_samples_are_refused() -> None:
    _, faults = made({"lasts": "2d"}, machines={"count": 1000}, interval="1s")
    assert faults == [
        (("spec", "tests", 0), "this makes more than 2000000 samples: have fewer machines, or a shorter test")
    ]


def test_too_many_series_are_refused() -> None:
    _, faults = made({}, machines={"count": 1000, "gpus": 16, "links": 36}, series={'m{g="$gpu",l="$link"}': "1"})
    assert faults == [
        (("spec", "series", 'm{g="$gpu",l="$link"}'), "this makes more than 20000 series: have fewer machines")
    ]
