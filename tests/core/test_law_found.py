"""What once went wrong over several cycles of the law: plans that failed, or forgot what they did not know."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import HeldBy
from quarantine.core.census import MOST, census_decisions
from quarantine.core.decision import Action, Kind, RequestKind, State
from quarantine.core.law import Law
from quarantine.core.model import Mode
from quarantine.core.planner import plan
from quarantine.core.rulefiles import InForce
from quarantine.core.state import fold
from tests.core.world import (
    MINUTE,
    NOW,
    after,
    ask,
    fleet,
    marked,
    policy,
    quarantined,
    rules,
    snapshot,
)


def test_a_person_s_case_goes_on_in_a_pool_that_was_renamed_meanwhile() -> None:
    asked = [ask(RequestKind.OPEN, "node-3")]
    state = after(State(), plan(snapshot(mode=Mode.OBSERVE, requests=asked), rules()))
    renamed = rules(pools=[{"name": "gpu-h100", "nodeSelector": {"gpu": "yes"}}])
    made = plan(snapshot(state=state, now=NOW + MINUTE, mode=Mode.ENFORCE), renamed)
    assert next((d.action, d.pool) for d in made.decisions if d.node == "node-3") == (Action.QUARANTINE, "gpu-h100")


def test_a_ledger_of_versions_and_sizes_alone_knows_nothing_of_the_marks_on_the_cluster() -> None:
    _, nodes = quarantined("node-3")
    law, at = Law.of(InForce(rules(), ()), None, 0), NOW + timedelta(hours=1)
    unlisted = {name: node for name, node in nodes.items() if name != "node-3"}
    state = fold(State(), law.plan(snapshot(unlisted, state=State(), now=at)).decisions)
    assert state.versions
    assert state.recorded_until is None
    made = law.plan(snapshot(nodes, state=state, now=at + MINUTE)).decisions
    adopted = [(d.kind, d.held_by) for d in made if d.action is Action.ADOPT]
    assert adopted == [(Kind.HELD, HeldBy.RESTORED)]


def test_whose_a_mark_is_waits_a_cycle_where_a_case_of_its_node_ends() -> None:
    state, nodes = quarantined("node-3", "node-5")
    other = replace(next(iter(state.cases.values())), id="q-zz", node="node-7")
    known = replace(state, cases={**state.cases, "q-zz": other})
    strange = {**nodes, "node-7": marked(nodes["node-7"], known, "q-zz")}
    found_by = rules(policy("a"))
    now = NOW
    for seen, law in (({}, found_by), ({}, found_by), (nodes, found_by), (strange, replace(rules(), policies=()))):
        now += timedelta(hours=2)
        look = snapshot(seen, state=state, now=now)
        state = fold(state, plan(look, law).decisions)
        assert plan(replace(look, state=state), law).decisions == ()


def test_a_count_by_a_clock_that_was_ahead_does_not_stand_until_that_time() -> None:
    ahead = fold(State(), census_decisions(fleet(20), State(), rules(), NOW + timedelta(days=365), "controller"))
    assert list(census_decisions(fleet(5), ahead, rules(), NOW + timedelta(days=30), "controller"))


def test_no_size_is_larger_than_what_every_column_holds() -> None:
    nodes = {name: replace(node, gpus=9_000_000_000_000_000_000) for name, node in fleet(3).items()}
    pools = [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "size": 3_000_000_000}]
    made = next(census_decisions(nodes, State(), rules(pools=pools), NOW, "controller"))
    assert made.census is not None
    assert (made.census.nodes, made.census.gpus) == (MOST, MOST)
