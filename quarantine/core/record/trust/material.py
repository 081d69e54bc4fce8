"""What the path of trust is read from: a policy's editions, when it was blind, and what became of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.core.policy import PolicySpec
from quarantine.core.record.milestones import Fate


@dataclass(frozen=True, slots=True)
class Edition:
    """A text of a policy that came into force. `spec` None: the policy was no more, or this program cannot read it."""

    at: datetime
    spec: PolicySpec | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time; `until` None: it lasts."""

    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Trail:
    """What was in force under a policy's name, oldest first, and when nothing could be learnt from it.

    `blind`: Prometheus gave no answer, or none that covers anything. `tripped`: it found so much at once that it was
    the suspect itself. `unproven`: nothing shows that a controller was at work.
    """

    editions: tuple[Edition, ...] = ()
    blind: tuple[Stretch, ...] = ()
    tripped: tuple[Stretch, ...] = ()
    unproven: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """A case, as people look it up."""

    case: str
    node: str
    at: datetime  # it was opened
    judged: datetime | None = None  # when it was said what it was; None: not yet, or by the provider while it is open


@dataclass(frozen=True, slots=True)
class Sweep:
    """The most machines of one pool that a policy's cases were opened for in one cycle, and when that was."""

    pool: str
    machines: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Found:
    """What a policy found within a time: its cases by what became of them, by the rules of the report.

    `waits` and what was refuted are of every case in which it has a finding, whenever that was opened: those that
    stand now, and those that were judged within the time. All else is of the cases that were opened for it within the
    time. `waiting` and `refuted` name the newest of those that are counted.
    """

    cases: int = 0
    machines: int = 0
    out: int = 0  # cases whose machine was taken out
    fates: Mapping[Fate, int] = field(default_factory=dict)
    waits: int = 0  # suspicions that stand, of which nobody has said anything
    passed: int = 0  # suspicions that went by themselves
    days: Mapping[int, int] = field(default_factory=dict)  # cases by the day of the window on which they were opened
    refuted_days: frozenset[int] = frozenset()  # on which one was opened, or judged if that was before, that was false
    waiting: tuple[Told, ...] = ()
    refuted: tuple[Told, ...] = ()
    sweeps: tuple[Sweep, ...] = ()  # one for each pool

    def of(self, fate: Fate) -> int:
        """How many cases came to this."""
        return self.fates.get(fate, 0)
