"""When time alone may decide: everything that is dated, and every time that is counted from there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.deadlines import deadlines, waits
from quarantine.core.decision import Dismissal, State
from quarantine.core.model import Machine
from quarantine.core.planner import plan
from quarantine.core.rehearsal import Rehearsal
from tests.core.world import NOW, after, answers, fleet, hot, policy, rules, snapshot

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


machines = st.sets(st.integers(0, 3), max_size=4)
worked_on = st.just(set[int]()) | st.sets(st.integers(0, 3), max_size=1)


@given(
    history=st.lists(st.tuples(machines, st.booleans(), worked_on, st.integers(5, 40)), min_size=2, max_size=4),
    settle=st.sampled_from([{}, {"settle": "4m"}]),
)
@settings(max_examples=60, deadline=None)
def test_on_unchanged_answers_nothing_is_decided_but_at_a_deadline(
    history: list[tuple[set[int], bool, set[int], int]], settle: dict[str, str]
) -> None:
    """Racks of four in which machines turn bad, recover, and are worked on."""
    spec = {"by": ["rack"], "machines": 2, "within": "15m", **settle}
    law = rules(
        policy(correlation=spec, breaker={"maxShare": "100%"}),
        topology={"rack": "rack"},
        maintenance={"labels": {"work": "*"}},
    )
    state, now, minute = State(), NOW, timedelta(minutes=1)
    for bad, recovers, working, minutes in history:
        nodes = {
            name: replace(n, labels={**n.labels, "rack": f"r{i // 4}", **({"work": "x"} if i in working else {})})
            for i, (name, n) in enumerate(fleet().items())
        }
        cool = [hot(f"node-{n}", value=60) for n in range(4) if recovers and n not in bad]
        given_ = {"gpu-hot": answers(nodes, *(hot(f"node-{n}") for n in sorted(bad)), good=cool)}
        for number in range(minutes):
            made = plan(snapshot(nodes, state=state, now=now, given=given_), law)
            if number and made.decisions:
                assert any(now - minute <= at <= now for at in deadlines(state, law)), made.decisions
            state = after(state, made)
            now += minute
