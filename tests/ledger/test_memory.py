"""How long the ledger remembers what ended: long enough to count what happens again."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quarantine.core.case import Phase
from quarantine.core.decision import State
from quarantine.core.planner import plan
from quarantine.ledger import projections
from quarantine.ledger.engine import make_engine, reading
from quarantine.ledger.store import open_ledger
from tests.core.world import NOW, answers, fleet, hot, policy, rules, snapshot, told

CLUSTER = "test"
LAW = rules(policy(escalation={"findings": 3, "within": "27d"}))


def episode(url: str, at: datetime) -> None:
    """Found bad, and good an hour later; each cycle in a process of its own."""
    bad = answers(fleet(), hot("node-3"))
    good = answers(fleet(), good=[hot("node-3", value=60)])
    for when, given in ((at, bad), (at + timedelta(hours=1), good)):
        cycle(url, when, given)


def cycle(url: str, at: datetime, given: object) -> list[tuple[str, str | None, str | None]]:
    with open_ledger(url, CLUSTER, now=lambda: at) as ledger:
        term = ledger.take_term("pod-1")
        look = snapshot(fleet(), state=ledger.load().state, now=at, given={"gpu-hot": given})  # type: ignore[dict-item]
        made = plan(look, LAW)
        ledger.record(term, made.decisions)
        return told(made)


def test_an_escalation_counts_across_restarts_as_far_back_as_it_may_look(url: str) -> None:
    episode(url, NOW)
    episode(url, NOW + timedelta(days=13))
    third = cycle(url, NOW + timedelta(days=26), answers(fleet(), hot("node-3")))
    assert third[0] == ("quarantine", "node-3", None)


@pytest.mark.parametrize(("days", "remembered"), [(27, True), (29, False)])
def test_a_case_that_ended_is_loaded_for_four_weeks(url: str, days: int, remembered: bool) -> None:
    episode(url, NOW)
    engine = make_engine(url)
    with reading(engine) as connection:
        state: State = projections.load(connection, CLUSTER, NOW + timedelta(days=days))
    engine.dispose()
    assert bool(state.cases) is remembered
    assert len(state.ended) == 1, "its id is never forgotten"
    assert all(case.phase is Phase.DISMISSED for case in state.cases.values())
