"""What stood in the way, as a backtest keeps it, is what the trail's own record of holds says."""

from __future__ import annotations

from dataclasses import replace

from quarantine.backtest.record import Record
from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.snapshot import Plan
from quarantine.core.state import fold
from tests.core.world import MINUTE, NOW


def test_what_is_held_again_by_the_same_goes_on_and_what_is_lifted_is_over() -> None:
    held = Decision(NOW, Kind.HELD, Action.JUDGE, "no answer", "t", policy="gpu-hot", hold_key="judge/gpu-hot")
    held = replace(held, held_by=HeldBy.NO_ANSWER)
    lifted = replace(held, at=NOW + 2 * MINUTE, kind=Kind.DECIDED, held_by=None)
    rows = (held, replace(held, at=NOW + MINUTE), lifted)
    record, state = Record({}), State()
    for row in rows:
        state = fold(state, [row])
        record.add(Plan(row.at, (row,), ""), state)
    (span,) = record.all_held()
    assert (span.policy, span.node, span.held_by) == ("gpu-hot", None, HeldBy.NO_ANSWER)
    assert (span.start, span.end) == (NOW, NOW + 2 * MINUTE)
    assert record.decisions == len(rows)
