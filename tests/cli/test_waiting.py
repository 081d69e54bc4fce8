"""`quarantine status` says beside its tables whether anybody seems to be at work."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quarantine.cli.waiting import waiting
from quarantine.ledger.pulse import LATE, Pulse
from tests.core.world import NOW

CYCLE = timedelta(seconds=15)


def beat(age: timedelta, *, read_only: bool = False, holder: str = "pod-1/7") -> Pulse:
    return Pulse(holder, NOW - age, read_only)


@pytest.mark.parametrize(
    ("pulse", "interval"),
    [(None, CYCLE), (beat(CYCLE), CYCLE), (beat(LATE), CYCLE), (beat(timedelta(hours=3)), timedelta(hours=1))],
)
def test_nothing_is_said_where_all_is_well(pulse: Pulse | None, interval: timedelta) -> None:
    assert waiting(pulse, NOW, interval) is None


def test_a_controller_that_is_silent() -> None:
    said = waiting(beat(timedelta(hours=3, seconds=20), holder="pod\x1b[2J-1"), NOW, CYCLE)
    assert said is not None
    assert "since 2026" in said
    assert ", 3h ago" in said
    assert "\x1b" not in said


def test_a_ledger_that_takes_no_writes() -> None:
    said = waiting(beat(CYCLE, read_only=True), NOW, CYCLE)
    assert said is not None
    assert "the ledger is read-only" in said
