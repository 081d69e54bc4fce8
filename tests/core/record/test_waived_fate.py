"""A waiver says nothing of the machine, on the command line or as an annotation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.decision import Decision, RequestKind, State
from quarantine.core.model import Mode
from quarantine.core.planner import plan
from quarantine.core.record.milestones import Fate
from tests.core.record.recorded import record
from tests.core.world import MINUTE, NOW, after, ask, fleet, hot, rules, snapshot

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
