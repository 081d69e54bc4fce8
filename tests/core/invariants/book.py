"""A ledger in memory: the trail, folded, with terms, the outbox and what people ask; and backups of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from quarantine.core.case import Effect, EffectStatus
from quarantine.core.decision import Decision, PendingEffect, Request, State
from quarantine.core.errors import Conflict, LedgerUnavailable, OtherCluster, Superseded
from quarantine.core.state import FINDING_MEMORY, PACE_MEMORY, evolve, fold
from quarantine.ports import LedgerView
from tests.core.invariants.kube import Trouble

ANSWERED_MEMORY = timedelta(days=1)
Key = tuple[str, Effect]


class Now(Protocol):
    """Where time comes from."""

    def now(self) -> datetime: ...


@dataclass
class Book:
    """What the ledger's port promises, of one cluster."""

    clock: Now
    trouble: Trouble
    trail: list[Decision] = field(default_factory=list)
    state: State = field(default_factory=State)  # of the whole trail
    asked: list[Request] = field(default_factory=list)
    term: int = 0
    identity: str | None = None  # of the cluster whose trail it is
    tries: dict[Key, PendingEffect] = field(default_factory=dict)
    trying: Key | None = None  # whose attempt was recorded last

    # --- The port -----------------------------------------------------------------------------------------------------

    def take_term(self, holder: str, identity: str | None = None) -> int:
        assert holder
        self.require_same(identity)
        self.identity = self.identity or identity
        self.term += 1
        return self.term

    def require_same(self, identity: str | None) -> None:
        if self.identity not in (None, identity):
            raise OtherCluster(f"the trail is that of {self.identity}, and not of {identity}")

    def load(self) -> LedgerView:
        """As it is loaded: what ended long ago is forgotten."""
        now = self.clock.now()
        self.follow()
        pending = tuple(self.tries.values())
        held = {effect.case for effect in pending}
        state = self.state
        cases = {
            key: case
            for key, case in state.cases.items()
            if case.open or key in held or case.phase_since > now - FINDING_MEMORY
        }
        known = replace(
            state,
            cases=cases,
            dismissals=tuple(word for word in state.dismissals if word.until > now),
            quarantined_at=tuple(entry for entry in state.quarantined_at if entry[0] > now - PACE_MEMORY),
            answered=frozenset(r.id for r in self.asked if r.id in state.answered and r.at > now - ANSWERED_MEMORY),
        )
        return LedgerView(known, pending, tuple(r for r in self.asked if r.id not in state.answered))

    def waiting(self) -> frozenset[str]:
        return frozenset(r.id for r in self.asked if r.id not in self.state.answered)

    def record(self, term: int, decisions: Sequence[Decision], policies: Sequence[object] = ()) -> int:
        assert not policies
        self._writer(term)
        for decision in decisions:
            self.state = evolve(self.state, decision)
            self.trail.append(decision)
            self.follow(decision.at)
        return len(self.trail)

    def attempt(self, term: int, key: str, at: datetime) -> None:
        self._writer(term)
        self.trouble.before("attempt", LedgerUnavailable("the ledger does not answer"))
        known = self._pending(key)
        self.trying = (known.case, known.effect)
        self.tries[self.trying] = replace(known, attempts=known.attempts + 1, last_attempt_at=at)
        self.trouble.after("attempt", LedgerUnavailable("the ledger's answer was lost"))

    def postpone(self, term: int, key: str, error: str, *, ended: bool = False) -> None:
        self._writer(term)
        known = self._pending(key)
        count = known.attempts if ended else 0
        self.tries[known.case, known.effect] = replace(known, last_error=error, ended=count)

    def settle(self, term: int, key: str, outcome: Decision) -> int:
        self._writer(term)
        self.trouble.before("settle", LedgerUnavailable("the ledger does not answer"))
        known = self._pending(key)
        assert (outcome.case, outcome.effect) == (known.case, known.effect), "the outcome is of another effect"
        number = self.record(term, [outcome])
        self.trouble.after("settle", LedgerUnavailable("the ledger's answer was lost"))
        return number

    def _writer(self, term: int) -> None:
        if term != self.term:
            raise Superseded(f"term {term} is over: {self.term} has begun")

    def _pending(self, key: str) -> PendingEffect:
        case, _, effect = key.partition("/")
        found = self.tries.get((case, Effect(effect)))
        if found is None:
            raise Conflict(f"{key} is not pending")
        return found

    def follow(self, at: datetime | None = None) -> None:
        """The outbox follows the cases."""
        waits = {
            (case.id, effect)
            for case in self.state.cases.values()
            for effect, state in case.effects.items()
            if state.status is EffectStatus.PENDING
        }
        order = list(Effect)
        self.tries = {key: tried for key, tried in self.tries.items() if key in waits}
        for case, effect in sorted(waits - self.tries.keys(), key=lambda key: (key[0], order.index(key[1]))):
            since = at or self.clock.now()
            self.tries[case, effect] = PendingEffect(f"{case}/{effect}", case, effect, since)

    # --- Backups ------------------------------------------------------------------------------------------------------

    def restore(self, rows: int) -> None:
        """Back to what it was after so many rows; what people asked for later is forgotten, and terms go on."""
        self.trail = self.trail[:rows]
        self.state = fold(State(), self.trail)
        until = self.trail[-1].at if self.trail else None
        self.asked = [r for r in self.asked if until is not None and r.at <= until]
        self.tries = {}
        self.follow()
