"""The story of a case: one sentence that says it all, and every row with what it rests on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core import explain
from quarantine.core.case import HeldBy, Phase, Proof
from quarantine.core.decision import Action, BudgetState, Decision, Kind, State
from quarantine.core.model import Verdict
from quarantine.core.record.chapters import Told, chapters, hardware, headline
from quarantine.core.record.trace import Trace
from quarantine.core.state import fold
from tests.core.record.lives import FOUND, HOUR, Row, numbered, warming, whole
from tests.core.treatment.life import Life, law
from tests.core.world import MINUTE, NOW, quarantined


def one(told: Told) -> str:
    (chapter,) = (c for c in told.chapters if c.case is not None)
    return headline(chapter)


# --- In one sentence --------------------------------------------------------------------------------------------------


def test_a_whole_case_in_one_sentence_in_the_order_of_time() -> None:
    assert one(chapters(whole())) == (
        "node-3 was taken out at 2026-11-29 12:00 UTC, because GPU 3 (GPU-node-3-3) on node-3 is above 78 °C for 5m, "
        "10% tolerated (84 °C now); its provider (acme) was told at 2026-11-29 12:00 UTC (ticket T-1, T-2); it was "
        "empty at 2026-11-29 12:01 UTC; another machine was asked for at 2026-11-29 12:11 UTC; another machine, or "
        "part, was in its place at 2026-11-29 17:00 UTC; released, and back in service at 2026-11-29 19:00 UTC"
    )


def test_an_open_case_and_one_that_was_never_acted_on() -> None:
    life = Life(law(ticket="report"))
    life.cycle()
    assert one(chapters(numbered(life.trail))).endswith("(ticket T-1); the case is open")
    (seq, first), *_ = numbered(life.trail)
    held = replace(
        first,
        kind=Kind.HELD,
        held_by=HeldBy.BUDGET,
        phase=Phase.SUSPECTED,
        effects=(),
        reason="the pool's budget is spent",
    )
    assert one(chapters([(seq, held)])) == (
        "node-3 was suspected at 2026-11-29 12:00 UTC and not taken out, held by budget: the pool's budget is spent; "
        "the case is open"
    )
    decided_only = chapters([(seq, first)])
    assert "was taken out at 2026-11-29 12:00 UTC, and not marked yet, because" in one(decided_only)


def test_only_what_was_known_then() -> None:
    """Of rows up to a moment everything is what it was then: the case is open, though it has ended since."""
    rows = whole()
    then = chapters(row for row in rows if row[1].at <= NOW + 11 * MINUTE)
    assert explain.standing("node-3", then.state).startswith("node-3 waits for its replacement since 2026-11-29 12:11")
    assert one(then).endswith("another machine was asked for at 2026-11-29 12:11 UTC; the case is open")
    assert explain.standing("node-3", chapters(rows).state).startswith("node-3 is in service; its last case")


@settings(deadline=None)
@given(st.data())
def test_every_beginning_of_a_trail_can_be_told(data: st.DataObject) -> None:
    rows = whole()[: data.draw(st.integers(0, 30))]
    told = chapters(rows)
    assert told.state == fold(State(), [d for _, d in rows])
    assert told.odd == ()
    assert sorted(row for chapter in told.chapters for row in chapter.rows) == sorted(rows) if rows else True
    assert all(headline(c) for c in told.chapters if c.case is not None)


def stray(number: int, case: str | None = None) -> Row:
    made = Decision(
        NOW + number * MINUTE, Kind.HELD, Action.QUARANTINE, f"held {number}", "c", node="node-3", case=case
    )
    return number, replace(made, held_by=HeldBy.NOT_IN_POOL)


def test_rows_of_no_case_stand_together_where_they_happened() -> None:
    rows = [stray(1), stray(2), *whole(), (200, stray(200)[1])]
    told = chapters(rows)
    assert [c.case is not None for c in told.chapters] == [False, True, False]
    assert [len(c.rows) for c in told.chapters] == [2, len(rows) - 3, 1]
    assert headline(told.chapters[0]) == ""


def test_a_row_that_does_not_follow_is_named_and_breaks_nothing() -> None:
    (_, first), *_ = whole()
    outcome = replace(first, kind=Kind.DONE, case="q-never-opened", phase=None)
    told = chapters([*whole(), (999, outcome)])
    assert told.odd == (999,)
    assert told.chapters[-1].case is None
    assert headline(told.chapters[0])


def test_the_hardware_by_all_of_its_names() -> None:
    state, _ = quarantined()
    (case,) = state.cases.values()
    assert hardware(case.machine).startswith("provider id acme://node-3, system UUID sys-node-3, Node uid uid-node-3")
    assert hardware(replace(case.machine, node_uid="", provider_id="", system_uuid="", gpus=())) == (
        "nothing is known of its hardware"
    )


# --- What a row rests on ----------------------------------------------------------------------------------------------


def evidence_of(decision: Decision) -> tuple[str, ...]:
    (sentence,) = explain.story([(7, decision)])
    return sentence.evidence


TAKEN = Decision(
    NOW,
    Kind.DECIDED,
    Action.QUARANTINE,
    "GPU 3 is hot",
    "controller 1",
    policy="gpu-hot",
    policy_hash="abcdef0123456789",
    policy_revision="1f2e3d4",
    evidence=replace(FOUND, trace=warming()),
    budget=BudgetState("gpu", 64, 3, 5, 2, 6, 8, 4, spares=1),
)


def test_everything_that_a_decision_rests_on_is_said() -> None:
    assert evidence_of(TAKEN) == (
        "measured 84 °C at 12:00:00 UTC, threshold above 78 °C for 5m, 10% tolerated; the policy saw 160 devices, 1 of "
        "them bad",
        "read from dcgm-exporter/DCGM_FI_DEV_GPU_TEMP (Hostname=node-3, gpu=3)",
        'query bad(temperature{cluster="a|b"})',
        "series kept: 60 points from 2026-11-29 11:30:30 to 12:00:00 UTC",
        "by policy gpu-hot (text abcdef012345, revision 1f2e3d4)",
        "pool gpu: 3 of 6 quarantined, 5 of 8 out for any reason, 2 of 4 within the hour, 64 in all, 1 in reserve",
    )


def test_why_there_is_no_series() -> None:
    without = replace(TAKEN, evidence=replace(FOUND, trace=Trace("q", note="Prometheus did not answer")))
    assert "no series was kept: Prometheus did not answer" in evidence_of(without)
    assert not any("series" in line for line in evidence_of(replace(TAKEN, evidence=FOUND)))


def test_a_verdict_without_a_value_has_its_threshold() -> None:
    absent = replace(TAKEN, evidence=replace(FOUND, value=None, threshold="absent for 5m"))
    assert evidence_of(absent)[0].startswith("absent for 5m, as seen at 12:00:00 UTC")


# --- What stands now --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (None, "its quiet counts since 2026-11-29 12:00 UTC"),
        (Proof(NOW + HOUR, Verdict.GOOD, NOW + HOUR), "its quiet counts since 2026-11-29 13:00 UTC"),
        (Proof(NOW + HOUR, Verdict.BAD, NOW + HOUR), "it is found bad since 2026-11-29 13:00 UTC"),
        (Proof(NOW, Verdict.UNKNOWN, NOW + HOUR), "it is not seen since 2026-11-29 13:00 UTC"),
    ],
)
def test_how_far_a_machine_on_probation_has_come(proof: Proof | None, said: str) -> None:
    state, _ = quarantined()
    (case,) = state.cases.values()
    case = replace(case, phase=Phase.PROBATION, phase_since=NOW, proof=proof)
    assert any(told.startswith(said) for told in explain.treatment(case))


def test_a_procedure_that_was_begun_is_told_with_its_beginning() -> None:
    life = Life(law(ladder=[{"do": "report"}], evidence="bug-report"))
    life.cycles(2)
    assert life.case.run is not None
    waiting = replace(life.case, runs=(replace(life.case.run, started_at=None),))
    begun = replace(life.case, runs=(replace(life.case.run, started_at=NOW + timedelta(minutes=3)),))
    assert not any("begun" in said for said in explain.treatment(waiting))
    assert any(said.endswith("begun at 2026-11-29 12:03 UTC") for said in explain.treatment(begun))
