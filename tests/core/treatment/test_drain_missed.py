"""Batches that were decided and never sent, by a pause or an outage: they are no interruption."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Phase
from quarantine.core.response import Drain, Moment
from tests.core.treatment.floor import Floor, asked, floor, gang, one, pod, rank
from tests.core.world import MINUTE, NOW

PATIENT = Drain(when=Moment.AFTER_CHECKPOINT)


def missed(*nodes: str) -> Floor:
    """A gang on these machines and on one that is not out: its batches are decided, and settled unsent hours later."""
    ranks = [rank(f"llama-{node}", node) for node in (*nodes, "node-9")]
    world = floor(*nodes, pods=ranks, drain=dict.fromkeys(nodes, PATIENT))
    world.gangs = {ranks[0].gang: gang(*ranks, checkpoint_at=NOW + timedelta(seconds=30))}
    assert asked(world.plan()) == [[f"llama-{node}"] for node in nodes]
    world.at += timedelta(hours=2)
    return world


@pytest.mark.parametrize("done", [True, False])
def test_a_gang_whose_batch_was_never_sent_is_asked_again_at_its_next_checkpoint(done: bool) -> None:
    world = missed("node-3", "node-4")
    for node in ("node-3", "node-4"):
        world.settle(world.case(node), done=done)
    assert world.plan() == []
    (key,) = world.gangs
    world.gangs = {key: replace(world.gangs[key], checkpoint_at=world.at)}
    assert asked(world.plan()) == [["llama-node-3"], ["llama-node-4"]]


def test_half_of_a_gang_that_is_out_already_lets_the_rest_go_at_once() -> None:
    world = missed("node-3", "node-4")
    for node in ("node-3", "node-4"):
        world.settle(world.case(node), done=False)
    world.pods = [p for p in world.pods if p.node != "node-3"]
    made = world.plan()
    assert world.phase("node-3") is Phase.DRAINED
    assert asked(made) == [["llama-node-4"]]


def test_training_that_stands_alone_waits_for_another_checkpoint_too() -> None:
    alone = replace(rank("alone", "node-3"), gang="", checkpoint_at=NOW + timedelta(seconds=30))
    world = one(alone, pod("web", "node-3"), when="after-checkpoint")
    assert asked(world.plan()) == [["web", "alone"]]
    world.at += timedelta(hours=2)
    world.settle(world.case("node-3"), done=True)
    assert asked(world.plan()) == [["web"]], "a service waits for nothing"
    world.carry_out()
    world.at += MINUTE
    world.pods = [replace(p, checkpoint_at=world.at) for p in world.pods if p.ref.name == "alone"]
    assert asked(world.plan()) == [["alone"]]
