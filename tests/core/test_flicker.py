"""What comes and goes with every answer fills no ledger: a hold is told again when its cause changes, not its sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, RequestKind, State
from quarantine.core.draft import QUIET
from quarantine.core.model import Mode, Node, PolicyAnswers, Sample, Samples
from quarantine.core.planner import plan
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.strays import STRAYS_NAMED
from tests.core.world import (
    DOWNED,
    FAILED,
    MINUTE,
    NOW,
    after,
    answers,
    ask,
    flapping,
    fleet,
    hot,
    node,
    policy,
    quarantined,
    rules,
    snapshot,
    told,
)

CYCLE = timedelta(seconds=14)
WORK = {"annotations": {"ops/work": "*"}}


def through(
    law: Rules,
    nodes: Mapping[str, Node],
    cycles: Sequence[Mapping[str, PolicyAnswers]],
    state: State | None = None,
    mode: Mode = Mode.ENFORCE,
) -> tuple[State, list[Decision]]:
    """Cycle after cycle: what is known at the end, and all rows. No cycle has more to say when it is planned again."""
    known, rows = state or State(), list[Decision]()
    for number, answered in enumerate(cycles):
        look = snapshot(nodes, given=answered, state=known, mode=mode, now=NOW + number * CYCLE)
        made = plan(look, law)
        rows += made.decisions
        known = after(known, made)
        assert plan(replace(look, state=known), law).decisions == (), "planning twice yields nothing new"
    return known, rows


def flickering(nodes: Mapping[str, Node], *bad: Sample, count: int = 40) -> list[dict[str, PolicyAnswers]]:
    """Found in every other cycle."""
    return [{"gpu-hot": answers(nodes, *(() if number % 2 else bad))} for number in range(count)]


def at_work(nodes: Mapping[str, Node], *names: str) -> dict[str, Node]:
    worked_on = {name: replace(nodes[name], annotations={**nodes[name].annotations, "ops/work": "x"}) for name in names}
    return {**nodes, **worked_on}


# --- Policies ---------------------------------------------------------------------------------------------------------


def test_a_policy_that_finds_too_much_whenever_it_is_answered_is_not_told_of_each_time() -> None:
    nodes = fleet()
    blind = {"gpu-hot": answers(nodes, trigger=FAILED)}
    all_hot = {"gpu-hot": answers(nodes, *(hot(name, gpu) for name in nodes for gpu in range(8)))}
    cycles = [blind if number % 2 else all_hot for number in range(int(timedelta(hours=1) / CYCLE))]
    _, rows = through(rules(), nodes, cycles)
    assert len(rows) <= 6


# --- Held cases -------------------------------------------------------------------------------------------------------

WATCHED, TOLD = policy("gpu-hot", mode="observe"), policy("gpu-warm", severity="warning", response={"taint": False})


def two(nodes: Mapping[str, Node], *, hot_too: bool, good: bool = False) -> dict[str, PolicyAnswers]:
    """GPU 2 is warm throughout; GPU 1 is hot, not found, or good again."""
    well = [hot("node-0", 1, 60.0)] if good else []
    return {
        "gpu-hot": answers(nodes, *([hot("node-0", 1)] if hot_too else []), good=well),
        "gpu-warm": answers(nodes, hot("node-0", 2)),
    }


def test_the_strongest_finding_of_a_held_case_says_why_also_while_it_is_not_found() -> None:
    nodes = fleet()
    cycles = [two(nodes, hot_too=number % 2 == 0) for number in range(40)]
    state, rows = through(rules(WATCHED, TOLD), nodes, cycles)
    assert [(row.action, row.held_by) for row in rows] == [("quarantine", HeldBy.OBSERVE_MODE), ("join", None)]
    case = state.open_case_of("node-0")
    assert case is not None
    assert case.held_by is HeldBy.OBSERVE_MODE


def test_once_it_is_good_again_the_next_one_says_why() -> None:
    nodes = fleet()
    cycles = [two(nodes, hot_too=True), two(nodes, hot_too=False), two(nodes, hot_too=False, good=True)]
    state, rows = through(rules(WATCHED, TOLD), nodes, cycles)
    assert [(row.action, row.held_by) for row in rows[-2:]] == [("recover", None), ("quarantine", HeldBy.TELLS_ONLY)]
    assert state.open_case_of("node-0").held_by is HeldBy.TELLS_ONLY  # type: ignore[union-attr]


def test_another_cause_is_told_though_the_finding_is_not_there_now() -> None:
    nodes = fleet()
    state, _ = through(rules(WATCHED, TOLD), nodes, [two(nodes, hot_too=True)])
    telling = rules(policy("gpu-hot", response={"taint": False}), TOLD)
    later, rows = through(telling, nodes, [two(nodes, hot_too=False)] * 3, state)
    (row,) = rows
    assert (row.policy, row.held_by, row.verdict) == ("gpu-hot", HeldBy.TELLS_ONLY, "unknown")
    assert row.reason == (
        "policy gpu-hot found GPU 1 (GPU-node-0-1) on node-0 bad, and it is not known to be good; "
        "held because policy gpu-hot takes no machine out"
    )
    assert len(later.open_case_of("node-0").findings) == 2  # type: ignore[union-attr]


def test_only_what_is_found_now_is_acted_on() -> None:
    nodes = fleet()
    state, _ = through(rules(WATCHED, TOLD), nodes, [two(nodes, hot_too=True)])
    enforcing = rules(policy("gpu-hot"), TOLD)
    state, rows = through(enforcing, nodes, [two(nodes, hot_too=False)] * 3, state)
    assert rows == [], "nothing stands in its way but that it is not seen"
    made = plan(snapshot(nodes, given=two(nodes, hot_too=True), state=state), enforcing)
    assert told(made)[0] == ("quarantine", "node-0", None)


def test_a_group_that_is_found_in_every_other_cycle_stays_the_suspect() -> None:
    nodes = {n: replace(x, labels={"gpu": "yes", "dc/rack": f"r{i // 4}"}) for i, (n, x) in enumerate(fleet().items())}
    shared = {"by": ["rack"], "machines": 3, "within": "15m", "settle": "20m"}
    law = rules(policy("gpu-hot", correlation=shared), TOLD, topology={"rack": "dc/rack"})
    warm = answers(nodes, *(hot(f"node-{number}", 2) for number in range(3)))
    rack = [hot(f"node-{number}", 1) for number in range(3)]
    cycles = [{"gpu-hot": answers(nodes, *([] if n % 2 else rack)), "gpu-warm": warm} for n in range(20)]
    state, rows = through(law, nodes, cycles)
    assert [row.held_by for row in rows if row.action == "quarantine"] == [HeldBy.CORRELATED] * 3
    assert {case.held_by for case in state.cases.values()} == {HeldBy.CORRELATED}


def test_what_a_blind_policy_found_keeps_saying_why() -> None:
    nodes = fleet()
    state, _ = through(rules(WATCHED, TOLD), nodes, [two(nodes, hot_too=True)])
    blind = {**two(nodes, hot_too=False), "gpu-hot": answers(nodes, trigger=FAILED)}
    state, rows = through(rules(policy("gpu-hot", response={"taint": False}), TOLD), nodes, [blind] * 2, state)
    assert [row.held_by for row in rows] == [HeldBy.NO_ANSWER]


# --- Nodes without a case ---------------------------------------------------------------------------------------------


def test_a_finding_that_flickers_during_planned_work_is_told_once() -> None:
    nodes = at_work(fleet(), "node-5")
    state, rows = through(rules(maintenance=WORK), nodes, flickering(nodes, hot("node-5")))
    assert [row.held_by for row in rows] == [HeldBy.MAINTENANCE]
    over = plan(snapshot(None, state=state, now=NOW + MINUTE), rules(maintenance=WORK))
    assert over.decisions[0].reason == "node-5 may be acted on again"
    assert after(state, over).holds == {}


def test_a_further_finding_that_flickers_on_a_quarantined_node_at_work_is_told_once() -> None:
    state, nodes = quarantined("node-5")
    nodes = at_work(nodes, "node-5")
    cycles = [{"gpu-hot": answers(nodes, hot("node-5"), *([] if n % 2 else [hot("node-5", 6)]))} for n in range(40)]
    _, rows = through(rules(maintenance=WORK), nodes, cycles, state)
    assert [row.held_by for row in rows] == [HeldBy.MAINTENANCE]


@pytest.mark.parametrize("count", [40, 400])
def test_one_on_an_opted_out_node_is_told_every_ten_minutes_at_most(count: int) -> None:
    nodes = fleet()
    law = rules(never_touch=["node-5"])
    _, rows = through(law, nodes, flickering(nodes, hot("node-5"), count=count))
    assert {row.held_by for row in rows} <= {HeldBy.IGNORED, None}
    assert len(rows) <= 1 + 2 * (count * CYCLE // QUIET)


def test_it_is_forgotten_once_nothing_is_found_there_for_a_while() -> None:
    nodes = fleet()
    law = rules(never_touch=["node-5"])
    state, _ = through(law, nodes, flickering(nodes, hot("node-5"), count=1))
    look = snapshot(nodes, state=state, now=NOW + QUIET)
    assert plan(replace(look, now=look.now - CYCLE), law).decisions == ()
    made = plan(look, law)
    assert [d.reason for d in made.decisions] == ["nothing is found bad on node-5 any more"]
    assert after(state, made).holds == {}


def test_another_policy_that_sees_nothing_keeps_no_hold_of_a_node_but_its_own_does() -> None:
    nodes = fleet()
    law = rules(policy(), flapping(), never_touch=["node-5"])
    nothing = answers(nodes, coverage=Samples((), "c"), key=DOWNED)
    first = plan(snapshot(nodes, given={"gpu-hot": answers(nodes, hot("node-5")), "ib-flapping": nothing}), law)
    known = after(State(), first)
    later = NOW + QUIET
    calm = {"gpu-hot": answers(nodes), "ib-flapping": nothing}
    lifted = plan(snapshot(nodes, given=calm, state=known, now=later), law)
    assert "node/node-5" not in after(known, lifted).holds
    blind = {"gpu-hot": answers(nodes, coverage=Samples((), "c")), "ib-flapping": answers(nodes, key=DOWNED)}
    kept = plan(snapshot(nodes, given=blind, state=known, now=later), law)
    assert "node/node-5" in after(known, kept).holds


def test_what_a_person_left_alone_is_held_until_the_word_ends() -> None:
    state, nodes = quarantined("node-5")
    nodes = {**nodes, "node-5": node("node-5")}
    state = after(state, plan(snapshot(nodes, state=state, requests=[ask(RequestKind.RELEASE, "node-5")]), rules()))
    state, rows = through(rules(), nodes, flickering(nodes, hot("node-5")), state)
    assert [row.held_by for row in rows if row.action is not Action.WITHDRAW] == [HeldBy.DISMISSED]
    over = plan(snapshot(nodes, state=state, now=NOW + timedelta(days=8)), rules())
    said = [d.reason for d in over.decisions if d.action is not Action.WITHDRAW]
    assert said == ["node-5 may be acted on again"]


# --- What is no node here ---------------------------------------------------------------------------------------------


def test_a_stray_that_flickers_is_told_once_and_forgotten_after_a_while() -> None:
    nodes = fleet()
    state, rows = through(rules(), nodes, flickering(nodes, hot("ghost-1")))
    assert [row.held_by for row in rows] == [HeldBy.NO_SUCH_NODE]
    gone = plan(snapshot(nodes, state=state, now=NOW + QUIET), rules())
    assert after(state, gone).holds == {}


def test_the_strays_that_are_named_stay_so_while_another_comes_and_goes() -> None:
    nodes = fleet()
    ghosts = [hot(f"ghost-{number:02}") for number in range(1, STRAYS_NAMED + 4)]
    cycles = [
        {"gpu-hot": answers(nodes, *(ghosts if number % 2 else [hot("ghost-00"), *ghosts[1:]]))} for number in range(40)
    ]
    state, rows = through(rules(), nodes, cycles)
    assert len(rows) == STRAYS_NAMED + 1
    assert len([key for key in state.holds if not key.endswith("*")]) == STRAYS_NAMED


# --- Over any history -------------------------------------------------------------------------------------------------

NODES = 8
RACKED = {"topology": {"rack": "dc/rack"}, "maintenance": WORK, "never_touch": ["node-7"]}
hots = st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(0, 1)), max_size=6)
warms = st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(2, 3)), max_size=6)
ghosts = st.sets(st.integers(0, 2))
hot_ones = st.builds(
    policy,
    st.just("gpu-hot"),
    mode=st.sampled_from(["observe", "enforce"]),
    breaker=st.just({"maxShare": "100%"}),
    correlation=st.sampled_from([None, {"by": ["rack"], "machines": 2, "within": "15m", "settle": "1m"}]),
)
warm_ones = st.builds(
    policy,
    st.just("gpu-warm"),
    severity=st.sampled_from(["warning", "fatal"]),
    breaker=st.just({"maxShare": "100%"}),
    escalation=st.sampled_from([None, {"findings": 3, "within": "24h"}]),
    response=st.sampled_from([{"ticket": "report"}, {"taint": False}]),
)


@given(
    law=st.tuples(hot_ones, warm_ones),
    worked_on=st.sets(st.integers(0, NODES - 1), max_size=2),
    phases=st.lists(st.tuples(hots, warms, ghosts), min_size=1, max_size=5),
    repeats=st.integers(1, 12),
    mode=st.sampled_from(Mode),
)
@settings(max_examples=40, deadline=None)
def test_rows_follow_the_causes_and_not_the_cycles(
    law: tuple[LoadedPolicy, LoadedPolicy],
    worked_on: set[int],
    phases: list[tuple[set[tuple[int, int]], set[tuple[int, int]], set[int]]],
    repeats: int,
    mode: Mode,
) -> None:
    known = {
        name: replace(n, labels={"gpu": "yes", "dc/rack": f"r{number // 2}"})
        for number, (name, n) in enumerate(fleet(NODES).items())
    }
    known = at_work(known, *(f"node-{number}" for number in worked_on))

    def answered(
        hot_now: set[tuple[int, int]], warm_now: set[tuple[int, int]], strays: set[int]
    ) -> dict[str, PolicyAnswers]:
        found = [hot(f"node-{n}", gpu) for n, gpu in sorted(hot_now)] + [hot(f"ghost-{n}") for n in sorted(strays)]
        return {
            "gpu-hot": answers(known, *found),
            "gpu-warm": answers(known, *(hot(f"node-{n}", gpu) for n, gpu in sorted(warm_now))),
        }

    cycles = [answered(*phase) for phase in phases] * repeats
    _, rows = through(rules(*law, **RACKED), known, cycles, mode=mode)  # type: ignore[arg-type]
    lasted = len(cycles) * CYCLE // QUIET
    found = {(n, gpu) for hot_now, warm_now, _ in phases for n, gpu in hot_now | warm_now}
    for name in known:
        about = [row for row in rows if row.node == name or row.hold_key == f"node/{name}"]
        of_it = [key for key in found if f"node-{key[0]}" == name]
        # A case: held for each of its findings (settling, correlated, its own word) before it is taken out, reported
        # and told. No case: its hold, forgotten once in ten minutes.
        assert len(about) <= 4 * len(of_it) + 3 + 2 * lasted, [(r.action, r.held_by, r.at) for r in about]
    named = [row for row in rows if row.hold_key.startswith("stray/")]
    assert len(named) <= 3 * (1 + 2 * lasted)
