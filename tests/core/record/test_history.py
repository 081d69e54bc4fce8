"""A history's cases in a line each: whatever part of a trail is told, each case is there once and nothing fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Machine
from quarantine.core.record.history import Cases

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
A, B = Machine("uid-1", "", "system-a"), Machine("uid-1", "", "system-b")


def decided(
    action: Action, minute: int, case: str, machine: Machine | None = A, phase: Phase | None = None
) -> Decision:
    at, reason = NOW + minute * MINUTE, f"{action} it"
    made = Decision(
        at, Kind.DECIDED, action, reason, "controller", node="node-1", machine=machine, case=case, phase=phase
    )
    return replace(made, effects=(Effect.MARK,)) if action is Action.QUARANTINE else made


def life(case: str) -> list[Decision]:
    """Taken out, marked, exchanged, put back."""
    marked = replace(decided(Action.QUARANTINE, 1, case), kind=Kind.DONE, effect=Effect.MARK, effects=())
    return [
        decided(Action.QUARANTINE, 0, case, phase=Phase.QUARANTINED),
        marked,
        decided(Action.SWAP, 2, case, B, Phase.SWAPPED),
        decided(Action.RELEASE, 3, case, B, Phase.RELEASED),
    ]


def test_a_case_is_told_from_its_beginning_to_its_end() -> None:
    cases = Cases()
    for decision in life("q-1"):
        cases.follow("east", decision)
    (line,) = cases.lines()
    assert line.text.startswith("node-1 was taken out at 2026-11-29 12:00 UTC")
    assert "released" in line.text
    assert (line.since, line.until, line.node) == (NOW, NOW + 3 * MINUTE, "node-1")
    assert line.phase is Phase.RELEASED
    assert line.times is not None
    assert line.times.swapped_at == NOW + 2 * MINUTE


def test_of_a_machine_that_was_sent_away_the_end_is_another_ones() -> None:
    cases = Cases()
    for decision in life("q-1")[:3]:
        cases.follow("east", decision)
    (line,) = cases.lines()
    assert line.text.endswith("; what came is system-uuid:system-b, and the case goes on with that")
    assert "open" not in line.text


def test_of_a_machine_that_came_the_beginning_is_another_ones() -> None:
    cases = Cases()
    for decision in life("q-1")[2:]:
        cases.follow("east", decision)
    (line,) = cases.lines()
    assert line.times is None
    assert line.text == (
        "node-1 had this case already when this hardware came in exchange, at 2026-11-29 12:02 UTC; "
        "released at 2026-11-29 12:03 UTC"
    )


def test_what_is_first_seen_within_a_case_did_not_open_it() -> None:
    cases = Cases()
    for decision in (life("q-1")[1], decided(Action.PROVE, 2, "q-1", phase=Phase.PROBATION)):
        cases.follow("east", decision)
    (line,) = cases.lines()
    assert (line.times, line.phase) == (None, Phase.PROBATION)
    assert line.text == "node-1 had this case already when this hardware was first seen there, at 2026-11-29 12:01 UTC"


def test_a_case_of_the_same_id_in_another_cluster_is_another_case() -> None:
    cases = Cases()
    for cluster in ("west", "east"):
        cases.follow(cluster, life("q-1")[0])
    assert [line.cluster for line in cases.lines()] == ["east", "west"]


@given(
    st.lists(st.tuples(st.sampled_from(["east", "west"]), st.sampled_from([*life("q-1"), *life("q-2")])), max_size=12)
)
def test_any_part_of_a_trail_in_any_order_is_told(rows: list[tuple[str, Decision]]) -> None:
    cases = Cases()
    for cluster, decision in rows:
        cases.follow(cluster, decision)
    lines = cases.lines()
    assert {(line.cluster, line.id) for line in lines} == {(cluster, decision.case) for cluster, decision in rows}
    assert len({(line.cluster, line.id) for line in lines}) == len(lines)
    for line in lines:
        assert line.since <= line.until
        assert line.text
