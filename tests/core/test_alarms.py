"""What wakes a person: gathered, so that one cause is one page, and stable, so that it is the same page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.alarms import MOST_TOLD, Alarm, Urgency, alarms, key_of, over
from quarantine.core.case import HeldBy
from quarantine.core.decision import Hold, State
from tests.core.world import NOW, quarantined, suspected


def standing(*holds: tuple[str, HeldBy], state: State | None = None) -> tuple[Alarm, ...]:
    known = {key: Hold(key, by, f"because of {key}", NOW + timedelta(minutes=n)) for n, (key, by) in enumerate(holds)}
    return alarms(replace(state or State(), holds=known), "training-a", NOW + timedelta(days=1))


def test_nothing_stands_nobody_is_woken() -> None:
    assert standing() == ()
    assert standing(("case/q-1", HeldBy.OBSERVE_MODE), ("remedy/q-1", HeldBy.READY)) == ()


def test_one_fabric_incident_is_one_page_and_a_second_one_another() -> None:
    found = standing(
        ("incident/ib/leaf/l1", HeldBy.CORRELATED),
        ("incident/ib/leaf/l2", HeldBy.CORRELATED),
        ("case/q-1", HeldBy.CORRELATED),
        ("case/q-2", HeldBy.CORRELATED),
    )
    assert [alarm.key for alarm in found] == [
        "quarantine/training-a/incident/ib/leaf/l1",
        "quarantine/training-a/incident/ib/leaf/l2",
    ]
    assert {alarm.urgency for alarm in found} == {Urgency.CRITICAL}


def test_deadlines_that_passed_are_gathered_since_the_first() -> None:
    (only,) = standing(("overdue/q-1/drained", HeldBy.OVERDUE), ("unapproved/q-2", HeldBy.OVERDUE))
    assert only.since == NOW
    assert only.summary == "training-a: cases wait for a person, 2 times"
    assert [name for name, _ in only.details] == ["overdue/q-1/drained", "unapproved/q-2"]


def test_a_budget_is_exhausted_by_pool() -> None:
    state = suspected("node-3", "node-4")
    held = [(f"case/{case}", HeldBy.BUDGET) for case in state.cases]
    (only,) = standing(*held, state=state)
    assert only.key == "quarantine/training-a/budget/gpu"
    assert "(pool gpu), 2 times" in only.summary


def test_what_is_told_as_a_whole_is_not_told_of_each_machine() -> None:
    (only,) = standing(("judge/gpu-hot", HeldBy.BREAKER), ("case/q-1", HeldBy.BREAKER))
    assert only.details == (("judge/gpu-hot", "because of judge/gpu-hot"),)


def test_many_are_told_by_number() -> None:
    (only,) = standing(*((f"overdue/q-{n}/drained", HeldBy.OVERDUE) for n in range(50)))
    assert len(only.details) == MOST_TOLD + 1
    assert only.details[-1][1].startswith("30: ")


def test_what_ended_is_cleared_once_for_each_alarm() -> None:
    ended = [
        ("incident/ib/leaf/l1", HeldBy.CORRELATED, ""),
        ("case/q-1", HeldBy.BUDGET, "gpu"),
        ("case/q-2", HeldBy.BUDGET, "gpu"),
        ("case/q-3", HeldBy.OBSERVE_MODE, "gpu"),
    ]
    found = over("training-a", ended, NOW)
    assert [(alarm.key.removeprefix("quarantine/training-a/"), alarm.urgency) for alarm in found] == [
        ("incident/ib/leaf/l1", Urgency.CRITICAL),
        ("budget/gpu", Urgency.ERROR),
    ]


def test_a_machine_that_is_merely_out_wakes_nobody() -> None:
    state, _ = quarantined()
    assert alarms(state, "training-a", NOW) == ()


def test_a_pace_that_frees_a_place_soon_wakes_nobody() -> None:
    state = suspected("node-3")
    (case,) = state.cases
    held = replace(state, holds={f"case/{case}": Hold(f"case/{case}", HeldBy.BUDGET, "the pace", NOW)})
    assert alarms(held, "training-a", NOW + timedelta(minutes=14)) == ()
    assert len(alarms(held, "training-a", NOW + timedelta(minutes=15))) == 1


@given(st.text(min_size=1, max_size=400), st.text(min_size=1, max_size=400))
def test_keys_fit_and_tell_apart(one: str, other: str) -> None:
    assert len(key_of("c", one)) <= 255
    assert (key_of("c", one) == key_of("c", other)) == (one == other)
