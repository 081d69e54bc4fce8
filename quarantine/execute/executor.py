"""The outbox, worked through once a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

from quarantine.core.case import Case, Effect
from quarantine.core.decision import PendingEffect, State
from quarantine.core.errors import Conflict, EvictionBlocked, Refused, Superseded, Unavailable
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import evolve
from quarantine.execute import due, machines, nodes, people
from quarantine.execute.outcome import Executed, Outcome, decision_of
from quarantine.ports import Clock, Cluster, Ledger, Notifier, Procedures, Tickets

LOOK_AGAIN = timedelta(seconds=5)  # how old the word may be that this process is the writer, among many evictions


@dataclass(slots=True)
class Executor:
    """Works through the outbox of one term."""

    cluster: Cluster
    ledger: Ledger
    tickets: Tickets | None
    notifier: Notifier | None
    clock: Clock
    rules: Rules
    procedures: Procedures | None = None
    _earliest: dict[str, datetime] = field(default_factory=dict)  # of effects that were put off, for this process
    _ended: dict[str, int] = field(default_factory=dict)  # attempts of them, when this process last saw one fail

    def run(self, term: int, snapshot: Snapshot, made: Plan) -> Executed:
        """Try everything that is due. Raises Superseded and LedgerUnavailable: without its record, nothing is done."""
        view = self.ledger.load()
        state = view.state
        trying = [
            p
            for p in sorted(view.pending, key=due.order)
            if due.wanted(p, state.cases[p.case], state, snapshot, made)
            and due.rested(p, state.cases[p.case], self._earliest.get(p.key), self.clock.now())
        ]
        seen = self._nodes(trying, snapshot)
        done: list[str] = []
        postponed: list[str] = []
        for pending in trying:
            case = state.cases[pending.case]
            node = seen.get(case.node)
            if not due.fits(pending, case, node, state, self.rules, self.clock.now()):
                continue
            self.ledger.attempt(term, pending.key, self.clock.now())
            try:
                outcome = self._carry_out(term, pending, state, node, snapshot.cluster)
            except Superseded:
                raise
            except (Conflict, EvictionBlocked, Unavailable, Refused) as error:
                self.ledger.postpone(term, pending.key, str(error))
                self._remember(pending, error)
                postponed.append(f"{pending.effect} of case {case.id} on {case.node} is put off: {error}")
                continue
            decision = decision_of(pending, case, outcome, self.clock.now(), snapshot.actor)
            self.ledger.settle(term, pending.key, decision)
            self._forget(pending.key)
            state = evolve(state, decision)
            done.append(outcome.reason)
        return Executed(tuple(done), tuple(postponed))

    def _nodes(self, trying: Sequence[PendingEffect], snapshot: Snapshot) -> Mapping[str, Node]:
        """As late as can be, and before the attempt is recorded: who succeeds us changes a node, and we conflict."""
        return self.cluster.nodes() if any(p.effect in due.ON_NODES for p in trying) else snapshot.nodes

    def _remember(self, pending: PendingEffect, error: Exception) -> None:
        """A conflict on a node is no failure: the next cycle looks again. Who asks to wait is waited for."""
        self._ended[pending.key] = pending.attempts + 1
        self._earliest.pop(pending.key, None)
        if isinstance(error, Conflict) and pending.effect in (Effect.MARK, Effect.UNMARK, Effect.PHASE):
            self._earliest[pending.key] = self.clock.now()
        elif isinstance(error, Unavailable) and error.retry_after is not None:
            self._earliest[pending.key] = self.clock.now() + max(error.retry_after, timedelta(seconds=1))

    def _forget(self, key: str) -> None:
        self._earliest.pop(key, None)
        self._ended.pop(key, None)

    def _carry_out(self, term: int, pending: PendingEffect, state: State, node: Node | None, cluster: str) -> Outcome:
        case = state.cases[pending.case]
        match pending.effect:
            case Effect.MARK:
                outcome = nodes.mark(self.cluster, self.rules, case, node)
            case Effect.UNMARK:
                outcome = nodes.unmark(self.cluster, self.rules, case, node)
            case Effect.STOP:
                outcome = machines.stop(self.procedures, self.rules, case)
            case Effect.PHASE:
                outcome = nodes.phase(self.cluster, self.rules, case, node)
            case Effect.CONDITION:
                outcome = nodes.condition(self.cluster, self.rules, case, node)
            case Effect.EVENT:
                outcome = nodes.event(self.cluster, case)
            case Effect.TICKET | Effect.REPLACE | Effect.NOTIFY | Effect.CLOSE:
                outcome = self._say(pending.effect, state, case, node, cluster)
            case Effect.EVICT:
                outcome = self._evict(term, pending, case, node)
            case Effect.RUN:
                outcome = self._run(pending, case, node)
            case _:
                assert_never(pending.effect)
        return outcome

    def _say(self, effect: Effect, state: State, case: Case, node: Node | None, cluster: str) -> Outcome:
        """To the provider, and to people."""
        if effect is Effect.TICKET:
            return people.ticket(self.tickets, self.rules, state, case, cluster)
        if effect is Effect.REPLACE:
            return self._replace(state, case, node, cluster)
        if effect is Effect.NOTIFY:
            return people.message(self.notifier, self.rules, state, case, cluster)
        return people.close(self.tickets, case)

    def _evict(self, term: int, pending: PendingEffect, case: Case, node: Node | None) -> Outcome:
        gone = machines.another(node, case)
        if gone:
            return Outcome(gone, done=False)
        if due.missed(pending, case, self.clock.now()):
            return Outcome(f"the moment at which pods were to leave {case.node} has passed: none is asked to")
        return machines.evict(self.cluster, case, self._still_writer(term))

    def _run(self, pending: PendingEffect, case: Case, node: Node | None) -> Outcome:
        in_doubt = pending.attempts > self._ended.get(pending.key, 0)
        return machines.start(self.procedures, self.cluster, self.rules, self.clock, case, node, in_doubt=in_doubt)

    def _replace(self, state: State, case: Case, node: Node | None, cluster: str) -> Outcome:
        # A dead machine may be out of the cluster before its ticket is filed; nothing runs on it then.
        if node is not None and (other := machines.another(node, case)):
            return Outcome(other, done=False)
        training = machines.training_on(self.cluster, self.rules, case)
        return people.replacement(self.tickets, self.rules, state, case, cluster, training)

    def _still_writer(self, term: int) -> Callable[[], None]:
        """A batch of evictions may take long, and whoever has succeeded us meanwhile decides what leaves."""
        known = self.clock.now()

        def look() -> None:
            nonlocal known
            if self.clock.now() >= known + LOOK_AGAIN:
                self.ledger.record(term, ())
                known = self.clock.now()

        return look
