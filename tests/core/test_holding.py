"""What holds a node is told with where it stands: of its case, of its name, and nothing of others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core import upkeep, waivers
from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Hold, State
from quarantine.core.draft import case_key
from quarantine.core.holding import MOST, OF_NODE, held, holds_of
from quarantine.core.state import evolve
from tests.core.world import NOW
from tests.ledger.samples import quarantined

TAKEN = evolve(State(), quarantined(1))  # node-1, in case c-1


def hold(
    key: str, by: HeldBy = HeldBy.SAME_MACHINE, reason: str = "the same machine is back.", minute: int = 0
) -> Hold:
    return Hold(key, by, reason, NOW + timedelta(minutes=minute))


def standing(*holds: Hold, state: State = TAKEN) -> State:
    return replace(state, holds={one.key: one for one in holds})


@pytest.mark.parametrize(
    "key", ["same/c-1", "provider/c-1/answer", "node/node-1", "returned/node-1", "mark/node-1", "annotation/node-1/x"]
)
def test_what_is_held_is_told_with_its_reason(key: str) -> None:
    assert held("node-1", standing(hold(key))) == "; held by same-machine: the same machine is back"
    assert [one.key for one in holds_of("node-1", standing(hold(key)))] == [key]


@pytest.mark.parametrize(
    "key",
    [
        "same/c-10",
        "node/node-10",
        "judge/node-1",
        "gate/node-1",
        "rules/node-1",
        "stray/node-1",
        "incident/hot/rack/node-1",
        "c-1",
        "node-1",
    ],
)
def test_what_is_of_others_is_not(key: str) -> None:
    """A policy, a pool or a file may be called like a node."""
    assert held("node-1", standing(hold(key))) == ""


def test_without_a_case_the_node_s_own_are_told() -> None:
    nothing = standing(hold("node/node-1", HeldBy.IGNORED, "the node carries the opt-out label"), state=State())
    assert held("node-1", nothing) == "; held by ignored: the node carries the opt-out label"
    assert held("node-2", nothing) == ""


def test_what_the_case_says_itself_is_not_said_twice() -> None:
    suspect = replace(TAKEN.cases["c-1"], phase=Phase.SUSPECTED, held_by=HeldBy.BUDGET)
    state = standing(hold(case_key("c-1"), HeldBy.BUDGET, "no room"), state=replace(TAKEN, cases={"c-1": suspect}))
    assert held("node-1", state) == ""
    assert [one.held_by for one in holds_of("node-1", state)] == [HeldBy.BUDGET]


def test_a_few_are_told_the_oldest_first_and_the_rest_counted() -> None:
    state = standing(*(hold(f"provider/c-1/{n}", reason=f"reason {n}", minute=9 - n) for n in range(MOST + 2)))
    said = held("node-1", state)
    assert said.startswith("; held by same-machine: reason 4; held by same-machine: reason 3;")
    assert said.endswith("; and 2 more holds")


def test_keys_of_nodes_are_those_that_the_planner_writes() -> None:
    assert {upkeep._MARK, waivers._BROKEN} <= set(OF_NODE)
