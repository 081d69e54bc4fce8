"""Carry out what was decided: persist the attempt, do it, persist the outcome.

What fails stays in the outbox and is tried again in a later cycle, ever more slowly. What was started and has no
outcome (a crash in between) is looked up at the far side before it is done again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

from quarantine.core import letters, marks
from quarantine.core.asked import cordons
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import ACTION_OF, Decision, Kind, PendingEffect
from quarantine.core.errors import Conflict, NodeGone, Refused, Superseded, Unavailable
from quarantine.core.model import Mode, Node
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import evolve
from quarantine.core.upkeep import MARK_LATE
from quarantine.ports import Clock, Cluster, Ledger, Notifier, Tickets

LONGEST_WAIT = timedelta(minutes=5)
TICKET_FIRST = timedelta(minutes=2)
_ORDER = list(Effect)
_AFTER_MARK = (Effect.EVENT, Effect.TICKET, Effect.NOTIFY)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an effect. `final` False: it was given up for good."""

    reason: str
    ref: str = ""
    done: bool = True
    cordoned_by_us: bool | None = None


@dataclass(frozen=True, slots=True)
class Executed:
    """What a cycle did."""

    done: tuple[str, ...]
    postponed: tuple[str, ...]  # one sentence each


@dataclass(slots=True)
class Executor:
    """Works through the outbox of one term."""

    cluster: Cluster
    ledger: Ledger
    tickets: Tickets | None
    notifier: Notifier | None
    clock: Clock
    rules: Rules
    _earliest: dict[str, datetime] = field(default_factory=dict)  # of effects that were put off, for this process

    def run(self, term: int, snapshot: Snapshot, bad_nodes: frozenset[str]) -> Executed:
        """Try everything that is due. Raises Superseded and LedgerUnavailable: without its record, nothing is done.

        `bad_nodes`: where something is found bad now; old evidence alone no longer marks a node.
        """
        view = self.ledger.load()
        state = view.state
        due = [p for p in sorted(view.pending, key=_order) if self._due(p, state.cases[p.case], snapshot, bad_nodes)]
        # As late as can be, and before the attempt is recorded: whoever succeeds us changes the node, and we conflict.
        nodes = self.cluster.nodes() if any(p.effect in (Effect.MARK, Effect.UNMARK) for p in due) else snapshot.nodes
        done: list[str] = []
        postponed: list[str] = []
        for pending in due:
            case = state.cases[pending.case]
            if pending.effect in _AFTER_MARK and not _marked(case):
                continue
            if pending.effect is Effect.NOTIFY and self._ticket_may_come(pending, case):
                continue
            self.ledger.attempt(term, pending.key, self.clock.now())
            try:
                outcome = self._carry_out(pending, case, nodes.get(case.node), snapshot.cluster)
            except Superseded:
                raise
            except (Conflict, Unavailable, Refused) as error:
                self.ledger.postpone(term, pending.key, str(error))
                self._remember(pending.key, error)
                postponed.append(f"{pending.effect} of case {case.id} on {case.node} is put off: {error}")
                continue
            decision = _decision(pending, case, outcome, self.clock.now(), snapshot.actor)
            self.ledger.settle(term, pending.key, decision)
            state = evolve(state, decision)
            done.append(outcome.reason)
        return Executed(tuple(done), tuple(postponed))

    def _due(self, pending: PendingEffect, case: Case, snapshot: Snapshot, bad_nodes: frozenset[str]) -> bool:
        if snapshot.mode is Mode.OBSERVE and pending.effect is not Effect.UNMARK:
            return False  # the switch was thrown after it was decided: what takes marks away still goes on
        late = snapshot.now >= pending.decided_at + MARK_LATE
        if case.waits_for_mark and late and not case.by_person and case.node not in bad_nodes:
            return False
        if pending.last_attempt_at is None:
            return True
        if (earliest := self._earliest.get(pending.key)) is not None:
            return self.clock.now() >= earliest
        wait = min(timedelta(seconds=2 ** min(pending.attempts, 9)), LONGEST_WAIT)
        return self.clock.now() >= pending.last_attempt_at + wait

    def _remember(self, key: str, error: Exception) -> None:
        """A conflict is no failure: the next cycle looks again. Who asks to wait is waited for."""
        self._earliest.pop(key, None)
        if isinstance(error, Conflict):
            self._earliest[key] = self.clock.now()
        elif isinstance(error, Unavailable) and error.retry_after is not None:
            self._earliest[key] = self.clock.now() + max(error.retry_after, timedelta(seconds=1))

    def _ticket_may_come(self, pending: PendingEffect, case: Case) -> bool:
        """The message names the ticket, so it waits for it a while; longer, and people should be told all the same."""
        ticket = case.effects.get(Effect.TICKET)
        waits = ticket is not None and ticket.status is EffectStatus.PENDING
        return waits and self.clock.now() < pending.decided_at + TICKET_FIRST

    def _carry_out(self, pending: PendingEffect, case: Case, node: Node | None, cluster: str) -> Outcome:
        match pending.effect:
            case Effect.MARK:
                return self._mark(case, node)
            case Effect.UNMARK:
                return self._unmark(case, node)
            case Effect.EVENT:
                return self._event(case)
            case Effect.TICKET:
                return self._ticket(case, cluster)
            case Effect.NOTIFY:
                return self._notify(case, cluster)
            case _:
                assert_never(pending.effect)

    def _mark(self, case: Case, node: Node | None) -> Outcome:
        if node is None or not marks.machine_matches(node, case.machine):
            return Outcome(f"{case.node} is not the machine of case {case.id} any more", done=False)
        prefix = self.rules.prefix
        said = f"{marks.taint_key(prefix)}={case.id}:NoSchedule"
        if marks.case_on(node, prefix) == case.id:
            by_us = node.annotations.get(f"{prefix}/cordoned-by") == "quarantine"
            return Outcome(f"{case.node} carries the taint {said} already", node.resource_version, cordoned_by_us=by_us)
        patch = marks.mark(
            node, case, prefix=prefix, reason=case.reason, cordon=cordons(case, self.rules), phase=case.phase.value
        )
        try:
            written = self.cluster.patch_node(patch)
        except NodeGone as error:
            return Outcome(str(error), done=False)
        by_us = marks.cordoned_by_us(patch, prefix)
        cordon = "cordoned and " if by_us else "left cordoned as it was and " if node.unschedulable else ""
        return Outcome(f"{case.node} is {cordon}tainted {said}", written.resource_version, cordoned_by_us=by_us)

    def _unmark(self, case: Case, node: Node | None) -> Outcome:
        if node is None or not marks.machine_matches(node, case.machine):
            return Outcome(f"{case.node} is gone, so there is no mark to take away")
        patch = marks.unmark(node, case, prefix=self.rules.prefix)
        if patch is None:
            return Outcome(f"{case.node} carries no mark of case {case.id} any more")
        try:
            written = self.cluster.patch_node(patch)
        except NodeGone as error:
            return Outcome(str(error))
        uncordoned = "uncordoned" if patch.unschedulable is False else "left as cordoned by others"
        done = uncordoned if node.unschedulable else "schedulable as before"
        return Outcome(
            f"the marks of case {case.id} are taken off {case.node}, which is {done}", written.resource_version
        )

    def _event(self, case: Case) -> Outcome:
        event = marks.NodeEvent(
            name=f"{case.node}.{case.id}",
            node=case.node,
            node_uid=case.machine.node_uid,
            reason="Quarantined",
            message=case.reason,
            warning=True,
        )
        try:
            self.cluster.create_event(event)
        except NodeGone as error:
            return Outcome(str(error), done=False)
        return Outcome(f"an Event on {case.node} says why", event.name)

    def _ticket(self, case: Case, cluster: str) -> Outcome:
        if self.tickets is None:
            return Outcome("no ticket system is configured (tickets.kind), so none was filed", done=False)
        # Looked up at every attempt: an earlier one may have been filed without its answer reaching us.
        ticket = self.tickets.find(case.id) or self.tickets.open(letters.report(case, cluster, self.rules))
        return Outcome(f"ticket {ticket.ref} reports {case.node}", ticket.ref)

    def _notify(self, case: Case, cluster: str) -> Outcome:
        if self.notifier is None:
            return Outcome("no Slack is configured (slack.token and slack.channel), so nobody was told", done=False)
        state = case.effects.get(Effect.TICKET)
        ticket = state.ref if state is not None and state.status is EffectStatus.DONE else ""
        report = letters.report(case, cluster, self.rules)
        ref = self.notifier.find(case.id, report.channel) or self.notifier.post(report, ticket)
        return Outcome(f"Slack message {ref} asks for the swap of {case.node}", ref)


def _order(pending: PendingEffect) -> tuple[datetime, str, int]:
    return (pending.decided_at, pending.case, _ORDER.index(pending.effect))


def _marked(case: Case) -> bool:
    state = case.effects.get(Effect.MARK)
    return state is not None and state.status is EffectStatus.DONE


def _decision(pending: PendingEffect, case: Case, outcome: Outcome, at: datetime, actor: str) -> Decision:
    return Decision(
        at=at,
        kind=Kind.DONE if outcome.done else Kind.FAILED,
        action=ACTION_OF[pending.effect],
        reason=outcome.reason,
        actor=actor,
        node=case.node,
        machine=case.machine,
        case=case.id,
        effect=pending.effect,
        ref=outcome.ref,
        cordoned_by_us=outcome.cordoned_by_us,
        pool=case.pool,
    )
