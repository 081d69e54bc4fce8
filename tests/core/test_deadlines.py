"""When time alone may decide: everything that is dated, and every time that is counted from there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quarantine.core.deadlines import deadlines, waits
from quarantine.core.decision import Dismissal, State
from quarantine.core.model import Machine
from quarantine.core.rehearsal import Rehearsal
from tests.core.world import NOW, answers, fleet, hot, policy, rules

HOUR = timedelta(hours=1)


def test_what_a_policy_counts_is_waited_for() -> None:
    counted: dict[str, Any] = {
        "escalation": {"findings": 3, "within": "13h"},
        "correlation": {"by": ["rack"], "within": "17m", "settle": "3m"},
        "grace": {"boot": "23m", "driver": "29m"},
    }
    found = waits(rules(policy(**counted), topology={"rack": "rack"}))
    minutes = {wait / timedelta(minutes=1) for wait in found}
    assert minutes >= {13 * 60, 17, 3, 23, 29, 60, 10, 14 * 24 * 60, 7 * 24 * 60}


def test_a_place_in_the_pace_and_a_phase_pass() -> None:
    known = rules()
    rehearsal = Rehearsal(known, fleet())
    rehearsal.step(NOW, {"gpu-hot": answers(fleet(), hot("node-3"))})
    found = deadlines(rehearsal.state, known)
    assert {NOW + HOUR, NOW + timedelta(days=7)} <= found


def test_a_persons_word_ends() -> None:
    until = NOW + timedelta(days=3)
    state = State(dismissals=(Dismissal("node-1", Machine("u"), (), until, "no fault found"),))
    assert deadlines(state, rules()) == {until}
