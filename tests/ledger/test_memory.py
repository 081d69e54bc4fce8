"""How long the ledger remembers what ended: long enough to count what happens again."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Connection

from quarantine.core.case import Case, Phase
from quarantine.core.decision import State
from quarantine.core.planner import plan
from quarantine.ledger import projections
from quarantine.ledger.codec import decode_as
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


def test_which_cases_have_ended_is_read_once_and_kept_up_by_what_is_recorded(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode(url, NOW)
    reads: list[str] = []
    read = projections._ended

    def counting(connection: Connection, cluster: str) -> frozenset[str]:
        reads.append(cluster)
        return read(connection, cluster)

    def afresh(at: datetime) -> Set[str]:
        with open_ledger(url, CLUSTER, now=lambda: at) as other:
            return other.load().state.ended

    monkeypatch.setattr(projections, "_ended", counting)
    at = NOW + timedelta(days=1)
    with open_ledger(url, CLUSTER, now=lambda: at) as ledger:
        term = ledger.take_term("pod-2")
        for given in (answers(fleet(), hot("node-3")), answers(fleet(), good=[hot("node-3", value=60)])):
            at += timedelta(hours=1)
            look = snapshot(fleet(), state=ledger.load().state, now=at, given={"gpu-hot": given})
            ledger.record(term, plan(look, LAW).decisions)
        kept = ledger.load().state.ended
        assert (len(kept), len(reads)) == (2, 1), "once, however many cycles there are"
        assert kept == afresh(at)
        episode(url, NOW + timedelta(days=2))
        at = NOW + timedelta(days=3)
        assert len(ledger.load().state.ended) == 3, "another process has written"
        reads.clear()
        ledger.load()
        assert reads == []
        ledger.take_term("pod-2")
        ledger.load()
        assert reads == [CLUSTER], "a rebuild takes the term, and may have corrected the table"


def test_a_case_is_decoded_once_as_long_as_its_text_is_the_same(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def counting(kind: type[Case], text: str) -> Case:
        if kind is Case:
            decoded.append(text)
        return decode_as(kind, text)

    monkeypatch.setattr(projections, "decode_as", counting)
    episode(url, NOW)
    at = [NOW + timedelta(days=1)]
    with open_ledger(url, CLUSTER, now=lambda: at[0]) as ledger:
        decoded.clear()
        (first,) = ledger.load().state.cases.values()
        (second,) = ledger.load().state.cases.values()
        assert len(decoded) == 1
        assert second is first
        cycle(url, NOW + timedelta(days=2), answers(fleet(), hot("node-3")))
        decoded.clear()
        opened = next(case for case in ledger.load().state.cases.values() if case.open)
        assert len(decoded) == 1, "what another process wrote, and no more"
        cycle(url, NOW + timedelta(days=2, hours=1), answers(fleet(), good=[hot("node-3", value=60)]))
        assert not ledger.load().state.cases[opened.id].open, "another text is another case"
        at[0] = NOW + timedelta(days=60)
        assert ledger.load().state.cases == {}
        at[0] = NOW + timedelta(days=3)
        decoded.clear()
        assert len(ledger.load().state.cases) == len(decoded) == 2, "what was not loaded is not kept either"
