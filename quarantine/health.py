"""Whether this process goes on, and whether what it needs answers: what Kubernetes' probes ask.

The two are kept apart. A dependency that fails is no reason to start this process anew, which would not mend it;
a cycle that never ends is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from quarantine.controller import CycleReport
from quarantine.core.model import Samples
from quarantine.core.snapshot import Snapshot
from quarantine.core.units import format_duration

LONGEST_CYCLE = timedelta(minutes=10)  # far beyond what the time-outs of all that a cycle asks add up to


class Word(NamedTuple):
    """An answer to a probe, and the sentence that says why."""

    good: bool
    sentence: str


class Health:
    """Told of each cycle by the one thread, asked by others.

    `interval` and `deadline`: of the settings' cycle. `monotonic`: seconds, not moved by a clock that is set.
    """

    def __init__(
        self, interval: timedelta, deadline: timedelta, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = max(LONGEST_CYCLE, 5 * (interval + deadline))
        self._monotonic = monotonic
        self._moved = monotonic()
        self._trouble = "no cycle has ended yet"
        self._leader = ""  # another that leads

    def waiting(self, why: str) -> None:
        """No cycle can begin yet, and it will be tried again."""
        self._moved, self._trouble = self._monotonic(), why

    def after(self, report: CycleReport) -> None:
        """A cycle ended, well or not."""
        self._moved, self._trouble, self._leader = self._monotonic(), _trouble(report), ""

    def standby(self, leader: str) -> None:
        """Another replica leads, and this one waits for its turn: with all that it needs, as far as it can tell."""
        self._moved, self._trouble, self._leader = self._monotonic(), "", leader or "nobody yet"

    def live(self) -> Word:
        """Whether cycles end, whatever their outcome."""
        silent = self._monotonic() - self._moved
        if silent <= self._limit.total_seconds():
            return Word(True, "cycles go on")
        most = format_duration(self._limit)
        return Word(False, f"no cycle has ended for {silent:.0f} s, and {most} is the most: something hangs")

    def ready(self) -> Word:
        """Whether the last cycle had what it needs: its ledger, the cluster, and an answer of Prometheus."""
        well = f"{self._leader} leads, and this one waits" if self._leader else "the last cycle had all that it needs"
        return Word(not self._trouble, self._trouble or well)


def _trouble(report: CycleReport) -> str:
    if report.error is not None:
        return str(report.error)
    if report.snapshot is not None and _blind(report.snapshot):
        return "; ".join(report.blind) or "Prometheus answered nothing"
    return ""  # one policy without an answer is that policy's, and has a metric of its own


def _blind(seen: Snapshot) -> bool:
    """Whether no question about what is bad was answered, though there were some."""
    asked = [answer for answers in seen.answers.values() for answer in answers.trigger.values()]
    return bool(asked) and not any(isinstance(answer, Samples) for answer in asked)
