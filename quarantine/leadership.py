"""Which of several replicas acts: the holder of a Lease, for as long as it is sure to hold it.

No two clocks are compared. A replica counts, by its own steady clock, for how long it has seen a Lease unchanged, and
takes it once that is as long as the Lease says; its holder stops well before (`renew_within` is shorter than `lasts`),
counted from before its last renewal was sent. The steady clock goes on while a process or its machine is paused, so one
that wakes up after its time knows at once that it leads no more.

Somebody may delete the Lease, empty it, write another name into it or restore it from a backup, while its holder leads
for some seconds more. So a replica goes on only by what it wrote itself, and begins at once only where it has seen the
Lease run out, or where its holder let it go in order (which is marked as client-go marks it: it lasts a second, and was
acquired when it was renewed). Who comes by it in any other way holds it for its whole time before it acts.

What is left: a write that was sent while it led and arrives later. Every write to a Node names the version that was
read, every row of the ledger the term of its writer, and whoever comes next takes a new term first.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Self

import structlog

from quarantine.core.errors import QuarantineError
from quarantine.ports import LeaseRecord, Leases


def steady() -> float:
    """Seconds of a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a Lease lasts, and how it is kept."""

    lasts: timedelta = timedelta(seconds=15)
    renew_within: timedelta = timedelta(seconds=10)  # without a renewal for so long, its holder stops
    every: timedelta = timedelta(seconds=2)


_LET_GO = timedelta(seconds=1)  # how long a Lease that was let go in order lasts, as it says


class _Stamp(NamedTuple):
    """What tells two writes of a Lease apart, whatever else of it somebody changes."""

    holder: str
    transitions: int
    since: datetime
    at: datetime


def _stamp(record: LeaseRecord) -> _Stamp:
    return _Stamp(record.holder, record.transitions, record.since, record.at)


def _was_let_go(record: LeaseRecord) -> bool:
    return not record.holder and record.lasts <= _LET_GO and record.since == record.at


class Leadership:
    """Renews, or waits for its turn, in a thread of its own. `on_lead` is called there each time that it is won."""

    def __init__(
        self,
        leases: Leases,
        holder: str,
        now: Callable[[], datetime],
        *,
        terms: Terms | None = None,
        monotonic: Callable[[], float] = steady,
    ) -> None:
        self._leases, self._holder, self._now = leases, holder, now
        self._terms = terms or Terms()
        self.on_lead: Callable[[], None] = lambda: None
        self._monotonic = monotonic
        self._held_from: float | None = None  # when the renewal that holds was sent; None: it is not ours
        self._leads_from = 0.0  # not to be acted on before, although it is held
        # What we wrote last, and what we tried to write since then: its answer may have been lost.
        self._ours: deque[_Stamp] = deque(maxlen=10)
        self._led = False  # at the last look
        self._aside = False  # it is not to be taken
        self.won = 0  # how often it was
        self._seen: LeaseRecord | None = None
        self._seen_at = 0.0
        self._trouble = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def leads(self) -> bool:
        """Whether this process may act at this moment."""
        return self._holds() and self._monotonic() >= self._leads_from

    @property
    def leader(self) -> str:
        """Who else was last seen to hold it; empty where nobody does, or nothing is known yet."""
        seen = self._seen
        return seen.holder if seen is not None and seen.holder != self._holder else ""

    def step(self) -> None:
        """Look, and renew it or take it where that is due. Never raises: what goes wrong is logged once."""
        with self._lock:
            before, led, sent = self._led, self._led and self.leads(), self._monotonic()
            try:
                self._turn(sent)
            except QuarantineError as error:
                self._tell(str(error))
            else:
                self._tell("")
            if not self._holds():
                self._held_from = None
            self._led = leads = self.leads()
            self.won += leads and not led
        if before and not leads:
            structlog.get_logger().warning("this process leads no more: it does nothing until it leads again")
        if leads and not led:
            structlog.get_logger().info("this process leads from now on", holder=self._holder)
            self.on_lead()

    def release(self) -> None:
        """Let it go at once, where it is held, so that nobody has to wait."""
        with self._lock:
            held, led = self._held_from is not None, self._monotonic() >= self._leads_from
            self._held_from, self._led = None, False
            if held and self._seen is not None and self._seen.holder == self._holder:
                # Where it was not acted on yet, another one may still lead, and whoever is next has to wait as well.
                now, lasts = self._now(), _LET_GO if led else self._patience(self._seen)
                try:
                    self._leases.write(replace(self._seen, holder="", lasts=lasts, since=now, at=now))
                except QuarantineError as error:
                    structlog.get_logger().warning(f"the lease could not be released, and runs out by itself: {error}")

    def stand_aside(self) -> None:
        """Let it go, and take it no more until `take_part`: this process cannot act by now, and another one may."""
        self._aside = True
        self.release()

    def take_part(self) -> None:
        """Take it again, where it is its turn. Where this process does already, nothing changes."""
        self._aside = False

    def start(self) -> None:
        """Begin. The first look is made before it returns."""
        self.step()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and release. To be called once what was begun as the leader has ended."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._terms.renew_within.total_seconds())
        self.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.wait(self._terms.every.total_seconds()):
            try:
                self.step()
            except Exception:  # noqa: BLE001  (said; without a renewal this process stops leading by itself)
                structlog.get_logger().exception("a defect in the leader election; please report this traceback")

    def _turn(self, sent: float) -> None:
        found, now = self._leases.read(), self._now()
        if found is not None and (self._seen is None or found.version != self._seen.version):
            self._seen, self._seen_at = found, self._monotonic()
        if self._aside:
            self._held_from = None
            self._ours.clear()  # where it could not be let go, it runs out
            return
        if found is not None and _stamp(found) in self._ours:
            self._write(replace(found, lasts=self._terms.lasts, at=now))
            self._held_from = sent
            return
        self._held_from = None  # what was ours is ours no more, whoever wrote this
        self._ours.clear()
        if found is None:
            self._write(LeaseRecord(self._holder, self._terms.lasts, 0, now, now))
            self._begins(sent, self._patience(self._seen))
            return
        mine = LeaseRecord(self._holder, self._terms.lasts, found.transitions + 1, now, now, found.version)
        waited = self._monotonic() - self._seen_at
        if _was_let_go(found) or waited >= self._patience(found).total_seconds():
            self._write(mine)
            self._begins(sent, timedelta(0))
        elif found.holder == self._holder:
            self._write(mine)
            self._begins(sent, self._patience(found))

    def _write(self, record: LeaseRecord) -> None:
        """Raises Conflict where somebody was quicker."""
        if self._ours:  # one whose answer is lost counts only where it goes on with what is known to be ours
            self._ours.append(_stamp(record))
        written = self._leases.write(record)
        self._seen, self._seen_at = written, self._monotonic()
        self._ours.clear()
        self._ours.append(_stamp(written))

    def _begins(self, sent: float, wait: timedelta) -> None:
        self._held_from, self._leads_from = sent, self._monotonic() + wait.total_seconds()

    def _holds(self) -> bool:
        held_from = self._held_from
        return held_from is not None and self._monotonic() < held_from + self._terms.renew_within.total_seconds()

    def _patience(self, record: LeaseRecord | None) -> timedelta:
        """How long a holder may believe in it: other replicas may run by other settings, and a hand may have cut it."""
        return max(self._terms.lasts, record.lasts if record is not None else timedelta(0))

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            structlog.get_logger().warning(f"the lease could not be looked at or renewed: {trouble}")
        self._trouble = trouble
