"""Once a day, what stands: how many machines are out and why, which has waited longest, what is left of the budgets.

Found by its key before it is posted, so a restart says nothing twice; a day on which nothing is out and nothing ended
is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, time, timedelta

from quarantine.core.budget import accounts
from quarantine.core.cards import STANDS
from quarantine.core.case import Case, Phase
from quarantine.core.decision import State
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.policy import Rules
from quarantine.core.reasons import in_words
from quarantine.core.signs import in_utc
from quarantine.core.snapshot import Snapshot
from quarantine.pacing import Tries
from quarantine.ports import Clock, Notices

LATE = timedelta(hours=6)  # after its time it is not posted any more: the next one is near enough
DAY = timedelta(days=1)
MOST_WAITING = 5  # of the cases that have waited longest
_ADVICE = "`quarantine status` has all of it; `quarantine explain NODE` tells the story of one."


@dataclass(slots=True)
class Digest:
    """Posts at `at` (UTC) of each day, by the first cycle after it."""

    notices: Notices | None
    clock: Clock
    cluster: str
    at: time
    may: Callable[[], bool] = lambda: True  # whether this process may still tell anything
    _said: str = ""  # the key of the newest one that is known to be there
    _tries: Tries = field(default_factory=Tries)

    def tell(self, snapshot: Snapshot, state: State, rules: Rules) -> list[str]:
        """Post it, where it is due. Returns a sentence where it is put off."""
        now = snapshot.now.astimezone(UTC)
        due = now.replace(hour=self.at.hour, minute=self.at.minute, second=0, microsecond=0)
        key = f"digest/{now:%Y-%m-%d}"
        if self.notices is None or not due <= now < due + LATE or key == self._said:
            return []
        if not self._tries.due(self.clock.now()):
            return []
        lines = tuple(lines_of(snapshot, state, rules))
        try:
            if lines and self.notices.find(key) is None:
                if not self.may():
                    return []  # the look took long
                self.notices.tell(key, f"What stands in cluster {self.cluster}, {now:%Y-%m-%d}", lines, _ADVICE)
        except (Unavailable, Refused) as error:
            at_least = error.retry_after if isinstance(error, Unavailable) else None
            self._tries.failed(self.clock.now(), at_least=at_least)
            return [f"the daily digest is put off: {error}"]
        self._said = key
        self._tries.done()
        return []


def lines_of(snapshot: Snapshot, state: State, rules: Rules) -> Iterator[str]:
    """What it says; nothing where no case is open and none has ended within a day."""
    cases = [case for case in state.cases.values() if case.open]
    ended = [case for case in state.cases.values() if not case.open and case.phase_since > snapshot.now - DAY]
    if not cases and not ended:
        return
    yield from _by_phase(cases)
    if ended:
        yield f"{_machines(len(ended))} whose case ended within a day: {_names(ended)}"
    yield from _waiting(cases)
    held = Counter(hold.held_by for hold in state.holds.values())
    if held:
        yield "held: " + ", ".join(f"{number} by {held_by}" for held_by, number in held.most_common())
    for name, account in sorted(accounts(snapshot.nodes, state, rules, snapshot.now).items()):
        budget = account.budget
        yield (
            f"pool {name}: {budget.ours} of {budget.limit_ours} quarantined, {budget.out} of {budget.limit_out} out "
            f"for any reason, {budget.size} in all"
        )


def _by_phase(cases: list[Case]) -> Iterator[str]:
    for phase in Phase:
        there = [case for case in cases if case.phase is phase]
        if there:
            words = STANDS[phase].removeprefix("is ")
            yield f"{_machines(len(there))} {words}: {_names(there)}"


def _waiting(cases: list[Case]) -> Iterator[str]:
    out = sorted((case for case in cases if case.marked), key=lambda case: (case.taken_out_at, case.id))
    for case in out[:MOST_WAITING]:
        yield f"out longest: {case.node} since {in_utc(case.taken_out_at)}, {STANDS[case.phase]}"


def _machines(number: int) -> str:
    return f"{number} machine{'' if number == 1 else 's'}"


def _names(cases: list[Case]) -> str:
    return in_words(sorted(case.node for case in cases), most=10)
