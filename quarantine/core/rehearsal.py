"""A world that obeys at once: `plan()`, folded and carried out, step after step. For the backtest and policy tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from quarantine.core import marks
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.decision import ACTION_OF, Decision, Kind, State
from quarantine.core.model import Answer, Mode, Node, PolicyAnswers
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import evolve, fold
from quarantine.core.treatment.owed import cordons

MEMORY = timedelta(days=28)  # ended cases are remembered for so long, as by the ledger


def as_enforced(rules: Rules) -> Rules:
    """The same rules, with every policy in enforce mode: what would be done if they were let."""
    policies = (replace(p, spec=p.spec.model_copy(update={"mode": Mode.ENFORCE})) for p in rules.policies)
    return replace(rules, policies=tuple(policies))


class Rehearsal:
    """Decides as the controller does, and carries out in a world without trouble: every write and message succeeds.

    `state` and `nodes` are as the last step left them.
    """

    def __init__(
        self,
        rules: Rules,
        nodes: Mapping[str, Node],
        *,
        mode: Mode = Mode.ENFORCE,
        cluster: str = "rehearsal",
        actor: str = "rehearsal",
    ) -> None:
        self.rules = rules
        self.mode = mode
        self.cluster = cluster
        self.actor = actor
        self.state = State()
        self.nodes: Mapping[str, Node] = dict(nodes)

    def snapshot(
        self, now: datetime, answers: Mapping[str, PolicyAnswers], uptime: Mapping[str, Answer] | None = None
    ) -> Snapshot:
        """What a cycle would reason from, given these answers."""
        return Snapshot(
            now=now,
            cluster=self.cluster,
            mode=self.mode,
            actor=self.actor,
            nodes=self.nodes,
            answers=answers,
            state=self.state,
            uptime=uptime or {},
        )

    def step(
        self, now: datetime, answers: Mapping[str, PolicyAnswers], uptime: Mapping[str, Answer] | None = None
    ) -> Plan:
        """One cycle: plan, fold, carry out. Planning again at the same moment on the same answers yields nothing."""
        made = plan(self.snapshot(now, answers, uptime), self.rules)
        if made.decisions:
            self.state = fold(_remembered(self.state, now), made.decisions)
            for decision in made.decisions:
                if decision.effects and decision.case is not None:
                    self._carry_out(self.state.cases[decision.case], now)
        return made

    def _carry_out(self, case: Case, now: datetime) -> None:
        for effect in Effect:  # they are declared in the order in which they are carried out
            status = case.effects.get(effect)
            if status is None or status.status is not EffectStatus.PENDING:
                continue
            by_us = None
            if effect is Effect.MARK:
                by_us = self._mark(case)
            elif effect is Effect.UNMARK:
                self._unmark(case)
            self.state = evolve(
                self.state,
                Decision(
                    at=now,
                    kind=Kind.DONE,
                    action=ACTION_OF[effect],
                    reason=f"{effect} of case {case.id} on {case.node} is done",
                    actor=self.actor,
                    node=case.node,
                    machine=case.machine,
                    case=case.id,
                    effect=effect,
                    ref=f"{effect}-{case.id}",
                    cordoned_by_us=by_us,
                    pool=case.pool,
                ),
            )

    def _mark(self, case: Case) -> bool:
        cordon = cordons(case, self.rules)
        prefix = self.rules.prefix
        node = self.nodes[case.node]
        patch = marks.mark(node, case, prefix=prefix, reason=case.reason, cordon=cordon, phase=case.phase.value)
        self.nodes = {**self.nodes, node.name: written(node, patch)}
        return marks.cordoned_by_us(patch, prefix)

    def _unmark(self, case: Case) -> None:
        node = self.nodes.get(case.node)
        patch = marks.unmark(node, case, prefix=self.rules.prefix) if node is not None else None
        if node is not None and patch is not None:
            self.nodes = {**self.nodes, node.name: written(node, patch)}


def written(node: Node, patch: marks.NodePatch) -> Node:
    """The node as it reads once the API server has taken `patch`."""
    return replace(
        node,
        resource_version=f"{node.resource_version}+",
        unschedulable=node.unschedulable if patch.unschedulable is None else patch.unschedulable,
        taints=node.taints if patch.taints is None else patch.taints,
        labels=_merged(node.labels, patch.labels),
        annotations=_merged(node.annotations, patch.annotations),
    )


def _merged(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


def _remembered(state: State, now: datetime) -> State:
    """Without the cases that ended long ago, so that years of history fit into memory."""
    old = [id_ for id_, case in state.cases.items() if not case.open and case.phase_since + MEMORY < now]
    if not old:
        return state
    return replace(state, cases={id_: case for id_, case in state.cases.items() if id_ not in old})
