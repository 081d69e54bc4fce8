"""A case as people see it: what it waits for, who is affected, what others may not read, and which cases share one."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from quarantine.core import cards
from quarantine.core.cards import MOST_ALONE, TOGETHER, Card
from quarantine.core.case import Case, Effect, HeldBy, Phase, PodRef
from quarantine.core.decision import Action, Hold, State
from quarantine.core.state import fold
from quarantine.core.workload import Class, Pod
from tests.core import world
from tests.ledger.samples import NOW, quarantined

RULES = world.rules()


def taken_out(*minutes: int) -> State:
    """Cases c-1, c-2, … taken out so many minutes after the full hour."""
    return fold(
        State(),
        [
            replace(quarantined(n, effects=(Effect.NOTIFY,)), at=NOW + timedelta(minutes=at))
            for n, at in enumerate(minutes, 1)
        ],
    )


def card(case: Case, state: State, **more: object) -> Card:
    return cards.card(case, "lab", RULES, state, **more)  # type: ignore[arg-type]


def test_each_phase_has_its_words() -> None:
    assert set(cards.STANDS) == set(Phase)


def test_it_counts_no_time_that_passes() -> None:
    state = taken_out(0)
    assert card(state.cases["c-1"], state) == card(state.cases["c-1"], replace(state))


def test_holds_are_found_by_the_case_in_their_key() -> None:
    state = taken_out(0, 0)
    holds = [
        Hold("drain/c-1", HeldBy.DRAIN, "b", NOW + timedelta(1)),
        Hold("case/c-1", HeldBy.BUDGET, "a", NOW),
        Hold("gate/gpu", HeldBy.GATE, "c", NOW),
    ]
    found = cards.holds_of(replace(state, holds={hold.key: hold for hold in holds}))
    assert {case: [hold.reason for hold in of] for case, of in found.items()} == {"c-1": ["a", "b"]}


def test_who_waits_for_a_yes() -> None:
    state = taken_out(0)
    case = state.cases["c-1"]
    hold = Hold("approval/c-1", HeldBy.APPROVAL, "a yes", NOW)
    assert card(case, state, holds=(hold,)).asks
    assert not card(replace(case, phase=Phase.RELEASED), state, holds=(hold,)).asks


def test_what_is_not_known_of_workloads_is_not_said() -> None:
    state = taken_out(0)
    case, node = state.cases["c-1"], world.node("node-1", gpus=8)
    assert cards.affected(case, node, None) == ""
    assert cards.affected(case, node, ()) == "nothing runs there, and its 8 GPUs are idle"
    assert cards.affected(replace(case, phase=Phase.RELEASED), node, ()) == ""
    pod = Pod(PodRef("ml", "w-0", "u"), "node-1", Class.TRAINING, owner="Job ml/x")
    assert cards.affected(case, None, (pod,)) == "there runs training: Job ml/x"


SECRET = "inside-7f3a"


def test_what_others_read_holds_nothing_from_inside() -> None:
    state = taken_out(0)
    told = card(state.cases["c-1"], state).report
    inside = {f.name: SECRET for f in fields(told) if f.name in _INSIDE}
    faults = tuple(replace(f, policy=SECRET, why=SECRET, query=SECRET, labels=((SECRET, SECRET),)) for f in told.faults)
    report = replace(told, **inside, faults=faults, tried=(SECRET,))  # type: ignore[arg-type]
    made = Card(report, waits=(SECRET,), affected=SECRET)
    assert SECRET in str(made)
    others = cards.redacted(made)
    assert SECRET not in str(others)
    assert others.shared
    assert others.report.node == "node-1"
    assert "91.5 °C" in others.report.reason


_INSIDE = {
    *("reason", "done", "opened_by", "pool", "provider_contact", "history", "evidence_output", "approval"),
}


def test_only_more_than_may_stand_alone_are_a_storm() -> None:
    few = taken_out(*[1] * MOST_ALONE)
    assert all(cards.storm(few, case, RULES) == () for case in few.cases.values())
    many = taken_out(*[1] * (MOST_ALONE + 1))
    assert {len(cards.storm(many, case, RULES)) for case in many.cases.values()} == {MOST_ALONE + 1}


@given(st.lists(st.integers(0, 59), min_size=1, max_size=30))
def test_each_case_is_in_one_group_and_all_of_a_group_agree(minutes: list[int]) -> None:
    state = taken_out(*minutes)
    size = TOGETHER.seconds // 60
    for case in state.cases.values():
        together = cards.storm(state, case, RULES)
        same = [c for c in state.cases.values() if c.taken_out_at.minute // size == case.taken_out_at.minute // size]
        assert len(together) == (len(same) if len(same) > MOST_ALONE else 0)
        assert not together or case in together
        assert {cards.storm_key(other) for other in together} <= {cards.storm_key(case)}
        assert all(cards.storm(state, other, RULES) == together for other in together)


def test_the_group_stays_the_same_whatever_becomes_of_its_cases() -> None:
    state = taken_out(*[1] * (MOST_ALONE + 1))
    key = cards.storm_key(state.cases["c-1"])
    drained = replace(quarantined(1), action=Action.DRAIN, phase=Phase.DRAINED, at=NOW + timedelta(hours=3), effects=())
    later = fold(state, [drained])
    assert cards.storm_key(later.cases["c-1"]) == key
    assert len(cards.storm(later, later.cases["c-1"], RULES)) == MOST_ALONE + 1


def test_where_others_read() -> None:
    routes = [{"provider": "acme", "channel": "C0ACME", "shared": True}, {"severity": "fatal", "channel": "C0NIGHT"}]
    fleet = world.rules(routes=routes).fleet
    assert cards.is_shared("C0ACME", fleet)
    assert not cards.is_shared("C0NIGHT", fleet)
    assert not cards.is_shared("", fleet)
    assert not cards.is_shared("C0HOME", fleet, "C0HOME")
    assert cards.is_shared("C0ACME", fleet, "C0ACME"), "a route says so"
    assert cards.is_shared("C0GONE", fleet, "C0HOME"), "of what is not known any more the worst is taken"
