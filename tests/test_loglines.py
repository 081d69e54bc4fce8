"""A dependency that is away for a day, at the pace at which it is tried: how many lines that makes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from quarantine.loglines import MOST_KINDS, OVER, Pace
from quarantine.trouble import Trouble

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DAY = timedelta(days=1)
# What is said of each dependency, of the nodes gpu-1 to gpu-50, and how often it is met.
AWAY = {
    "kubernetes": ("mark of case {case} on {node} is put off: The Kubernetes API did not answer in time", 15),
    "tickets": (
        "ticket of case {case} on {node} is put off: could not file a ticket at https://x: it answered 50{n}",
        300,
    ),
    "untried": ("ticket of case {case} on {node} is put off untried: what it needs does not answer", 15),
    "slack": ("notify of case {case} on {node} is put off: Slack at https://x answered status 50{n} (whatever)", 60),
    "pager": (
        "telling PagerDuty is put off: could not trigger alarm x with PagerDuty: no answer came (Timeout {n})",
        300,
    ),
    "charts": ("telling Grafana is put off: it answered 50{n}", 15),
}


@pytest.mark.parametrize("who", AWAY)
def test_a_day_without_a_dependency(who: str) -> None:
    sentence, every = AWAY[who]
    pace, at, met = Pace(), NOW, 0
    with capture_logs() as logs:
        while at < NOW + DAY:
            n = (1, 17, 50)[met % 3]
            case, node = f"q-{n:010x}", f"gpu-{n}"
            said = sentence.format(case=case, node=node, n=n % 5)
            pace.tell(said, at, about="effect", case=case, node=node, effect=f"{case}/x")
            met += 1
            at += timedelta(seconds=every)
    told = [line for line in logs if line["log_level"] == "warning"]
    assert 10 <= len(told) <= 32
    assert sum(line.get("times", 1) for line in told) <= met
    assert sum(line["log_level"] == "debug" for line in logs) == met - len(told), "none is lost to whoever wants them"


def test_a_day_of_cycles_that_end_early() -> None:
    trouble = Trouble()
    with capture_logs() as logs:
        for n in range(DAY // timedelta(seconds=15)):
            trouble.failed(f"nothing was done in this cycle: the ledger cannot be reached (try {n})")
    assert sum(line["log_level"] != "debug" for line in logs) <= 100


def test_a_defect_is_told_with_its_traceback_as_rarely() -> None:
    trouble = Trouble()
    with capture_logs() as logs:
        for n in range(5):
            trouble.failed(f"this cycle ended early by a defect (KeyError: {n})", KeyError(n))
    assert [line["log_level"] for line in logs] == ["error", "error", "debug", "error", "debug"]
    assert all(("exc_info" in line) == (line["log_level"] == "error") for line in logs)


def test_what_begins_anew_is_said_at_once_and_so_is_another_kind() -> None:
    pace = Pace()
    with capture_logs() as logs:
        pace.tell("Slack is away", NOW)
        pace.tell("GitHub is away", NOW)
        pace.tell("Slack is away", NOW + timedelta(seconds=30))
        pace.tell("Slack is away", NOW + timedelta(seconds=31) + OVER)
        pace.tell("Slack is away", NOW - timedelta(hours=1))  # the clock was set back
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
        "Slack is away",
        "GitHub is away",
        "Slack is away",
        "Slack is away",
    ]


def test_few_kinds_are_remembered() -> None:
    pace = Pace()
    with capture_logs():
        for first in "abcdefghijklmnopqrstuvwxyz":
            for second in "abcdefghijklmnopqrstuvwxyz":
                pace.tell(f"{first}{second}", NOW)
    assert len(pace._kinds) <= MOST_KINDS
