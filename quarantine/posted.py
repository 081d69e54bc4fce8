"""The messages that were posted about cases, and what is known of each: what it should say, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core import cards
from quarantine.core.cards import Card, Fold, Thread
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import Hold, State
from quarantine.core.model import Failed
from quarantine.core.snapshot import Snapshot
from quarantine.core.workload import Pod
from quarantine.pacing import Tries

KEPT = timedelta(days=1)  # for so long after its end a case's message is kept up to date


@dataclass(frozen=True, slots=True)
class About:
    """What a case's part of a message is made from."""

    case: Case
    holds: tuple[Hold, ...]
    pods: tuple[Pod, ...] | None
    gpus: int | None
    deferred: bool

    @property
    def story(self) -> tuple[object, ...]:
        """Where this is as it was, the trail has nothing new to tell."""
        return (self.case, self.holds)


@dataclass(slots=True)
class Message:
    """A message that was posted, as it is known to this process."""

    ref: str
    cases: tuple[Case, ...]
    what: Card | Fold  # it should say
    about: tuple[About, ...]  # what that was made from
    shown: Card | Fold | None = None  # it says; None: not known
    thread: Thread | None = None  # None: not known, or an addition to it is in doubt
    behind: bool = True  # whether its cases may have a story that was not told
    charted: bool = False  # nothing is left to be attached
    attaching: bool = False  # an attempt at it is in doubt
    showing: Tries = field(default_factory=Tries)
    telling: Tries = field(default_factory=Tries)
    charting: Tries = field(default_factory=Tries)

    @property
    def channel(self) -> str:
        return self.ref.partition(":")[0]

    @property
    def name(self) -> str:
        """For people."""
        first = self.cases[0]
        return f"case {first.id} on {first.node}" + (f" and {len(self.cases) - 1} more" if len(self.cases) > 1 else "")


def posted(state: State, now: datetime) -> Mapping[str, tuple[Case, ...]]:
    """The cases that people were told of, by the message that tells of them; those that ended long ago left out."""
    found: dict[str, list[Case]] = {}
    for case in state.cases.values():
        told = case.effects.get(Effect.NOTIFY)
        if told is not None and told.status is EffectStatus.DONE and told.ref:
            found.setdefault(told.ref, []).append(case)
    return {
        ref: tuple(sorted(cases, key=lambda case: (case.taken_out_at, case.id)))
        for ref, cases in found.items()
        if any(case.open or case.phase_since > now - KEPT for case in cases)
    }


def about_of(case: Case, holds: Mapping[str, tuple[Hold, ...]], snapshot: Snapshot) -> About:
    """What a case's part of a message is made from in this cycle."""
    node = snapshot.nodes.get(case.node)
    gpus, deferred = node.gpus if node is not None else None, cards.is_deferred(case, snapshot.now)
    return About(case, holds.get(case.id, ()), pods_of(case, snapshot), gpus, deferred)


def pods_of(case: Case, snapshot: Snapshot) -> tuple[Pod, ...] | None:
    """What runs on a case's machine; None where that is not known."""
    looked = snapshot.workloads
    return None if isinstance(looked, Failed) else looked.nodes.get(case.node)
