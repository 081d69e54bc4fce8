"""promtool's notation means here what it means to promtool."""

from __future__ import annotations

import math
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from quarantine.sandbox.notation import series, values
from quarantine.sandbox.prometheus import find_binary
from quarantine.sandbox.remotewrite import STALE

START = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2 3", [1, 2, 3]),
        ("1+0x3", [1, 1, 1, 1]),
        ("1+2x2", [1, 3, 5]),
        ("10-2x2", [10, 8, 6]),
        ("-2+4x2", [-2, 2, 6]),
        ("5x3", [5, 5, 5, 5]),
        ("5x0", [5]),
        ("1 _ 3", [1, None, 3]),
        ("_x3 7", [None, None, None, 7]),
        ("1.5e3 .5", [1500, 0.5]),
        ("+Inf -Inf", [math.inf, -math.inf]),
        ("9223372036854775794", [9.223372036854776e18]),
        ("", []),
    ],
)
def test_values(text: str, expected: list[float | None]) -> None:
    assert values(text) == expected


def test_stale_is_the_marker_itself_and_nan_is_not() -> None:
    stale, nan = values("stale NaN")
    assert stale is STALE
    assert nan is not STALE
    assert nan is not None
    assert math.isnan(nan)


@pytest.mark.parametrize("text", ["1+x3", "one", "1..2", "5x", "x5", "1+1x-2", "stalex3", "1+0x3x4", "__"])
def test_what_is_no_notation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no series value"):
        values(text)


def test_a_series_leaves_missing_samples_out() -> None:
    got = series({"__name__": "m"}, "1 _ 3", start=START, interval=timedelta(seconds=30))
    assert got.samples == [(START, 1.0), (START + timedelta(seconds=60), 3.0)]


NOTATIONS = ("1+0x4 _ stale 5x3", "10-2x4 _x2 3", "1 2 stale 4 _ 6", "_ 5 _x3 stale", "-1+0.5x6")


def test_promtool_reads_every_notation_as_we_do(tmp_path: Path) -> None:
    """At each step promtool must find our value; through a 5-minute lookback a missing sample shows the one before."""
    tests = []
    for text in NOTATIONS:
        shown: float | None = None
        checks = []
        for step, value in enumerate(values(text)):
            present = value is not None and value is not STALE
            shown = None if value is STALE else value if value is not None else shown
            at = f"{step}m"
            exact = [{"labels": "m", "value": value}] if present else []
            checks.append({"expr": "last_over_time(m[30s])", "eval_time": at, "exp_samples": exact})
            looked = [{"labels": "m", "value": shown}] if shown is not None else []
            checks.append({"expr": "m", "eval_time": at, "exp_samples": looked})
        tests.append({"interval": "1m", "input_series": [{"series": "m", "values": text}], "promql_expr_test": checks})
    file = tmp_path / "notation.yml"
    file.write_text(yaml.safe_dump({"tests": tests}), encoding="utf-8")
    done = subprocess.run(
        [find_binary("promtool"), "test", "rules", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
