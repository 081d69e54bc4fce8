"""The join gate: what is new is marked until it has proven itself, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Effect, HeldBy, Phase, RunOutcome
from quarantine.core.decision import Action, Dismissal, Kind, RequestKind, State, Word, WordKind
from quarantine.core.marks import taint_key
from quarantine.core.model import Machine, Mode, Node, Taint
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.snapshot import Plan
from quarantine.core.workload import RunStatus, Workloads
from tests.core.world import NOW, after, answers, ask, carried_out, fleet, hot, node, rules, snapshot

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
YOUNG = NOW - 5 * MINUTE
BURN_IN = ProcedureSpec.model_validate({"description": "d", "command": ["burn"], "timeout": "30m"})


def law(*, gate: Mapping[str, Any] | None = None, **fleet_spec: Any) -> Rules:
    """One pool with a gate, and budgets that any quarantine would exceed."""
    tight = dict.fromkeys(("quarantined", "unavailable", "perHour"), "0%") if fleet_spec.pop("tight", False) else {}
    pool = {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "gate": gate or {"burnIn": "burn-in"}}
    made = rules(pools=[{**pool, **({"budget": tight} if tight else {})}], **fleet_spec)
    return replace(made, procedures={"burn-in": BURN_IN})


def joined(**changes: Any) -> dict[str, Node]:
    """A fleet of twenty, and node-20 that came five minutes ago."""
    return {**fleet(), "node-20": node("node-20", **{"created_at": YOUNG, **changes})}


def admitted(made: Plan) -> list[str | None]:
    return [d.node for d in made.decisions if d.action is Action.PROVE and d.phase is Phase.PROBATION]


def test_a_new_node_is_marked_and_on_probation() -> None:
    known = joined()
    made = plan(snapshot(known), law())
    (decision,) = made.decisions
    assert decision.reason == "node-20 is new in pool gpu, and proves itself by burn-in first"
    assert decision.effects[0] is Effect.MARK
    state = after(State(), made)
    case = state.open_case_of("node-20")
    assert case is not None
    assert (case.gate, case.phase, case.pool, case.by_person) == (True, Phase.PROBATION, "gpu", False)
    assert plan(snapshot(known, state=state), law()).decisions == ()


def test_it_waits_for_its_mark_however_long_that_takes() -> None:
    known = joined()
    state = after(State(), plan(snapshot(known), law()))
    for minutes in (1, 20, 59):
        made = plan(snapshot(known, state=state, now=NOW + minutes * MINUTE), law())
        assert made.decisions == ()


def test_once_it_is_released_it_is_not_looked_at_again() -> None:
    known = joined()
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    state = over(state, "node-20", Phase.RELEASED, NOW + 10 * MINUTE)
    known["node-20"] = joined()["node-20"]
    assert admitted(plan(snapshot(known, state=state, now=NOW + 11 * MINUTE), law())) == []


def test_where_most_of_a_pool_is_new_at_once_its_machines_are_left_alone() -> None:
    """A cluster that was made again, or restored: every Node object is young, and every machine works."""
    made_again = {name: replace(n, created_at=YOUNG) for name, n in fleet().items()}
    made = plan(snapshot(made_again), law())
    (hold,) = made.decisions
    assert (hold.held_by, hold.node) == (HeldBy.GATE, None)
    assert hold.reason.startswith("20 of 20 machines of pool gpu are new at once")
    state = after(State(), made)
    assert plan(snapshot(made_again, state=state), law()).decisions == ()
    later = plan(snapshot(made_again, state=state, now=NOW + HOUR), law())
    assert admitted(later) == []
    assert not after(state, later).holds


def test_a_pool_that_grows_by_half_is_let_in_by_the_gate_and_one_that_doubles_is_not() -> None:
    grown = {**fleet(), **{f"node-{n}": node(f"node-{n}", created_at=YOUNG) for n in range(20, 30)}}
    assert len(admitted(plan(snapshot(grown), law()))) == 10
    doubled = {**grown, **{f"node-{n}": node(f"node-{n}", created_at=YOUNG) for n in range(30, 41)}}
    state = after(State(), plan(snapshot(grown), law()))
    assert admitted(plan(snapshot(doubled, state=state), law())) == []


def over(state: State, name: str, phase: Phase, at: Any) -> State:
    """The case of a node, ended."""
    case = state.open_case_of(name)
    assert case is not None
    ended = replace(case, phase=phase, phase_since=at, effects={})
    return replace(state, cases={**state.cases, case.id: ended}, ended=state.ended | {case.id})


def test_a_person_who_puts_it_in_service_is_not_fought() -> None:
    known = joined()
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    known["node-20"] = joined()["node-20"]
    made = plan(snapshot(known, state=state, now=NOW + MINUTE), law())
    assert [d.action for d in made.decisions] == [Action.DISMISS]
    state, known = carried_out(after(state, made), known)
    assert admitted(plan(snapshot(known, state=state, now=NOW + 2 * MINUTE), law())) == []


def test_what_comes_back_proves_itself_as_well() -> None:
    """A Node object that nobody has looked at, though its machine was in a case before."""
    known = joined()
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    state = over(state, "node-20", Phase.RELEASED, NOW + 10 * MINUTE)
    later = NOW + timedelta(days=3)
    again = replace(joined()["node-20"].machine, node_uid="uid-again")
    known["node-20"] = node("node-20", machine=again, created_at=later - MINUTE)
    assert admitted(plan(snapshot(known, state=state, now=later), law())) == ["node-20"]


def test_a_node_object_made_again_just_after_its_release_is_let_in() -> None:
    known = joined()
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    released = NOW + 10 * MINUTE
    state = over(state, "node-20", Phase.RELEASED, released)
    again = replace(joined()["node-20"].machine, node_uid="uid-again")
    known["node-20"] = node("node-20", machine=again, created_at=released + 20 * MINUTE)
    for minutes in (21, 55, 75):
        made = plan(snapshot(known, state=state, now=released + minutes * MINUTE), law())
        assert admitted(made) == [], "nor later, when it has worked for a while"


PREFIX = "quarantine.gpu"
WORD = Word("pause/all", WordKind.PAUSE, "all", "an engineer", "upgrade", NOW - HOUR)
WAIVED = Dismissal("node-20", node("node-20").machine, (), NOW + HOUR, "needed", waiver=True, by="an engineer")


@pytest.mark.parametrize(
    ("changes", "state", "why"),
    [
        ({"created_at": NOW - HOUR}, State(), "it was here before"),
        ({"created_at": NOW + MINUTE}, State(), "it is not there yet: history is judged with the nodes of today"),
        ({"created_at": None}, State(), "it is not told since when it is here"),
        ({"labels": {}}, State(), "it is in no pool"),
        ({"labels": {"gpu": "yes", f"{PREFIX}/ignore": "true"}}, State(), "it is opted out"),
        ({"annotations": {"acme.io/upgrade": "yes"}}, State(), "planned work is under way"),
        ({"taints": (Taint(taint_key(PREFIX), "q-foreign"),)}, State(), "it is marked for a case"),
        ({"taints": (Taint(taint_key(PREFIX), "q-over"),)}, State(ended=frozenset({"q-over"})), "a person looks at it"),
        ({}, State(words={WORD.key: WORD}), "all is paused"),
        ({}, State(dismissals=(WAIVED,)), "a person keeps it in service"),
    ],
)
def test_nothing_else_is_gated(changes: dict[str, Any], state: State, why: str) -> None:
    work = {"annotations": {"acme.io/upgrade": "yes"}}
    made = plan(snapshot(joined(**changes), state=state), law(maintenance=work))
    assert admitted(made) == [], why


def test_an_installation_that_observes_and_a_pool_without_a_gate_let_everything_in() -> None:
    assert plan(snapshot(joined(), mode=Mode.OBSERVE), law()).decisions == ()
    assert plan(snapshot(joined()), rules()).decisions == ()
    assert plan(snapshot(joined()), law(never_touch=["node-20"])).decisions == ()


def test_the_time_is_the_pools() -> None:
    late = joined(created_at=NOW - 3 * HOUR)
    assert admitted(plan(snapshot(late), law(gate={"burnIn": "burn-in", "younger": "4h"}))) == ["node-20"]
    assert admitted(plan(snapshot(late), law(gate={"burnIn": "burn-in", "younger": "2h"}))) == []


def test_a_pause_of_another_pool_stops_nothing() -> None:
    word = replace(WORD, key="pause/pool/other", scope="pool/other")
    assert admitted(plan(snapshot(joined(), state=State(words={word.key: word})), law())) == ["node-20"]


def test_no_budget_keeps_a_new_machine_out_of_its_gate() -> None:
    assert admitted(plan(snapshot(joined()), law(tight=True))) == ["node-20"]


def test_what_is_found_on_a_new_machine_joins_its_case() -> None:
    known = joined()
    made = plan(snapshot(known, hot("node-20")), law())
    assert [d.action for d in made.decisions][:2] == [Action.PROVE, Action.JOIN]
    state = after(State(), made)
    assert plan(snapshot(known, hot("node-20"), state=state), law()).decisions == ()
    case = state.open_case_of("node-20")
    assert case is not None
    assert len(case.findings) == 1


def test_a_machine_that_was_sent_away_is_not_let_in_under_another_name() -> None:
    known = joined(machine=Machine("uid-20", "acme://20", "sys-gone", "b"))
    gone = Case("q-gone", "node-3", Machine("u", "", "sys-gone"), Phase.RETIRED, NOW - HOUR, NOW - HOUR, (), "t", "r")
    gone = replace(gone, effects={Effect.TICKET: carried().effects[Effect.MARK]})
    state = State(cases={gone.id: gone})
    state, known = carried_out(after(state, plan(snapshot(known, state=state), law())), known)
    made = plan(snapshot(known, state=state, now=NOW + MINUTE), law())
    (hold,) = [d for d in made.decisions if d.held_by is HeldBy.SAME_MACHINE]
    assert "node-20 is the machine that was sent away from node-3 (case q-gone)" in hold.reason
    state, now = after(state, made), NOW
    for _ in range(6):
        now += 20 * MINUTE
        state = done(state, known, now)
    case = state.open_case_of("node-20")
    assert case is not None, "its burn-in succeeds, and it is not released all the same"
    assert [run.outcome.value for run in case.runs] == ["succeeded"]


def carried() -> Case:
    """A case whose mark is done."""
    state, _ = carried_out(after(State(), plan(snapshot(joined()), law())), joined())
    return next(iter(state.cases.values()))


def done(state: State, known: dict[str, Node], now: Any) -> State:
    """One cycle in which every procedure succeeds."""

    running = [case.run for case in state.cases.values() if case.run is not None]
    look = snapshot(known, state=state, now=now, given={"gpu-hot": answers(known)})
    look = replace(look, runs={run.name: RunStatus(RunOutcome.SUCCEEDED, now) for run in running})
    look = replace(look, workloads=Workloads(dict.fromkeys(known, ())))
    state, _ = carried_out(after(state, plan(look, law())), known, now)
    return state


def test_a_burn_in_that_succeeds_lets_the_machine_in() -> None:
    known = joined()
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    now = NOW
    for _ in range(4):
        now += 5 * MINUTE
        state = done(state, known, now)
    (case,) = state.cases.values()
    assert case.phase is Phase.RELEASED
    assert Effect.UNMARK in case.effects


def test_a_person_may_let_it_in() -> None:
    known = joined()
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    made = plan(snapshot(known, state=state, requests=[ask(RequestKind.RELEASE, "node-20")]), law())
    assert [(d.kind, d.phase) for d in made.decisions] == [(Kind.DECIDED, Phase.RELEASED)]


def test_machines_that_wait_at_the_gate_for_days_do_not_open_it() -> None:
    """Two of a small pool failed their burn-in and are to be repaired: the next one to come is alone in being new."""
    known = {f"node-{n}": node(f"node-{n}", created_at=YOUNG if n < 2 else NOW - 9 * 24 * HOUR) for n in range(4)}
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    now = NOW + 5 * 24 * HOUR
    known["node-4"] = node("node-4", created_at=now)
    made = plan(snapshot(known, state=state, now=now), law())
    assert (admitted(made), [d.held_by for d in made.decisions if d.held_by is HeldBy.GATE]) == (["node-4"], [])


def test_a_gate_that_opened_with_one_that_is_let_in_by_the_same_plan_stays_open() -> None:
    known = {f"node-{n}": node(f"node-{n}", created_at=YOUNG if n < 2 else NOW - 9 * 24 * HOUR) for n in range(4)}
    state, known = carried_out(after(State(), plan(snapshot(known), law())), known)
    state = done(state, known, NOW + 5 * MINUTE)
    for minute in range(6, 30):
        now = NOW + minute * MINUTE
        cases = [case for case in state.cases.values() if case.open]
        known["node-4"] = node("node-4", created_at=now)
        look = snapshot(known, state=state, now=now, given={"gpu-hot": answers(known)})
        look = replace(look, workloads=Workloads(dict.fromkeys(known, ())))
        look = replace(look, runs={run.name: RunStatus(RunOutcome.SUCCEEDED, now) for c in cases if (run := c.run)})
        planned = after(state, made := plan(look, law()))
        assert plan(replace(look, state=planned), law()).decisions == ()
        if any(d.phase is Phase.RELEASED for d in made.decisions):
            return
        known.pop("node-4")
        state = done(state, known, now)
    pytest.fail("nothing was let in")


@pytest.mark.parametrize("pools", [(), [{"name": "gpu", "nodeSelector": {"gpu": "yes"}}]])
def test_what_is_told_of_a_gate_ends_with_it(pools: list[dict[str, Any]]) -> None:
    made_again = {name: replace(n, created_at=YOUNG) for name, n in fleet().items()}
    state = after(State(), plan(snapshot(made_again), law()))
    assert state.holds
    other = rules(pools=pools or [{"name": "other", "nodeSelector": {"gpu": "yes"}, "gate": {"burnIn": "burn-in"}}])
    left = after(state, plan(snapshot(made_again, state=state), replace(other, procedures={"burn-in": BURN_IN})))
    assert "gate/gpu" not in left.holds


bodies = st.sampled_from(["stays", "made-again", "another", "gone", "bad"])


@given(history=st.lists(st.tuples(bodies, st.integers(1, 50), st.booleans()), min_size=1, max_size=8))
@settings(max_examples=80, deadline=None)
def test_whatever_happens_a_node_object_is_gated_once_and_planning_again_yields_nothing(
    history: list[tuple[str, int, bool]],
) -> None:
    known, state, now, admissions = joined(), State(), NOW, list[str]()
    for number, (body, minutes, carry) in enumerate(history):
        now += minutes * MINUTE
        if body == "gone":
            known = {name: n for name, n in known.items() if name != "node-20"}
        elif body in ("made-again", "another"):
            serial = "same" if body == "made-again" else str(number)
            machine = Machine(f"uid-{number}", f"acme://{serial}", f"sys-{serial}", "b")
            known = {**known, "node-20": node("node-20", machine=machine, created_at=now)}
        bad = [hot("node-20")] if body == "bad" and "node-20" in known else []
        look = snapshot(known, state=state, now=now, given={"gpu-hot": answers(known, *bad)})
        made = plan(look, law())
        admissions += [known["node-20"].machine.node_uid for _ in admitted(made) if not state.open_case_of("node-20")]
        state = after(state, made)
        assert plan(replace(look, state=state), law()).decisions == ()
        if carry:
            state, known = carried_out(state, known, now)
    assert len(set(admissions)) == len(admissions)
