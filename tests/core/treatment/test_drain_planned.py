"""A drain from the policy to the empty machine, by whole plans."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from quarantine.core.case import Phase
from quarantine.core.decision import Decision, State
from quarantine.core.model import Failed, FailureKind, Node
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.workload import Workloads
from tests.core.treatment.floor import asked, gang, held, rank
from tests.core.world import MINUTE, NOW, after, carried_out, fleet, hot, policy, rules, snapshot

LAW = rules(policy(response={"drain": {"when": "after-checkpoint", "deadline": "2h"}}))
RANKS = [rank("llama-0", "node-3"), rank("llama-1", "node-4")]


def works(checkpoint: datetime | None = None) -> Workloads:
    return Workloads({"node-3": (RANKS[0],)}, {RANKS[0].gang: gang(*RANKS, checkpoint_at=checkpoint)})


def cycle(
    state: State, nodes: dict[str, Node], at: datetime, seen: Workloads | Failed, law: Rules = LAW
) -> tuple[State, dict[str, Node], tuple[Decision, ...]]:
    look = replace(snapshot(nodes, hot("node-3"), state=state, now=at), workloads=seen)
    made = plan(look, law)
    state = after(state, made)
    assert plan(replace(look, state=state), law).decisions == ()
    return (*carried_out(state, nodes, at), made.decisions)


def phase(state: State) -> Phase:
    (case,) = state.cases.values()
    return case.phase


def test_from_the_finding_to_the_empty_machine() -> None:
    state, nodes, _ = cycle(State(), fleet(), NOW, Workloads())
    for minutes in (1, 2):
        state, nodes, made = cycle(state, nodes, NOW + minutes * MINUTE, works())
        assert made == (), "no checkpoint is known"
    state, nodes, made = cycle(state, nodes, NOW + 120 * MINUTE, works())
    assert [by for by, _ in held(made)] == ["drain"]
    state, nodes, made = cycle(state, nodes, NOW + 130 * MINUTE, works(NOW + 129 * MINUTE))
    assert asked(made) == [["llama-0"]]
    assert phase(state) is Phase.DRAINING
    state, nodes, made = cycle(
        state, nodes, NOW + 131 * MINUTE, Failed(FailureKind.TIMEOUT, "the API server did not answer in time")
    )
    assert [by for by, _ in held(made)] == ["unknown-pods"]
    state, nodes, made = cycle(state, nodes, NOW + 132 * MINUTE, Workloads({"node-3": ()}))
    assert phase(state) is Phase.DRAINED
    assert not [hold for hold in state.holds if hold.startswith("drain/")]


def test_the_usual_policy_drains_nothing() -> None:
    law = rules(policy())
    state, nodes, _ = cycle(State(), fleet(), NOW, Workloads(), law)
    for seen in (works(NOW), Workloads({"node-3": ()}), Failed(FailureKind.TIMEOUT, "late")):
        state, nodes, made = cycle(state, nodes, NOW + MINUTE, seen, law)
        assert not asked(made)
        assert phase(state) is Phase.QUARANTINED


def test_a_plan_without_any_look_at_pods_keeps_a_machine_where_it_is() -> None:
    """The backtest's: what ran in history is not known, and is not told as an obstacle either."""
    state, nodes, _ = cycle(State(), fleet(), NOW, Workloads())
    for hours in range(1, 5):
        state, nodes, made = cycle(state, nodes, NOW + hours * 60 * MINUTE, Workloads())
        assert made == ()
    assert phase(state) is Phase.QUARANTINED
