"""What was held goes out a few machines at a time once its cause is gone; what is new is not slowed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Kind, RequestKind, State
from quarantine.core.model import Mode
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from tests.core.world import FAILED, MINUTE, NOW, after, answers, ask, fleet, hot, policy, rules, snapshot

EVERY = timedelta(minutes=5)
NAMES = ("node-1", "node-2", "node-3", "node-4", "node-5")
HOT = tuple(hot(name) for name in NAMES)


def law(per_hour: int = 8, severity: str = "critical") -> Rules:
    budget = {"quarantined": 10, "unavailable": 10, "perHour": per_hour}
    pools = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget}]
    return rules(policy(severity=severity, breaker={"maxShare": "100%"}), pools=pools)


def taken(look: Snapshot, known: Rules) -> tuple[list[str], State]:
    """Who goes out; planning again gives nothing new."""
    made = plan(look, known)
    state = after(look.state, made)
    assert plan(replace(look, state=state), known).decisions == ()
    return [d.node or "" for d in made.decisions if d.action is Action.QUARANTINE and d.kind is Kind.DECIDED], state


def waiting(state: State) -> set[HeldBy | None]:
    return {case.held_by for case in state.cases.values() if case.open and not case.marked}


def observed() -> State:
    return after(State(), plan(snapshot(None, *HOT, mode=Mode.OBSERVE), law()))


def later(state: State, at: datetime, *bad: str) -> Snapshot:
    return snapshot(None, *(hot(name) for name in bad or NAMES), state=state, now=at)


def test_what_was_only_observed_goes_out_a_few_at_a_time_once_the_installation_enforces() -> None:
    state, out = observed(), []
    for minute in range(1, 13):
        names, state = taken(later(state, NOW + minute * MINUTE), law())
        out += [(minute, name) for name in names]
    assert out == [(1, "node-1"), (1, "node-2"), (6, "node-3"), (6, "node-4"), (11, "node-5")]


@pytest.mark.parametrize(("per_hour", "at_once"), [(1, 1), (3, 1), (4, 1), (8, 2), (12, 3)])
def test_a_quarter_of_the_hours_pace_at_a_time_and_never_none(per_hour: int, at_once: int) -> None:
    names, state = taken(later(observed(), NOW + MINUTE), law(per_hour))
    assert len(names) == at_once
    assert waiting(state) == {HeldBy.BUDGET if per_hour == 1 else HeldBy.TRICKLE}


def test_what_is_new_is_not_slowed_and_counts_among_those_that_went() -> None:
    state = observed()
    names, state = taken(later(state, NOW + MINUTE, *NAMES, "node-11", "node-12", "node-13"), law(12))
    assert names == ["node-1", "node-11", "node-12", "node-13"], "in the order of names, three within five minutes"
    assert waiting(state) == {HeldBy.TRICKLE}
    names, state = taken(later(state, NOW + MINUTE + EVERY), law(12))
    assert names == ["node-2", "node-3", "node-4"]


def test_findings_of_a_policy_that_was_blind_for_days_do_not_act_all_at_once() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, trigger=FAILED)}
    state = after(State(), plan(snapshot(nodes, given=given), law()))
    assert waiting(state) == set(), "it opened no case"
    names, state = taken(later(state, NOW + timedelta(days=2)), law())
    assert names == ["node-1", "node-2"]
    assert waiting(state) == {HeldBy.TRICKLE}


def test_a_breaker_that_closes_lets_them_go_a_few_at_a_time() -> None:
    nodes = fleet()
    budget = {"quarantined": 10, "unavailable": 10, "perHour": 8}
    pools = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget}]
    tight = rules(policy(breaker={"maxShare": "2%"}), pools=pools)
    names, state = taken(snapshot(nodes, *HOT), tight)
    assert names == []
    names, state = taken(later(state, NOW + MINUTE, *NAMES[:3]), tight)
    assert names == ["node-1", "node-2"]


def test_a_pause_that_ends_lets_them_go_a_few_at_a_time() -> None:
    pause = replace(ask(RequestKind.PAUSE, ""), scope="gpu", until=NOW + 10 * MINUTE)
    names, state = taken(snapshot(None, *HOT, requests=[pause]), law())
    assert names == []
    assert waiting(state) == {HeldBy.PAUSED}
    names, state = taken(later(state, NOW + 10 * MINUTE), law())
    assert names == ["node-1", "node-2"]


def test_a_budget_that_frees_is_not_spent_at_once() -> None:
    names, state = taken(snapshot(None, *HOT), law(per_hour=2))
    assert names == ["node-1", "node-2"]
    assert waiting(state) == {HeldBy.BUDGET}
    names, state = taken(later(state, NOW + timedelta(hours=1), *NAMES[2:]), law(per_hour=2))
    assert names == ["node-3"]


def test_the_first_time_that_anything_is_found_nothing_is_slowed() -> None:
    names, _ = taken(snapshot(None, *HOT), law())
    assert names == list(NAMES)


def test_a_hold_of_this_kind_is_recorded_once() -> None:
    state = observed()
    _, state = taken(later(state, NOW + MINUTE), law())
    made = plan(later(state, NOW + 2 * MINUTE), law())
    assert made.decisions == ()
