"""The outbox, worked through once a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

import structlog

from quarantine.core.case import Case, Effect
from quarantine.core.decision import PendingEffect, State
from quarantine.core.errors import (
    ClusterUnavailable,
    Conflict,
    EvictionBlocked,
    LedgerUnavailable,
    NotifierUnavailable,
    Refused,
    Superseded,
    TicketsUnavailable,
    Unavailable,
)
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.core.providers import provider_of
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import evolve
from quarantine.execute import due, machines, nodes, people
from quarantine.execute.outcome import Executed, Outcome, decision_of
from quarantine.execute.pictures import Draw, attached
from quarantine.ports import Clock, Cluster, Desks, Ledger, Notifier, Procedures, Tickets

LOOK_AGAIN = timedelta(seconds=5)  # how old the word may be that this process may go on, among many evictions
LONGEST_RUN = timedelta(seconds=60)  # a run begins nothing after it: the next cycle looks at the world anew
AWAY_AFTER = 2  # so often in a row without an answer, and nothing more is asked of a dependency in the same run

_ASKED: Mapping[Effect, Sequence[type[Unavailable]]] = {
    Effect.TICKET: (TicketsUnavailable,),
    Effect.CLOSE: (TicketsUnavailable,),
    Effect.COMMENT: (TicketsUnavailable,),
    Effect.NOTIFY: (NotifierUnavailable,),
    Effect.REPLACE: (TicketsUnavailable, ClusterUnavailable),
}


_FILES = (Effect.TICKET, Effect.REPLACE)


class _Stopped(Exception):
    """The run ends here: another process leads, or a person asks for something that may change what is to be done."""


@dataclass(slots=True)
class _Run:
    """What one run knows beyond its effects."""

    term: int
    heard: frozenset[str]  # the ids of the requests that its plan knew
    snapshot: Snapshot
    until: datetime
    looked: datetime
    silent: dict[type[Unavailable], int] = field(default_factory=dict)  # by dependency: how often in a row

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


@dataclass(slots=True)
class Executor:
    """Works through the outbox of one term."""

    cluster: Cluster
    ledger: Ledger
    desks: Desks | None
    notifier: Notifier | None
    clock: Clock
    rules: Rules
    procedures: Procedures | None = None
    draw: Draw | None = None  # None: tickets go without a chart
    leads: Callable[[], bool] = lambda: True  # whether this process may still act
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
        now = self.clock.now()
        run = _Run(term, frozenset(r.id for r in snapshot.requests), snapshot, now + LONGEST_RUN, now)
        done: list[str] = []
        postponed: list[str] = []
        for number, pending in enumerate(trying):
            if self.clock.now() >= run.until:
                left = len(trying) - number
                postponed.append(f"what is left ({left}) waits for the next cycle, since this one took too long")
                break
            case = state.cases[pending.case]
            what = f"{pending.effect} of case {case.id} on {case.node} is put off"
            if run.away(pending.effect):
                postponed.append(f"{what} untried: what it needs does not answer")
                continue
            try:
                outcome = self._try(run, pending, state, seen)
            except _Stopped as stopped:
                postponed.append(str(stopped))
                break
            if isinstance(outcome, Exception):
                postponed.append(f"{what}: {outcome}")
            elif outcome is not None:
                decision = decision_of(pending, case, outcome, self.clock.now(), snapshot.actor)
                self.ledger.settle(term, pending.key, decision)
                self._forget(pending.key)
                state = evolve(state, decision)
                done.append(outcome.reason)
        return Executed(tuple(done), tuple(postponed))

    def _try(
        self, run: _Run, pending: PendingEffect, state: State, seen: Mapping[str, Node]
    ) -> Outcome | Exception | None:
        """One effect: what became of it, why it is put off, or None where the next plan is to see why not."""
        case = state.cases[pending.case]
        if not self.leads():
            raise _Stopped("another process may lead by now, so what is left is its to do")
        if pending.effect in _FILES and (wait := self._unsettled(pending, case)) is not None:
            return wait
        if pending.effect in due.TO_THE_MACHINE:
            try:
                seen = self._look_again(run)
            except ClusterUnavailable as error:
                return error  # no attempt was made
        node = seen.get(case.node)
        if not due.fits(pending, case, node, state, self.rules, self.clock.now()):
            return None
        self.ledger.attempt(run.term, pending.key, self.clock.now())
        try:
            outcome = self._carry_out(run, pending, state, node)
        except (Superseded, LedgerUnavailable):
            raise
        except _Stopped as stopped:
            self._put_off(run, pending, stopped)
            raise
        except (Conflict, EvictionBlocked, Unavailable, Refused) as error:
            run.heard_from(pending.effect, error)
            self._put_off(run, pending, error)
            return error
        except Exception as error:  # noqa: BLE001  (said, and postponed)
            # A defect of ours keeps no other machine waiting. Whether it was done is not known: it stays in doubt.
            structlog.get_logger().exception("a defect ended an effect; please report it with this traceback")
            said = f"a defect, {type(error).__name__}: {error}"
            self.ledger.postpone(run.term, pending.key, said)
            return RuntimeError(said)
        run.heard_from(pending.effect, None)
        return outcome

    def _put_off(self, run: _Run, pending: PendingEffect, error: Exception) -> None:
        self.ledger.postpone(run.term, pending.key, str(error))
        self._remember(pending, error)

    def _look_again(self, run: _Run) -> Mapping[str, Node]:
        """The nodes at this moment: effects before this one may have taken long."""
        self._listen(run)
        return self.cluster.nodes()

    def _listen(self, run: _Run, *, always: bool = False) -> bool:
        """Raises Superseded where another process decides by now, and `_Stopped` where one may lead or a person asks.

        False: that was looked at a moment ago.
        """
        if not self.leads():
            raise _Stopped("another process may lead by now, so what is left is its to do")
        if not always and self.clock.now() < run.looked + LOOK_AGAIN:
            return False
        self.ledger.record(run.term, ())
        run.looked = self.clock.now()
        if self.ledger.waiting() - run.heard:
            raise _Stopped("a person asks for something, so what is left waits for the next cycle")
        return True

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

    def _carry_out(self, run: _Run, pending: PendingEffect, state: State, node: Node | None) -> Outcome:
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
            case Effect.TICKET | Effect.REPLACE | Effect.NOTIFY | Effect.CLOSE | Effect.COMMENT:
                outcome = self._say(run, pending, state, case, node)
            case Effect.EVICT:
                outcome = self._evict(run, pending, state, case, node)
            case Effect.RUN:
                outcome = self._run(run, pending, state, case, node)
            case _:
                assert_never(pending.effect)
        return outcome

    def _say(self, run: _Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        """To the provider, and to people."""
        match pending.effect:
            case Effect.TICKET:
                return people.ticket(self._errand(run, pending, state, case))
            case Effect.REPLACE:
                return self._replace(run, pending, state, case, node)
            case Effect.COMMENT:
                return people.comment(self.desks, case, in_doubt=self._in_doubt(pending))
            case Effect.CLOSE:
                return people.close(self.desks, self._desk(case), case, in_doubt=self._in_doubt(pending))
            case _:
                return people.message(self.notifier, self.rules, state, case, run.snapshot.cluster)

    def _errand(self, run: _Run, pending: PendingEffect, state: State, case: Case) -> people.Errand:
        at, doubt = self.clock.now(), self._in_doubt(pending)
        pictures = partial(attached, self.ledger, case, self.draw)
        return people.Errand(case, run.snapshot.cluster, self.rules, state, self._desk(case), at, doubt, pictures)

    def _desk(self, case: Case) -> tuple[str, Tickets] | None:
        """Where this case's provider takes tickets."""
        return self.desks.of(provider_of(case, self.rules)) if self.desks is not None else None

    def _unsettled(self, pending: PendingEffect, case: Case) -> TicketsUnavailable | None:
        """Why it is too early to look for what an attempt in doubt may have filed: it may not be found yet."""
        desk = self._desk(case) if self._in_doubt(pending) else None
        if (
            desk is None
            or pending.last_attempt_at is None
            or self.clock.now() >= pending.last_attempt_at + desk[1].settles
        ):
            return None
        return TicketsUnavailable(f"whether an earlier attempt filed it is looked up at {desk[0]} in a while")

    def _in_doubt(self, pending: PendingEffect) -> bool:
        """Whether an earlier attempt began of which this process did not see the end."""
        return pending.attempts > self._ended.get(pending.key, 0)

    def _evict(self, run: _Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        gone = machines.another(node, case)
        if gone:
            return Outcome(gone, done=False)
        if due.missed(pending, case, self.clock.now()):
            return Outcome(f"the moment at which pods were to leave {case.node} has passed: none is asked to")
        return machines.evict(self.cluster, case, self._still(run, pending, state, case), pending.attempts)

    def _run(self, run: _Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        still, doubt = self._still(run, pending, state, case, always=True), self._in_doubt(pending)
        return machines.start(
            self.procedures, self.cluster, self.rules, self.clock, case, node, in_doubt=doubt, still=still
        )

    def _replace(self, run: _Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        # A dead machine may be out of the cluster before its ticket is filed; nothing runs on it then.
        if node is not None and (other := machines.another(node, case)):
            return Outcome(other, done=False)
        training = machines.training_on(self.cluster, self.rules, case)
        still = self._still(run, pending, state, case, always=True)
        return people.replacement(self._errand(run, pending, state, case), training, still=still)

    def _still(
        self, run: _Run, pending: PendingEffect, state: State, case: Case, *, always: bool = False
    ) -> Callable[[], None]:
        """Raises where the effect must not go on: a batch of evictions may take long, and so may a look at pods.

        Whoever has succeeded us meanwhile decides what is done; a person may have taken the mark away, or ask for
        something. `always`: looked at each time, and not only after a while.
        """

        def look() -> None:
            if not self._listen(run, always=always):
                return
            node = self.cluster.nodes().get(case.node)
            gone = machines.another(node, case)
            if gone and (node is not None or pending.effect is not Effect.REPLACE):
                raise Conflict(gone)
            if not due.fits(pending, case, node, state, self.rules, self.clock.now()):
                raise Conflict(f"{case.node} is not as it was when this was begun: the next plan looks anew")

        return look
