"""A machine that was sent away and is in service again, unmarked: people are told, and it is left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Request, RequestKind
from quarantine.core.model import Node
from tests.core.treatment.life import ON_PROOF, REPLACE, Life, asked, law
from tests.core.world import NOW, fleet, node

DAY = timedelta(days=1)


def gone() -> tuple[Life, Node]:
    """node-3 was to be replaced, left, and did not come back within its time: its case is retired."""
    life = Life(law(ladder=[REPLACE], release=ON_PROOF))
    life.cycles(2)
    sent, life.hot = life.nodes.pop("node-3"), False
    life.cycle()
    life.wait(8 * DAY)
    assert (life.phase(), life.state.holds) == (Phase.RETIRED, {})
    return life, sent


def comes(life: Life, sent: Node, name: str) -> None:
    """The machine joins, as a new Node object."""
    life.nodes[name] = node(name, machine=replace(sent.machine, node_uid=f"uid-{name}-2", boot_id="boot-2"))


def told(life: Life) -> list[str]:
    return [hold.reason for key, hold in life.state.holds.items() if key.startswith("returned/")]


@pytest.mark.parametrize("name", ["node-3", "node-77"])
def test_it_is_told_under_whatever_name_and_nothing_is_done_to_it(name: str) -> None:
    life, sent = gone()
    comes(life, sent, name)
    made = life.cycle()
    assert [(d.held_by, d.node) for d in made] == [(HeldBy.SAME_MACHINE, name)]
    assert f"{name} is the machine that was sent away from node-3 (case {life.case.id})" in made[0].reason
    assert life.cycles(5) == [], "once"
    life.nodes.pop(name)
    life.cycle()
    assert told(life) == []


def test_no_other_machine_is_told() -> None:
    life, _ = gone()
    life.nodes["node-3"] = node("node-3", machine=replace(node("node-3").machine, node_uid="u", system_uuid="sys-new"))
    assert life.cycle() == []


def test_a_uuid_that_many_nodes_show_tells_no_machine() -> None:
    life, sent = gone()
    for name in ("node-3", "node-77"):
        comes(life, sent, name)
    assert life.cycle() == []


def test_a_person_who_looks_after_it_is_told_no_more() -> None:
    life, sent = gone()
    comes(life, sent, "node-3")
    life.cycle()
    life.cycle(replace(asked(RequestKind.OPEN), at=life.at))
    assert told(life) == []
    life.cycle()
    life.cycle(replace(asked(RequestKind.RELEASE, 2), at=life.at))
    assert life.phase() is Phase.RELEASED
    life.cycles(3)
    assert told(life) == [], "it was put in service since"


def test_what_was_exchanged_and_stands_elsewhere_is_told_too() -> None:
    life = Life(law(ladder=[REPLACE], release=ON_PROOF), nodes={**fleet()})
    life.cycles(2)
    sent, life.hot = life.nodes["node-3"], False
    life.nodes["node-3"] = node("node-3", machine=replace(sent.machine, node_uid="u", provider_id="p", system_uuid="s"))
    life.cycles(3)
    comes(life, sent, "node-77")
    life.cycle()
    assert len(told(life)) == 1
    life.cycle(Request("p9", RequestKind.OPEN, "node-77", "it was not repaired", "an engineer", "cli", NOW))
    assert told(life) == []
