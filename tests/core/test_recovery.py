"""What recovers before its machine was marked: the suspicion ends, and so does whatever the mark had begun."""

from __future__ import annotations

from quarantine.core.case import Effect, EffectStatus, Phase
from quarantine.core.decision import State
from quarantine.core.planner import plan
from tests.core.world import MINUTE, NOW, after, answers, fleet, hot, rules, snapshot, suspected, told


def test_a_mark_whose_outcome_is_not_known_is_taken_away_with_the_suspicion() -> None:
    """The controller ended between the write and its record: the taint may be there."""
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, hot("node-3")), rules()))
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, state=state, given=given, now=NOW + MINUTE), rules())
    assert told(made) == [("recover", "node-3", None), ("dismiss", "node-3", None)]
    (case,) = after(state, made).cases.values()
    assert case.phase is Phase.DISMISSED
    pending = {effect for effect, told_ in case.effects.items() if told_.status is EffectStatus.PENDING}
    assert {Effect.UNMARK, Effect.CONDITION} <= pending
    assert Effect.MARK not in pending


def test_of_a_suspicion_that_touched_nothing_nothing_is_taken_away() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, state=suspected(), given=given, now=NOW + MINUTE), rules())
    assert told(made) == [("recover", "node-3", None), ("dismiss", "node-3", None)]
    assert all(d.effects == () for d in made.decisions)


def test_planned_work_suspends_recoveries_too() -> None:
    nodes = fleet()
    law = rules(maintenance={"labels": {"gpu": "yes"}})
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    assert plan(snapshot(nodes, state=suspected(), given=given, now=NOW + MINUTE), law).decisions == ()
