"""Time goes on evenly, whatever the wall clock is set to for a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from quarantine.adapters.clock import BELIEVED_AFTER, SteadyClock

BEGIN = datetime(2026, 11, 29, 12, tzinfo=UTC)


class Machine:
    """Its wall clock can be set; what passes is what passes."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.off = timedelta()
        self.clock = SteadyClock(lambda: self.true + self.off, lambda: 5000 + self.passed)

    @property
    def true(self) -> datetime:
        return BEGIN + timedelta(seconds=self.passed)


def test_a_clock_that_is_right_is_told_as_it_is() -> None:
    here = Machine()
    for step in (0, 30, 3600, 86400):
        here.passed += step
        assert here.clock.now() == here.true
    here.off = timedelta(seconds=3)  # slewed
    assert here.clock.now() == here.true + here.off


def test_a_clock_that_jumps_for_a_moment_is_not_believed_and_told_once() -> None:
    for off in (timedelta(hours=2), timedelta(hours=-2)):
        here = Machine()
        here.passed += 60
        assert here.clock.now() == here.true
        here.off = off
        with capture_logs() as logs:
            for _ in range(3):
                here.passed += 60
                assert here.clock.now() == here.true
        assert len(logs) == 1
        here.off = timedelta()
        here.passed += 60
        assert here.clock.now() == here.true


def test_a_clock_that_stays_as_it_was_set_is_believed() -> None:
    here = Machine()
    here.off = timedelta(hours=2)
    assert here.clock.now() == here.true
    here.passed += BELIEVED_AFTER.total_seconds()
    assert here.clock.now() == here.true + here.off
    here.passed += 60
    assert here.clock.now() == here.true + here.off


def test_a_jump_that_was_over_is_forgotten() -> None:
    here = Machine()
    for _ in range(20):  # it flickers: none of the jumps lasts
        here.off = timedelta(hours=2) if here.off == timedelta() else timedelta()
        here.passed += 60
        assert here.clock.now() == here.true


def test_the_clock_of_this_machine_is_the_present() -> None:
    clock = SteadyClock()
    first, second = clock.now(), clock.now()
    assert first.tzinfo is UTC
    assert timedelta() <= second - first < timedelta(minutes=1)
