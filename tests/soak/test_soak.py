"""The short form of `scripts/soak`, and that it finds leaks made on purpose, once the process has settled."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from quarantine.board import Board
from quarantine.core.decision import State
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from tests.soak.measure import Reading, growing
from tests.soak.run import Plan, Soaked, soak
from tests.soak.verdict import verdict
from tests.soak.world import Size

WARM, CLEAN, ALL = 20, 44, 60  # cycles: until it has settled, until it begins to leak, all
POLICIES = ("gpu-hot", "gpu-memory-hot", "nvlink-errors", "gpu-lost", "infiniband-link-down")
SIZE = Size(nodes=40, faults=0.5, gangs=4, budget="50%", policies=POLICIES)
PLAN = Plan(cycles=ALL, size=SIZE, step=timedelta(seconds=60), every=4, period=WARM, warm=WARM)
_LEAKED = f"{Snapshot.__module__}.{Snapshot.__qualname__}"
# Its whole life is the warm-up of a long one, so these two have no say here.
SETTLES_LATER = ("memory", "live Python objects")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass
class Leak:
    """Keeps, of every cycle from some moment on, what it saw and a connection, as a careless observer might."""

    stack: ExitStack
    begun: bool = False
    kept: list[Snapshot] = field(default_factory=list)

    def tell(self, snapshot: Snapshot) -> None:
        if self.begun:
            self.kept.append(snapshot)
            self.stack.enter_context(socket.socket())


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soaked]:
    real = Board.tell
    folder: Path = tmp_path_factory.mktemp("soak")
    with ExitStack() as stack:
        leak = Leak(stack)

        def tell(self: Board, snapshot: Snapshot, state: State, rules: Rules) -> list[str]:
            leak.tell(snapshot)
            return real(self, snapshot, state, rules)

        def said(reading: Reading) -> None:
            leak.begun = reading.cycle >= CLEAN

        stack.enter_context(patch.object(Board, "tell", tell))
        yield soak(PLAN, folder, said)


def test_every_cycle_ends_and_every_question_is_understood(soaked: Soaked) -> None:
    assert soaked.unforeseen == []
    assert soaked.troubles.get("ended", 0) >= 0.9 * ALL, soaked.errors
    told = soaked.readings[-1].told
    assert told["messages"] > 5
    assert told["tickets"] > 0
    assert told["names"] > PLAN.size.nodes, "nodes came under names that were never seen"


def test_the_soak_does_not_measure_what_it_keeps_itself(soaked: Soaked) -> None:
    """Readings by the hundred, each with the counts of a thousand types, would be the most of what grows."""
    assert len(soaked.readings) == ALL // PLAN.every
    assert not soaked.readings[-1].types.get(f"{Reading.__module__}.{Reading.__qualname__}")


def test_threads_descriptors_sockets_and_tables_stay_as_they_are(soaked: Soaked) -> None:
    clean = [one for one in soaked.readings if one.cycle <= CLEAN]
    assert [one.text for one in verdict(clean, WARM) if not one.good and not one.text.startswith(SETTLES_LATER)] == []


def test_a_leak_is_found(soaked: Soaked) -> None:
    """Of objects and of sockets; and of the objects it is told which."""
    leaking = [one for one in soaked.readings if one.cycle >= CLEAN]
    found = " ".join(one.text for one in verdict(leaking, CLEAN - 1) if not one.good)
    assert "live Python objects" in found
    assert "sockets" in found
    assert "descriptors" in found
    before = [one for one in soaked.readings if WARM < one.cycle <= CLEAN]
    assert _LEAKED in growing(leaking)
    assert _LEAKED not in growing(before)
