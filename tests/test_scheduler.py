"""The timer: one cycle at a time, stopped by what the cycle raises."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from quarantine.core.errors import LedgerUnavailable, Superseded
from quarantine.scheduler import CycleTimer


def test_the_first_cycle_runs_at_once_and_stop_ends_it() -> None:
    ran = threading.Event()
    timer = CycleTimer(ran.set, timedelta(hours=1))
    thread = threading.Thread(target=timer.run)
    thread.start()
    assert ran.wait(10)
    timer.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_being_succeeded_stops_the_timer_and_is_raised() -> None:
    def cycle() -> None:
        raise Superseded("another has the term")

    with pytest.raises(Superseded):
        CycleTimer(cycle, timedelta(hours=1)).run()


def test_wake_runs_a_cycle_long_before_the_interval() -> None:
    count = 0
    first, second = threading.Event(), threading.Event()

    def cycle() -> None:
        nonlocal count
        count += 1
        (first if count == 1 else second).set()

    timer = CycleTimer(cycle, timedelta(hours=1))
    thread = threading.Thread(target=timer.run)
    thread.start()
    assert first.wait(10)
    timer.wake()
    assert second.wait(10)
    timer.stop()
    thread.join(10)


def test_a_request_wakes_the_cycle_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.scheduler.LOOK_S", 0.05)
    count = 0
    first, second, looked = threading.Event(), threading.Event(), threading.Event()
    waiting: set[str] = set()
    looks = 0

    def cycle() -> None:
        nonlocal count
        count += 1
        (first if count == 1 else second).set()

    def asked() -> set[str]:
        nonlocal looks
        looks += 1
        if looks >= 6:
            looked.set()
        if looks == 2:
            raise LedgerUnavailable("the ledger is down for a moment")
        return waiting

    timer = CycleTimer(cycle, timedelta(hours=1), asked)
    thread = threading.Thread(target=timer.run)
    thread.start()
    assert first.wait(10)
    waiting.add("r1")
    assert second.wait(10)
    assert looked.wait(20)
    timer.stop()
    thread.join(10)
    assert count == 2, "the same request does not wake it again"


def test_a_clock_that_steps_back_does_not_stop_it() -> None:
    """APScheduler then sleeps until the old wall time comes again: as if the next cycle were an hour away."""
    count = 0
    first = threading.Event()

    def cycle() -> None:
        nonlocal count
        count += 1
        first.set()

    timer = CycleTimer(cycle, timedelta(milliseconds=200))
    thread = threading.Thread(target=timer.run)
    thread.start()
    assert first.wait(10)
    timer._scheduler.modify_job("cycle", next_run_time=datetime(2999, 1, 1, tzinfo=UTC))
    seen = count
    end = time.monotonic() + 20
    while count <= seen + 1 and time.monotonic() < end:
        threading.Event().wait(0.05)
    timer.stop()
    thread.join(30)
    assert count > seen + 1, "it goes on"


def test_a_cycle_that_hangs_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.scheduler.GRACE_S", 0.2)
    monkeypatch.setattr("quarantine.scheduler.LATE_S", 0.1)
    monkeypatch.setattr("quarantine.scheduler.PULSE_S", 0.1)
    began, release = threading.Event(), threading.Event()

    def cycle() -> None:
        began.set()
        release.wait(30)

    timer = CycleTimer(cycle, timedelta(hours=1))
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(timer.run()))
    with capture_logs() as logs:
        thread.start()
        assert began.wait(10)
        end = time.monotonic() + 10
        while not logs and time.monotonic() < end:
            threading.Event().wait(0.05)
        timer.stop()
        thread.join(10)
    release.set()
    assert ended == [False]
    assert "does not end" in logs[0]["event"]


def test_a_look_for_requests_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.scheduler.LOOK_S", 0.01)
    monkeypatch.setattr("quarantine.scheduler.LOOK_END_S", 0.01)
    hangs, looks = threading.Event(), threading.Event()

    def asked() -> tuple[str, ...]:
        looks.set()
        hangs.wait(60)
        return ("r1",)

    timer = CycleTimer(lambda: None, timedelta(hours=1), asked)
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(timer.run()))
    thread.start()
    assert looks.wait(10)
    timer.stop()
    thread.join(20)
    assert ended == [True], "no cycle hangs: whoever ends it is in order"
    with capture_logs() as logs:
        hangs.set()
        timer._looks.join(10)
    assert logs == [], "what it finds too late wakes nothing"


HANGS = """
import threading
from datetime import timedelta
from quarantine.scheduler import CycleTimer

def asked():
    timer.stop()
    threading.Event().wait(600)

timer = CycleTimer(lambda: None, timedelta(hours=1), asked)
assert timer.run()
"""


def test_nor_at_the_end_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_defect_in_a_look_for_requests_is_logged_and_the_next_one_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.scheduler.LOOK_S", 0.01)
    looks, cycles = [], threading.Semaphore(0)

    def asked() -> tuple[str, ...]:
        looks.append(1)
        return (str(1 // (len(looks) - 1)),)

    timer = CycleTimer(cycles.release, timedelta(hours=1), asked)
    thread = threading.Thread(target=timer.run)
    with capture_logs() as logs:
        thread.start()
        assert all(cycles.acquire(timeout=10) for _ in range(2))
        timer.stop()
        thread.join(10)
    assert [line["log_level"] for line in logs] == ["error"]


def test_a_cycle_that_is_due_as_it_is_stopped_is_run_to_its_end_or_not_at_all() -> None:
    """Once `run` has seen that nothing runs, nothing begins."""
    ran: list[bool] = []
    timer = CycleTimer(lambda: ran.append(timer._idle.is_set()), timedelta(hours=1))

    class Stopping(threading.Event):
        def is_set(self) -> bool:
            assert not timer._idle.is_set(), "whoever stops it now would take it for idle"
            return super().is_set()

    timer._stopped = Stopping()
    timer._run()
    assert ran == [False]
    timer.stop()
    timer._run()
    assert ran == [False]
    assert timer._idle.is_set()


def test_cycles_never_overlap_however_slow() -> None:
    running = threading.Lock()
    overlaps: list[int] = []
    ended = threading.Event()
    count = 0

    def cycle() -> None:
        nonlocal count
        if not running.acquire(blocking=False):
            overlaps.append(count)
            return
        threading.Event().wait(0.05)
        running.release()
        count += 1
        if count == 4:
            ended.set()

    timer = CycleTimer(cycle, timedelta(milliseconds=10))
    thread = threading.Thread(target=timer.run)
    thread.start()
    assert ended.wait(20)
    timer.stop()
    thread.join(10)
    assert overlaps == []
