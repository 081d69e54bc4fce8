"""What is remembered of coverage belongs to the policies in force: edits give policies other names for months."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.decision import State
from quarantine.core.model import Mode
from quarantine.ports import LedgerView
from tests.core.world import policy
from tests.test_observe import World, law, observer


def test_a_policy_that_is_in_force_no_more_is_forgotten() -> None:
    world = World({"": 8})
    ours = observer(world, law())
    for number in range(5):
        ours.rules = replace(law(), policies=(policy(name=f"gpu-hot-{number}"),))
        world.at += timedelta(seconds=15)
        ours.snapshot(LedgerView(State(), (), ()), cluster="c", mode=Mode.ENFORCE, actor="a")
    assert set(ours._questions._coverage) == {"gpu-hot-4"}
