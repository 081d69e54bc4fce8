"""What is read out of a trail holds whatever happens to a fleet, its people, its programs and its controllers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings

from quarantine.core.decision import Action
from quarantine.core.draft import case_key
from quarantine.core.policy import Rules
from quarantine.core.record.milestones import Fate
from tests.core.invariants.swapping import bounded
from tests.core.invariants.test_life import Fleet
from tests.core.invariants.world import World
from tests.core.record.lives import out_hours
from tests.core.record.recorded import Record, record, spans_are_sound, times_are_sound

SKEW = timedelta(minutes=2)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Recorded(Fleet):
    """The same fleet, whose plans are checked elsewhere."""

    def made(self, law: Rules) -> World:
        return World(law, checked=False)

    def teardown(self) -> None:
        """What the whole trail says."""
        trail = self.world.book.trail
        found = record(trail)
        assert found.state == self.world.state
        sound(found)
        cases_and_their_times_agree(found, {d.case for d in trail if d.action is Action.DISMISS and d.request})
        again = record(trail[:7]).add(trail[7:])
        assert (again.milestones, again.spans) == (found.milestones, found.spans), "a restart changes nothing"
        # Leaders whose clocks differ take turns.
        sound(record(replace(decision, at=decision.at - n % 3 * SKEW) for n, decision in enumerate(trail)))


def sound(found: Record) -> None:
    """What holds of every trail."""
    for known in found.milestones.values():
        times_are_sound(known)
    spans_are_sound(found)


def cases_and_their_times_agree(found: Record, answered: Set[str | None]) -> None:
    """What a case says of itself is what its milestones say, and its hold is its span.

    `answered`: cases that a person's no ended before their machines were out.
    """
    assert found.milestones.keys() == found.state.cases.keys()
    for case in found.state.cases.values():
        told = found.milestones[case.id][-1]
        assert (told.phase, told.ended_at is None) == (case.phase, case.open)
        assert (told.out_at is None) is (case.out_since is None)
        span = found.standing.get(case_key(case.id))
        assert (case.held_by if case.open else None) == (span.held_by if span is not None else None)
        if told.marked_at is not None and told.back_at is not None:
            hours = out_hours(told, told.marked_at, told.back_at)
            assert hours * timedelta(hours=1) == told.back_at - told.marked_at
        if told.fate is Fate.REFUTED:
            asked = told.out_at is not None or told.by_person or case.id in answered
            assert asked, "a suspicion of ours was put to nobody"
    for key, span in found.standing.items():
        if not key.startswith("case/"):
            assert found.state.holds[key].held_by is span.held_by
    assert {k for k in found.state.holds if not k.startswith("case/")} <= found.standing.keys()


TestRecorded = Recorded.TestCase
TestRecorded.settings = settings(bounded(40), stateful_step_count=30)
