"""The sizes of pools: counted as budgets count, recorded when they change, not with every node that comes and goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core import budget
from quarantine.core.case import HeldBy
from quarantine.core.census import UNCHANGED, census_decisions, count
from quarantine.core.deadlines import deadlines
from quarantine.core.decision import Action, Census, Decision, Kind, State
from quarantine.core.draft import SIGHT
from quarantine.core.law import Law
from quarantine.core.model import Node
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import InForce
from quarantine.core.state import fold
from tests.core.world import MINUTE, NOW, after, fleet, node, policy, quarantined, rules, snapshot

POOL = {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "provider": "acme"}
SPARE = {"name": "spare", "nodeSelector": {"spare": "yes"}, "provider": "other"}
LAW = rules()
HOUR = timedelta(hours=1)


def some(number: int, gpus: int | None = 8) -> dict[str, Node]:
    return {name: replace(n, gpus=gpus) for name, n in fleet(number).items()}


def said(nodes: Mapping[str, Node], state: State, now: datetime = NOW, law: Rules = LAW) -> list[Decision]:
    found = list(census_decisions(nodes, state, law, now, "controller test"))
    assert list(census_decisions(nodes, fold(state, found), law, now, "controller test")) == [], "said once"
    return found


def counted(number: int, gpus: int | None = 8, now: datetime = NOW) -> State:
    """A ledger whose last count was so."""
    return fold(State(), said(some(number, gpus), State(), now))


def test_a_first_count_is_recorded_at_once() -> None:
    (found,) = said(some(20), State())
    assert (found.kind, found.action, found.pool, found.provider) == (Kind.DECIDED, Action.COUNT, "gpu", "acme")
    assert found.census == Census(20, 160, NOW)
    assert found.reason == "pool gpu has 20 machines with 160 GPUs"
    assert fold(State(), [found]).pools == {"gpu": Census(20, 160, NOW)}


def test_gpus_count_where_nodes_tell_them() -> None:
    nodes = some(20, None) | {"node-3": node("node-3", gpus=4)}
    assert said(nodes, State())[0].census == Census(20, 4, NOW)
    (untold,) = said(some(1, None), State())
    assert untold.reason == "pool gpu has 1 machine"


def test_an_empty_pool_that_never_had_a_machine_is_not_worth_a_row() -> None:
    assert [d.pool for d in said(some(3), State(), law=rules(pools=[POOL, SPARE]))] == ["gpu"]


def test_a_change_with_weight_is_recorded_once_the_last_count_has_stood_for_a_while() -> None:
    state = counted(200)
    assert said(some(198), state, NOW + 9 * MINUTE) == []
    (found,) = said(some(198), state, NOW + 10 * MINUTE)
    assert found.census == Census(198, 198 * 8, NOW + 10 * MINUTE)
    assert found.reason == "pool gpu has 198 machines with 1584 GPUs; it had 200 machines with 1600 GPUs"


def test_a_small_change_waits_for_an_hour() -> None:
    state = counted(200)
    assert said(some(199), state, NOW + 59 * MINUTE) == []
    assert [d.census for d in said(some(199), state, NOW + HOUR)] == [Census(199, 199 * 8, NOW + HOUR)]
    assert said(some(200), state, NOW + HOUR) == [], "it is back"


def test_gpus_alone_never_make_haste() -> None:
    """A device plugin that restarts takes them all away for a moment, and no machine is gone."""
    state = counted(200)
    without = some(200) | {f"node-{n}": node(f"node-{n}") for n in range(100)}
    assert said(without, state, NOW + 59 * MINUTE) == []
    assert [d.census for d in said(without, state, NOW + HOUR)] == [Census(200, 800, NOW + HOUR)]
    assert said(some(200) | {"node-0": node("node-0", gpus=4)}, state, NOW + 9 * HOUR) == [], "4 of 1600 are no news"


def test_a_declared_size_counts() -> None:
    law = rules(pools=[{**POOL, "size": 64}])
    (found,) = said(some(20), State(), law=law)
    assert found.census == Census(64, 160, NOW)
    assert said(some(18), fold(State(), [found]), NOW + 10 * MINUTE, law) == []


def test_a_pool_that_is_no_more_has_no_machine_any_more() -> None:
    state = counted(20)
    renamed = rules(pools=[{**POOL, "name": "training"}])
    found = said(some(20), state, NOW + MINUTE, renamed)
    assert [(d.pool, d.census) for d in found] == [
        ("training", Census(20, 160, NOW + MINUTE)),
        ("gpu", Census(0, 0, NOW + MINUTE)),
    ]
    assert found[1].reason == "pool gpu has no machine any more; it had 20 machines with 160 GPUs"
    state = fold(state, found)
    assert said(some(20), state, NOW + 9 * HOUR, renamed) == []
    assert [d.pool for d in said(some(20), state, NOW + 9 * HOUR, rules(pools=[POOL]))] == ["gpu", "training"]


def test_what_stays_as_it_is_is_said_once_a_day() -> None:
    """A day without it is one in which nobody looked: see `quarantine trust`."""
    state = counted(200)
    assert said(some(200), state, NOW + UNCHANGED - MINUTE) == []
    (found,) = said(some(200), state, NOW + UNCHANGED)
    assert (found.census, found.reason) == (
        Census(200, 1600, NOW + UNCHANGED),
        "pool gpu still has 200 machines with 1600 GPUs",
    )
    gone = rules(pools=[{**POOL, "name": "training"}])
    state = fold(state, said(some(200), state, NOW + MINUTE, gone))
    again = said(some(200), state, NOW + MINUTE + UNCHANGED, gone)
    assert [d.pool for d in again] == ["training"], "what is no more is not said again"


def test_nothing_is_counted_where_nothing_is_seen() -> None:
    assert said({}, counted(20), NOW + 9 * HOUR) == []


def test_nothing_is_counted_while_the_cluster_is_not_believed() -> None:
    """The hold is recorded in the same plan in which the machines are gone."""
    state, nodes = quarantined("node-3", "node-4", "node-5", "node-6")
    law = Law.of(InForce(LAW, ()), None, 3)
    state = after(state, law.plan(snapshot(nodes, state=state, now=NOW)))
    assert state.pools["gpu"].nodes == 20
    other = {name: node(name) for name in ("other-1", "other-2")}
    look = snapshot(other, state=state, now=NOW + HOUR, given={})
    made = law.plan(look)
    assert HeldBy.SIGHT in {d.held_by for d in made.decisions}
    assert not any(d.action is Action.COUNT for d in made.decisions)
    state = after(state, made)
    assert SIGHT in state.holds
    assert state.pools["gpu"].nodes == 20


def test_a_machine_at_the_gate_is_none_of_the_pool_yet() -> None:
    gate = {"burnIn": "burn", "younger": "1h"}
    law = rules(pools=[{**POOL, "gate": gate}])
    state, nodes = quarantined()
    case = next(iter(state.cases.values()))
    state = replace(state, cases={case.id: replace(case, gate=True)})
    assert count(nodes, state, law, NOW)["gpu"].nodes == 19
    assert budget.accounts(nodes, state, law, NOW)["gpu"].budget.size == 19


@pytest.mark.parametrize("declared", [{}, {"size": 30}])
def test_it_counts_as_budgets_do(declared: dict[str, int]) -> None:
    state, nodes = quarantined()
    law = rules(pools=[{**POOL, **declared}, SPARE])
    sizes = {name: account.budget.size for name, account in budget.accounts(nodes, state, law, NOW).items()}
    assert {name: census.nodes for name, census in count(nodes, state, law, NOW).items()} == sizes


def test_planning_alone_counts_nothing() -> None:
    """The backtest plans without a law: what it finds is compared with what was decided about machines."""
    assert plan(snapshot(some(20)), rules(policy())).decisions == ()


steps = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 400), st.integers(0, 9)), max_size=30)


@given(first=st.integers(1, 400), history=steps)
@settings(max_examples=150, deadline=None)
def test_whatever_comes_and_goes_the_trail_is_right_within_bounds_and_not_flooded(
    first: int, history: list[tuple[int, int, int]]
) -> None:
    state, now = counted(first), NOW
    rows = []
    for minutes, number, gpus in history:
        now += minutes * MINUTE
        nodes = some(number, gpus)
        known = state.pools["gpu"]
        found = said(nodes, state, now)
        if found:
            at = {known.at + 10 * MINUTE, known.at + HOUR}
            assert any(moment <= now for moment in at & deadlines(state, LAW)), "the moment was announced"
            rows.append(now)
        state = fold(state, found)
        left, age = state.pools["gpu"], now - known.at
        if number and age >= 10 * MINUTE:
            assert abs(left.nodes - number) < max(1, known.nodes) * 0.01 or left.nodes == number
        if number and age >= HOUR:
            assert left.nodes == number
    gaps = [later - earlier for earlier, later in zip([NOW, *rows], rows, strict=False)]
    assert all(gap >= 10 * MINUTE for gap in gaps)
