"""How a backtest is told in words, in Markdown and as data."""

from __future__ import annotations

import json
import re

from quarantine.backtest.result import Gap
from quarantine.cli.backtest import words
from quarantine.cli.backtest.data import as_data
from quarantine.cli.backtest.markdown import LONGEST_COMMENT, MARKER, markdown
from quarantine.cli.backtest.words import Report
from quarantine.cli.records import plain
from quarantine.core.case import HeldBy
from tests.backtest.results import HOUR, START, held, outage, result


def test_one_version_in_a_sentence() -> None:
    told = words.headline(Report(result(outage("a", at=23 * HOUR), held=(held("b"), held("a")))))
    assert told == (
        "1 of 32 machines would have been taken out, 8 GPU-hours in all (0.13%); 1 machine more was found and held "
        "back."
    )


def test_the_difference_in_a_sentence() -> None:
    report = Report(result(outage("a"), outage("b", at=22 * HOUR)), base=result(outage("a")))
    assert words.headline(report) == (
        "1 newly taken out, 0 no longer, 0 at another time or by another policy, 1 as before; 16 GPU-hours more out of "
        "service."
    )


def test_what_is_no_longer_taken_out_may_be_held_back_only() -> None:
    report = Report(result(held=(held("a"),)), base=result(outage("a"), outage("b")))
    assert report.difference is not None
    assert [row[-1] for row in words.spared_rows(report.difference)] == ["held back (budget)", "not found"]


def test_what_was_not_answered_or_names_no_machine_is_said() -> None:
    gap = Gap("gpu-hot", START, START + HOUR, "Prometheus timed out")
    told = list(words.unseen(result(held=(held("ghost", HeldBy.NO_SUCH_NODE),), gaps=(gap,))))
    assert told == [
        "gpu-hot saw nothing from 11-01 00:00 to 11-01 01:00 UTC: Prometheus timed out",
        "bad, and no machine of the inventory: ghost",
    ]


def test_the_comment_begins_with_its_marker_and_calls_nobody() -> None:
    told = markdown(Report(result(outage("@everyone|`x`<b>", reason="x"))))
    assert told.startswith(MARKER + "\n")
    (row,) = [line for line in told.splitlines() if "everyone" in line]
    assert row.replace("\\|", "").count("|") == 7, "what looks like a column is none"
    beside = re.sub(r"(``).*?\1", "", row)  # in a code span nobody is called, and nothing is markup
    assert "@" not in beside
    assert "<" not in beside


def test_a_comment_fits_whatever_was_found() -> None:
    many = tuple(held(f"node-{number}" * 10) for number in range(3000))
    told = markdown(Report(result(*(outage(f"n{n}" * 60) for n in range(400)), held=many)))
    assert len(told) <= LONGEST_COMMENT
    assert told.count("<details>") == told.count("</details>")
    assert "more" in told


def test_the_data_has_both_versions_and_their_difference() -> None:
    data = json.loads(json.dumps(plain(as_data(Report(result(outage("a")), base=result())))))
    assert data["difference"]["added"][0]["node"] == "a"
    assert data["base"]["outages"] == []
    assert data["outages"][0]["start"] == "2026-11-01T01:00:00Z"
