"""What one run of the executor knows beyond its effects: its bounds, who answers, and what was tried in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect
from quarantine.core.decision import PendingEffect
from quarantine.core.errors import ClusterUnavailable, Conflict, NotifierUnavailable, TicketsUnavailable, Unavailable
from quarantine.core.filings import unsaid
from quarantine.core.snapshot import Snapshot
from quarantine.core.tickets import Remark
from quarantine.execute import machines
from quarantine.loglines import Pace

LOOK_AGAIN = timedelta(seconds=5)  # how old the word may be that this process may go on, among many evictions
LONGEST_RUN = timedelta(seconds=60)  # a run begins nothing after it: the next cycle looks at the world anew
LONGEST_SPEECH = timedelta(seconds=10)  # of it for tickets and messages, which come last: begins nothing after it
AWAY_AFTER = 2  # so often in a row without an answer, and nothing more is asked of a dependency in the same run
FILES = (Effect.TICKET, Effect.REPLACE)  # tickets that must not be there twice

_ASKED: Mapping[Effect, Sequence[type[Unavailable]]] = {
    Effect.TICKET: (TicketsUnavailable,),
    Effect.CLOSE: (TicketsUnavailable,),
    Effect.COMMENT: (TicketsUnavailable,),
    Effect.NOTIFY: (NotifierUnavailable,),
    Effect.REPLACE: (TicketsUnavailable, ClusterUnavailable),
}


class Stopped(Exception):
    """The run ends here: another process leads, or a person asks for something that may change what is to be done."""


@dataclass(slots=True)
class Run:
    """One run."""

    term: int
    heard: frozenset[str]  # the ids of the requests that its plan knew
    snapshot: Snapshot
    until: datetime
    looked: datetime
    done: list[str] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)
    silent: dict[type[Unavailable], int] = field(default_factory=dict)  # by dependency: how often in a row
    speaking: bool = False
    tried: set[tuple[str, str]] = field(default_factory=set)  # remarks: the case, and the remark's key
    pace: Pace = field(default_factory=Pace)  # of what is said of effects that are put off

    def over(self, now: datetime, *, speaks: bool) -> bool:
        """Whether nothing more is begun. `speaks`: what comes next tells providers or people, as all after it."""
        if speaks and not self.speaking:
            self.speaking, self.until = True, min(self.until, now + LONGEST_SPEECH)
        return now >= self.until

    def put_off(self, sentence: str, pending: PendingEffect | None = None, case: Case | None = None) -> None:
        """Of an effect, or of all that are left."""
        self.postponed.append(sentence)
        of = {"case": case.id, "node": case.node} if case is not None else {}
        if pending is not None:
            of |= {"effect": pending.key}
        self.pace.tell(sentence, self.snapshot.now, about="effect", **of)

    def away(self, effect: Effect) -> bool:
        """Whether what this effect needs has not answered of late."""
        return any(self.silent.get(kind, 0) >= AWAY_AFTER for kind in _ASKED.get(effect, (ClusterUnavailable,)))

    def heard_from(self, effect: Effect, error: Exception | None) -> None:
        """What became of an attempt."""
        if isinstance(error, Conflict | machines.Unanswered):
            return  # it says nothing of the dependency
        kinds = _ASKED.get(effect, (ClusterUnavailable,))
        if not isinstance(error, Unavailable):
            self.silent.update(dict.fromkeys(kinds, 0))
            return
        kind = next((kind for kind in kinds if isinstance(error, kind)), kinds[0])
        self.silent[kind] = self.silent.get(kind, 0) + 1

    def remark(self, case: Case) -> Remark | None:
        """The oldest that is to be told to a ticket of the case, and was not tried in this run."""
        return next((one for one in unsaid(case) if (case.id, one.key) not in self.tried), None)
