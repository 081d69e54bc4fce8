"""The outbox, worked through once a cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import structlog

from quarantine import loglines
from quarantine.core.case import Case, Effect
from quarantine.core.decision import PendingEffect, State
from quarantine.core.errors import (
    ClusterUnavailable,
    Conflict,
    EvictionBlocked,
    LedgerUnavailable,
    Refused,
    Superseded,
    Unavailable,
)
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import evolve
from quarantine.core.tickets import Remark
from quarantine.execute import added, due, machines, nodes, people, places
from quarantine.execute.memory import Memory
from quarantine.execute.outcome import Executed, Outcome, decision_of
from quarantine.execute.pictures import Draw, attached
from quarantine.execute.run import LONGEST_RUN, LOOK_AGAIN, Run, Stopped
from quarantine.ports import Clock, Cluster, Desks, Ledger, Notifier, Procedures


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
    stopping: Callable[[], bool] = lambda: False  # whether this process was asked to end
    tenure: int = 0  # another one whenever another process may have acted meanwhile
    _memory: Memory = field(default_factory=Memory)
    _tenure: int = 0  # of the memory
    _pace: loglines.Pace = field(default_factory=loglines.Pace)

    def run(self, term: int, snapshot: Snapshot, made: Plan) -> Executed:
        """Try everything that is due. Raises Superseded and LedgerUnavailable: without its record, nothing is done."""
        view, now = self.ledger.load(), self.clock.now()
        if self._tenure != self.tenure:
            self._tenure, self._memory = self.tenure, Memory()
        self._memory.keep(view.pending)
        trying, state = due.trying(view, snapshot, made, self._memory.earliest, now), view.state
        seen = self._nodes(trying, snapshot)
        run = Run(term, frozenset(r.id for r in snapshot.requests), snapshot, now + LONGEST_RUN, now, pace=self._pace)
        for number, pending in enumerate(trying):
            if run.over(self.clock.now(), speaks=pending.effect in due.SPEECH):
                left = len(trying) - number
                run.put_off(f"what is left ({left}) waits for the next cycle, since this one took too long")
                break
            try:
                state = self._work(run, pending, state, seen)
            except Stopped as stopped:
                run.put_off(str(stopped))
                break
        return Executed(tuple(run.done), tuple(run.postponed))

    def barred(self) -> str:
        """Why this process must begin nothing more, for people; empty where it may."""
        if not self.leads():
            return "another process may lead by now"
        return "this process was asked to stop" if self.stopping() else ""

    def _may_begin(self) -> None:
        """Raises `Stopped` where nothing may be begun. Asked last of all: what was asked before may have taken long."""
        if why := self.barred():
            raise Stopped(f"{why}, so what is left is for who leads next")

    def _work(self, run: Run, pending: PendingEffect, state: State, seen: Mapping[str, Node]) -> State:
        """One effect, whose outcome is folded into the state; of a comment, one remark after the other."""
        if pending.effect is Effect.COMMENT and self._memory.in_doubt(pending):
            self._memory.doubt(pending, added.perhaps_said(pending, state.cases[pending.case]))
        while True:
            case = state.cases[pending.case]
            what = f"{pending.effect} of case {case.id} on {case.node} is put off"
            if run.away(pending.effect):
                run.put_off(f"{what} untried: what it needs does not answer", pending, case)
                return state
            outcome = self._try(run, pending, state, seen)
            if isinstance(outcome, Exception):
                run.put_off(f"{what}: {outcome}", pending, case)
                pending = replace(pending, last_error=str(outcome))
            elif outcome is not None:
                decision = decision_of(pending, case, outcome, self.clock.now(), run.snapshot.actor)
                loglines.decisions([decision], self.ledger.settle(run.term, pending.key, decision))
                state = evolve(state, decision)
                run.done.append(outcome.reason)
                if not state.cases[case.id].is_pending(pending.effect):
                    self._memory.forget(pending)
                    return state
                self._told_one(run, pending, outcome)
            more = pending.effect is Effect.COMMENT and run.remark(state.cases[case.id]) is not None
            if not more or self.clock.now() >= run.until:
                return state
            pending = replace(pending, attempts=pending.attempts + 1)

    def _told_one(self, run: Run, pending: PendingEffect, outcome: Outcome) -> None:
        """One remark has its outcome, and others are left. That is on record: whoever goes on doubts none of them."""
        if outcome.remark is not None:
            self._memory.doubts(pending).discard(outcome.remark.key)
        self._memory.saw_end(pending)
        if not self._memory.doubts(pending):
            self.ledger.postpone(run.term, pending.key, pending.last_error, ended=True)

    def _try(
        self, run: Run, pending: PendingEffect, state: State, seen: Mapping[str, Node]
    ) -> Outcome | Exception | None:
        """One effect: what became of it, why it is put off, or None where the next plan is to see why not."""
        case = state.cases[pending.case]
        self._may_begin()
        doubt, now = self._memory.in_doubt(pending), self.clock.now()
        if (wait := places.too_early(pending, case, self.desks, now, in_doubt=doubt)) is not None:
            return wait
        if pending.effect in due.TO_THE_MACHINE:
            try:
                self._listen(run)
                seen = self.cluster.nodes()  # at this moment: effects before this one may have taken long
            except ClusterUnavailable as error:
                return error  # no attempt was made
        node = seen.get(case.node)
        if not due.fits(pending, case, node, state, self.rules, self.clock.now()):
            return None
        remark = run.remark(case) if pending.effect is Effect.COMMENT else None
        if remark is not None:
            run.tried.add((case.id, remark.key))
        self.ledger.attempt(run.term, pending.key, self.clock.now())
        try:
            self._may_begin()
            outcome = self._carry_out(run, pending, state, node, remark)
        except (Superseded, LedgerUnavailable):
            raise
        except Stopped as stopped:
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
            if remark is not None:  # of this remark only
                self._memory.doubt(pending, (remark.key,))
                self._memory.saw_end(pending)
            return RuntimeError(said)
        run.heard_from(pending.effect, None)
        return outcome

    def _put_off(self, run: Run, pending: PendingEffect, error: Exception) -> None:
        ended = self._memory.leaves_nothing(pending, error)
        self.ledger.postpone(run.term, pending.key, str(error), ended=ended)
        self._memory.failed(pending, error, self.clock.now(), places.settles(self.desks))

    def _listen(self, run: Run, *, always: bool = False) -> bool:
        """False: that was looked at a moment ago. Raises Superseded, and `Stopped` where nothing may be begun."""
        self._may_begin()
        if not always and self.clock.now() < run.looked + LOOK_AGAIN:
            return False
        self.ledger.record(run.term, ())
        run.looked = self.clock.now()
        if self.ledger.waiting() - run.heard:
            raise Stopped("a person asks for something, so what is left waits for the next cycle")
        self._may_begin()
        return True

    def _nodes(self, trying: Sequence[PendingEffect], snapshot: Snapshot) -> Mapping[str, Node]:
        """As late as can be, and before the attempt is recorded: who succeeds us changes a node, and we conflict."""
        return self.cluster.nodes() if any(p.effect in due.ON_NODES for p in trying) else snapshot.nodes

    def _carry_out(
        self, run: Run, pending: PendingEffect, state: State, node: Node | None, remark: Remark | None
    ) -> Outcome:
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
            case Effect.COMMENT:
                outcome = self._comment(pending, case, remark)
            case Effect.TICKET | Effect.REPLACE | Effect.NOTIFY | Effect.CLOSE:
                outcome = self._say(run, pending, state, case, node)
            case Effect.EVICT:
                outcome = self._evict(run, pending, state, case, node)
            case Effect.RUN:
                outcome = self._run(run, pending, state, case, node)
            case _:
                assert_never(pending.effect)
        return outcome

    def _say(self, run: Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        """To the provider, and to people."""
        match pending.effect:
            case Effect.TICKET:
                still = partial(self._listen, run, always=True)
                return people.ticket(self._errand(run, pending, state, case), still=still)
            case Effect.REPLACE:
                return self._replace(run, pending, state, case, node)
            case Effect.CLOSE:
                desk, ends = places.own(self.desks, case, self.rules), self._memory.told(pending)
                return added.close(
                    self.desks, desk, case, ends, in_doubt=self._memory.in_doubt(pending), still=self._may_begin
                )
            case _:
                return people.message(
                    self.notifier, self.rules, state, case, run.snapshot.cluster, still=self._may_begin
                )

    def _comment(self, pending: PendingEffect, case: Case, remark: Remark | None) -> Outcome:
        if remark is None:
            return Outcome(f"nothing is left to be told to the tickets of {case.node}")
        doubt = remark.key in self._memory.doubts(pending)
        return added.comment(self.desks, case, remark, self.clock.now(), in_doubt=doubt)

    def _errand(self, run: Run, pending: PendingEffect, state: State, case: Case) -> people.Errand:
        return people.Errand(
            case,
            run.snapshot.cluster,
            self.rules,
            state,
            places.own(self.desks, case, self.rules),
            self.clock.now(),
            in_doubt=self._memory.in_doubt(pending),
            elsewhere=places.searchable(self.desks) if pending.attempts > 0 else (),
            attached=partial(attached, self.ledger, case, self.draw),
        )

    def _evict(self, run: Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        gone = machines.another(node, case)
        if gone:
            return Outcome(gone, done=False)
        if due.missed(pending, case, self.clock.now()):
            return Outcome(f"the moment at which pods were to leave {case.node} has passed: none is asked to")
        return machines.evict(self.cluster, case, self._still(run, pending, state, case), pending.attempts)

    def _run(self, run: Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        still, doubt = self._still(run, pending, state, case, always=True), self._memory.in_doubt(pending)
        return machines.start(
            self.procedures, self.cluster, self.rules, self.clock, case, node, in_doubt=doubt, still=still
        )

    def _replace(self, run: Run, pending: PendingEffect, state: State, case: Case, node: Node | None) -> Outcome:
        # A dead machine may be out of the cluster before its ticket is filed; nothing runs on it then.
        if node is not None and (other := machines.another(node, case)):
            return Outcome(other, done=False)
        training = machines.training_on(self.cluster, self.rules, case)
        still = self._still(run, pending, state, case, always=True)
        return people.replacement(self._errand(run, pending, state, case), training, still=still)

    def _still(
        self, run: Run, pending: PendingEffect, state: State, case: Case, *, always: bool = False
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
            self._may_begin()

        return look
