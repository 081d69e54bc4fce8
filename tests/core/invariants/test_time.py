"""What time alone does to a world in which nothing happens: no more than was announced, and no endless talk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import settings

from quarantine.core.deadlines import deadlines
from quarantine.core.decision import State
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from tests.core.invariants.kube import PREFIX
from tests.core.invariants.swapping import bounded
from tests.core.invariants.test_life import Fleet
from tests.core.invariants.test_swaps import Swaps
from tests.core.invariants.world import World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
QUIET = 1000  # cycles
EACH = timedelta(seconds=15)
SETTLING = 40  # cycles in which what has happened takes its course
ROWS = 10  # for each open case, in the four hours that this takes: deadlines, and what is tried once an hour


class Quiet(Fleet):
    """Whatever has happened: when nothing more does, the trail does not grow with every cycle."""

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(SETTLING):
            self.then(EACH)
        world.checked, before = False, len(world.book.trail)
        for _ in range(QUIET):
            self.then(EACH)
        added = world.book.trail[before:]
        often = Counter((d.kind, d.action, d.case, d.hold_key, d.reason) for d in added).most_common(3)
        assert len(added) <= ROWS * (1 + len(world.open_cases())), f"{len(added)} rows: {often}"


@dataclass
class Dated(World):
    """Asks, after each plan, what a later one would decide if nothing happened before the next announced moment."""

    def planned(self, look: Snapshot, after: State) -> None:
        annotations = (key for node in look.nodes.values() for key in node.annotations)
        if any(key.startswith(PREFIX) and key.endswith("-until") for key in annotations):
            return  # the end of a word on a Node is no moment that the state dates
        ahead = [at for at in deadlines(after, self.law) if at > look.now]
        end = min(ahead, default=look.now + timedelta(days=30))
        for at in {look.now + (end - look.now) / 2, end - timedelta(seconds=1)}:
            if at > look.now:
                made = plan(replace(look, state=after, now=at), self.law)
                assert made.decisions == (), f"{at} was not announced: {[d.reason for d in made.decisions]}"


class Announced(Fleet):
    """Steps of a backtest in which nothing changed and no deadline is due may be skipped."""

    def made(self, law: Rules) -> World:
        return Dated(law)


class Promised(Swaps):
    """The same, where providers have deadlines, and people are asked."""

    def made(self, law: Rules) -> World:
        return Dated(law)


TestQuiet = Quiet.TestCase
TestQuiet.settings = settings(bounded(3), stateful_step_count=12)
TestAnnounced = Announced.TestCase
TestAnnounced.settings = settings(bounded(14), stateful_step_count=20)
TestPromised = Promised.TestCase
TestPromised.settings = settings(bounded(12), stateful_step_count=12)
