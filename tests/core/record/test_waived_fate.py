"""A waiver says nothing of the machine, on the command line or as an annotation; a person's no to a suspicion does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Phase
from quarantine.core.decision import Decision, RequestKind, State
from quarantine.core.model import Mode
from quarantine.core.planner import plan
from quarantine.core.record.milestones import Fate
from tests.core.record.recorded import record
from tests.core.world import MINUTE, NOW, after, ask, fleet, hot, policy, rules, snapshot

HOUR = timedelta(hours=1)


def fate_after_a_waiver(*, by_person: bool, annotated: bool) -> Fate:
    """Of a suspicion, a person's or a policy's, that a waiver ends."""
    nodes, state, trail = fleet(), State(), list[Decision]()
    until = NOW + 4 * HOUR
    asked = [ask(RequestKind.OPEN, "node-3")] if by_person else []
    waived = [] if annotated else [replace(ask(RequestKind.WAIVE, "node-3", 2), at=NOW + 2 * MINUTE, until=until)]
    signed = {"quarantine.gpu/waived-until": f"{until:%Y-%m-%dT%H:%M:%SZ}"} if annotated else {}
    for number, requests in enumerate((asked, [], waived)):
        if number == 2:
            nodes = {**nodes, "node-3": replace(nodes["node-3"], annotations=signed)}
        found = [] if by_person else [hot("node-3")]
        at = NOW + number * MINUTE
        made = plan(snapshot(nodes, *found, state=state, mode=Mode.OBSERVE, now=at, requests=requests), rules())
        state = after(state, made)
        trail += made.decisions
    return record(trail).of("node-3").fate


@pytest.mark.parametrize("by_person", [True, False])
def test_it_says_the_same_by_either_way(by_person: bool) -> None:
    said = {fate_after_a_waiver(by_person=by_person, annotated=annotated) for annotated in (True, False)}
    assert said == {Fate.CONFIRMED if by_person else Fate.OPEN}


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
def test_a_person_s_no_to_a_suspicion_says_that_it_was_wrong(mode: Mode) -> None:
    """Whoever only observes has no other way to say so: no machine is out that could be put back."""
    trail, state = list[Decision](), State()
    for number, requests in enumerate(([], [ask(RequestKind.RELEASE, "node-3")], [])):
        at = NOW + number * MINUTE
        law = rules(policy(mode="observe"))
        made = plan(snapshot(fleet(), hot("node-3"), state=state, mode=mode, now=at, requests=requests), law)
        state = after(state, made)
        trail += made.decisions
    found = record(trail).of("node-3")
    assert (found.phase, found.out_at, found.fate) == (Phase.DISMISSED, None, Fate.REFUTED)
