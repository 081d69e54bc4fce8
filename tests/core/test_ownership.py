"""Ledger against cluster: one test for each row of the table in docs/ownership.md, and who took a mark away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.marks import case_on
from quarantine.core.model import Mode, Node, Sample, Taint
from quarantine.core.ownership import Remover, remover, taken_back
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Plan
from quarantine.core.state import fold
from tests.core.world import (
    MINUTE,
    NOW,
    after,
    ask,
    carried_out,
    fleet,
    hot,
    marked,
    node,
    policy,
    quarantined,
    rules,
    snapshot,
    told,
)

PREFIX = "quarantine.gpu"
OTHER = Taint("nvidia.com/gpu", "present")
HOUR = timedelta(hours=1)
DRIVER = "driver-manager"


def opened(state: State, name: str = "node-3") -> Case:
    case = state.open_case_of(name)
    assert case is not None
    return case


def look(
    state: State, nodes: Mapping[str, Node], *bad: Sample, law: Rules | None = None, now: datetime = NOW
) -> tuple[State, Plan]:
    """One cycle; planning again on its result must yield nothing new."""
    law = law or rules()
    seen = snapshot(nodes, *bad, state=state, now=now)
    made = plan(seen, law)
    state = after(state, made)
    assert plan(replace(seen, state=state), law).decisions == (), "planning twice yields nothing new"
    return state, made


def stripped(before: Node, by: str, **changes: object) -> Node:
    """The node after its list of taints was written without ours."""
    return replace(before, taints=(OTHER,), tainted_by=by, **changes)  # type: ignore[arg-type]


def unasked() -> Rules:
    return rules(policy(response={"ticket": "none"}))


def out_and_untold() -> tuple[State, dict[str, Node]]:
    """node-3 quarantined, everything carried out, its provider told nothing."""
    state, _ = look(State(), fleet(), hot("node-3"), law=unasked())
    return carried_out(state, fleet())


def mark_is(state: State, status: EffectStatus) -> bool:
    return opened(state).effects[Effect.MARK].status is status


# --- The mark is to be written ----------------------------------------------------------------------------------------


def test_row_a_mark_that_was_decided_is_waited_for() -> None:
    state, _ = look(State(), fleet(), hot("node-3"))
    state, made = look(state, fleet(), hot("node-3"), now=NOW + 5 * MINUTE)
    assert made.decisions == ()
    assert mark_is(state, EffectStatus.PENDING)


def test_row_a_mark_that_is_late_is_not_made_on_old_evidence_and_what_was_made_of_it_is_taken_away() -> None:
    state, _ = look(State(), fleet(), hot("node-3"))
    _, made = look(state, fleet(), now=NOW + 11 * MINUTE)
    assert told(made) == [("dismiss", "node-3", None)]
    assert made.decisions[0].effects == (Effect.UNMARK, Effect.CONDITION, Effect.CLOSE)


@pytest.mark.parametrize("again", [False, True])
def test_row_a_person_is_quicker_than_the_record_of_a_mark(again: bool) -> None:
    """The mark was written and its outcome is not recorded (a crash in between); a person took it away again."""
    nodes = fleet()
    state, _ = look(State(), nodes, hot("node-3"))
    if again:
        state, nodes = carried_out(state, nodes)
        state, _ = look(state, {**nodes, "node-3": stripped(nodes["node-3"], DRIVER)})
    else:
        nodes["node-3"] = marked(nodes["node-3"], state, opened(state).id)
    assert mark_is(state, EffectStatus.PENDING)
    nodes["node-3"] = stripped(nodes["node-3"], "kubectl-taint")
    assert taken_back(nodes["node-3"], opened(state), PREFIX, ()), "the executor must not write it either"
    state, made = look(state, nodes, hot("node-3"), now=NOW + MINUTE)
    assert told(made)[0] == ("dismiss", "node-3", None)
    assert all(s.status is not EffectStatus.PENDING for e, s in last_case(state).effects.items() if e is Effect.MARK)


def last_case(state: State) -> Case:
    return next(iter(state.cases.values()))


# --- The mark was written ---------------------------------------------------------------------------------------------


def test_row_as_it_should_be() -> None:
    state, nodes = quarantined()
    assert look(state, nodes, hot("node-3"), now=NOW + HOUR)[1].decisions == ()


@pytest.mark.parametrize("by", ["", "kubectl", "kubectl-taint", "kubectl-edit", "k9s", "node-fetch", "Mozilla"])
def test_row_a_person_took_our_taint_away(by: str) -> None:
    state, nodes = quarantined()
    nodes["node-3"] = stripped(nodes["node-3"], by)
    state, made = look(state, nodes, hot("node-3"), now=NOW + MINUTE)
    assert told(made) == [("dismiss", "node-3", None), ("quarantine", "node-3", "dismissed-by-human")]
    assert made.decisions[0].effects == (Effect.UNMARK, Effect.CONDITION, Effect.CLOSE)
    state, _ = carried_out(state, nodes)
    assert look(state, nodes, hot("node-3"), now=NOW + timedelta(days=6))[1].decisions == (), "and is not fought"


def test_row_a_person_took_our_taint_away_and_uncordoned() -> None:
    """The controller that follows cordons writes the list after the person, and hides who it was."""
    state, nodes = quarantined()
    kept = stripped(nodes["node-3"], "kube-controller-manager")
    assert told(look(state, {**nodes, "node-3": kept})[1]) == [("remark", "node-3", None)]
    gone = stripped(nodes["node-3"], "kube-controller-manager", unschedulable=False)
    assert told(look(state, {**nodes, "node-3": gone})[1]) == [("dismiss", "node-3", None)]


def test_row_a_known_program_took_our_taint_away() -> None:
    law = rules(automata=[DRIVER])
    state, nodes = quarantined()
    now = NOW
    for _ in range(5):  # again and again
        now += 5 * MINUTE
        lost = {**nodes, "node-3": stripped(nodes["node-3"], DRIVER)}
        state, made = look(state, lost, law=law, now=now)
        assert told(made) == [("remark", "node-3", None)]
        assert made.decisions[0].effects == (Effect.MARK,)
        assert look(state, lost, law=law, now=now + MINUTE)[1].decisions == (), "it waits to be written"
        state, _ = carried_out(state, lost)
        assert look(state, lost, law=law, now=now + 4 * MINUTE)[1].decisions == (), "at most once in five minutes"
    assert len(opened(state).put_back) == 5
    assert opened(state).phase is Phase.QUARANTINED


@pytest.mark.parametrize("known", [True, False])
def test_row_a_program_took_our_taint_away_two_dozen_times_within_a_day(known: bool) -> None:
    law = rules(automata=[DRIVER]) if known else rules()
    step = 5 * MINUTE if known else 30 * MINUTE
    state, nodes = quarantined()
    now, count = NOW, 0
    rows: list[Decision] = []
    while count < 24:
        now, count = now + step, count + 1
        state, made = taken_away(state, nodes, DRIVER, now, law)
        assert told(made) == [("remark", "node-3", None)]
    begun = now
    while now < begun + 24 * HOUR:
        now += step
        state, made = taken_away(state, nodes, DRIVER, now, law)
        rows += made.decisions
        state, made = look(state, nodes, law=law, now=now + MINUTE)
        rows += made.decisions
    assert [d.held_by for d in rows].count(HeldBy.REWRITTEN) == 1, "people are told once"
    assert {d.action for d in rows} == {Action.REMARK}
    assert len([d for d in rows if d.held_by is None]) == 24, "and it is put back, once an hour"
    assert "put back once an hour at most" in next(d.reason for d in rows if d.held_by is not None)
    state, made = look(state, nodes, law=law, now=now + 6 * HOUR)
    assert told(made) == [("judge", "node-3", None)]
    assert state.holds == {}


def taken_away(
    state: State, nodes: Mapping[str, Node], by: str, now: datetime, law: Rules | None = None
) -> tuple[State, Plan]:
    """A program takes our taint away; it is put back where that is decided."""
    lost = {**nodes, "node-3": stripped(nodes["node-3"], by)}
    state, made = look(state, lost, law=law, now=now)
    return carried_out(state, lost)[0], made


@pytest.mark.parametrize(
    ("by", "who", "what"),
    [
        (
            DRIVER,
            "a program that calls itself driver-manager",
            ", or name driver-manager under automata in the fleet file",
        ),
        ("quarantine", "another installation, also called quarantine,", ""),
    ],
)
def test_row_an_unknown_program_took_our_taint_away(by: str, who: str, what: str) -> None:
    state, nodes = quarantined()
    for minute in range(3):
        state, made = taken_away(state, nodes, by, NOW + minute * MINUTE)
        assert told(made) == [("remark", "node-3", None)]
        assert made.decisions[0].reason == f"{who} wrote the taints of node-3 without ours: it is put back"
        assert look(state, nodes, now=NOW + minute * MINUTE)[1].decisions == ()
    state, made = taken_away(state, nodes, by, NOW + 3 * MINUTE)
    assert told(made) == [("remark", "node-3", "rewritten")]
    assert made.decisions[0].reason == (
        f"{who} takes our taint off node-3 again and again, so it is put back no more and the machine is in use: "
        f"release it (quarantine release node-3), set the taint by hand{what}"
    )
    state, made = taken_away(state, nodes, by, NOW + timedelta(days=1))
    assert made.decisions == (), "told, and left alone"
    set_by_hand, made = look(state, nodes, now=NOW + timedelta(days=1))
    assert told(made) == [("judge", "node-3", None)]
    assert set_by_hand.holds == {}


def test_row_we_released_it_and_the_ledger_has_lost_that() -> None:
    """A list of taints that another installation rewrites leaves the annotations, and a release takes them too."""
    state, nodes = quarantined()
    clean = replace(fleet()["node-3"], tainted_by="quarantine")
    state, made = look(state, {**nodes, "node-3": clean})
    assert told(made) == [("dismiss", "node-3", None)]
    assert made.decisions[0].reason == (
        "node-3 was released, and the ledger has lost that, as after a restore from a backup: it stays in service; its "
        "findings are left alone"
    )
    assert state.open_case_of("node-3") is None
    assert look(state, {**nodes, "node-3": clean})[1].decisions == ()


def test_row_an_unknown_program_takes_it_away_now_and_then() -> None:
    state, nodes = quarantined()
    for number in range(6):
        state, made = taken_away(state, nodes, DRIVER, NOW + number * 30 * MINUTE)
        assert told(made) == [("remark", "node-3", None)]


def test_a_program_that_is_named_in_the_fleet_file_then_is_no_riddle_any_more() -> None:
    state, nodes = quarantined()
    for minute in range(4):
        state, _ = taken_away(state, nodes, DRIVER, NOW + minute * MINUTE)
    lost = {**nodes, "node-3": stripped(nodes["node-3"], DRIVER)}
    state, made = look(state, lost, law=rules(automata=[DRIVER]), now=NOW + HOUR)
    assert told(made) == [("remark", "node-3", None)]
    assert state.holds == {}


def test_a_person_who_takes_away_what_was_put_back_wins() -> None:
    state, nodes = quarantined()
    for minute in range(4):
        state, _ = taken_away(state, nodes, DRIVER, NOW + minute * MINUTE)
    state, made = look(state, {**nodes, "node-3": stripped(nodes["node-3"], "kubectl-taint")}, now=NOW + 5 * MINUTE)
    assert ("dismiss", "node-3", None) in told(made)
    assert state.holds == {}


def test_what_was_put_back_is_no_mark_that_was_never_made() -> None:
    """Quiet metrics, a policy that enforces no more, an hour without the API: it was out, and stays out."""
    state, nodes = quarantined()
    lost = {**nodes, "node-3": stripped(nodes["node-3"], DRIVER)}
    state, _ = look(state, lost)
    assert look(state, lost, now=NOW + HOUR)[1].decisions == ()
    assert look(state, lost, law=rules(policy(mode="observe")), now=NOW + HOUR)[1].decisions == ()


def test_nothing_is_put_back_while_the_installation_observes() -> None:
    state, nodes = quarantined()
    lost = {**nodes, "node-3": stripped(nodes["node-3"], DRIVER)}
    seen = snapshot(lost, state=state, mode=Mode.OBSERVE)
    assert plan(seen, rules()).decisions == ()
    assert told(plan(replace(seen, mode=Mode.ENFORCE), rules())) == [("remark", "node-3", None)]


def test_row_our_taint_is_gone_during_planned_work() -> None:
    law = rules(maintenance={"labels": {"driver-upgrade": "*"}})
    state, nodes = quarantined()
    at_work = {"gpu": "yes", "driver-upgrade": "pods"}
    for by in ("", DRIVER):
        lost = {**nodes, "node-3": stripped(nodes["node-3"], by, labels=at_work, unschedulable=False)}
        assert look(state, lost, law=law)[1].decisions == ()
    afterwards = {**nodes, "node-3": stripped(nodes["node-3"], DRIVER, unschedulable=False)}
    assert told(look(state, afterwards, law=law)[1]) == [("remark", "node-3", None)]


def test_row_our_cordon_is_gone() -> None:
    state, nodes = quarantined()
    uncordoned = {**nodes, "node-3": replace(nodes["node-3"], unschedulable=False)}
    state, made = look(state, uncordoned, hot("node-3"))
    assert told(made) == [("drain", "node-3", "uncordoned")]
    assert made.decisions[0].reason == (
        "somebody uncordoned node-3 and left our taint, so it is emptied no further: release it "
        "(quarantine release node-3), or cordon it again (kubectl cordon node-3)"
    )
    assert look(state, uncordoned, hot("node-3"), now=NOW + HOUR)[1].decisions == (), "asked once"
    again, made = look(state, nodes, hot("node-3"))
    assert told(made) == [("judge", "node-3", None)]
    assert again.holds == {}
    seen = snapshot(uncordoned, hot("node-3"), state=state, requests=[ask(RequestKind.RELEASE, "node-3")])
    released = after(state, plan(seen, rules()))
    assert not any(key.startswith("uncordoned") for key in released.holds)


@pytest.mark.parametrize("theirs", [True, False])
def test_row_a_cordon_that_was_not_ours_is_gone(theirs: bool) -> None:
    """Somebody else's, or none at all: the policy does not cordon."""
    state, nodes = quarantined()
    case = replace(opened(state), cordoned_by_us=False)
    state = replace(state, cases={case.id: case})
    nodes["node-3"] = replace(nodes["node-3"], unschedulable=False) if theirs else nodes["node-3"]
    assert look(state, nodes, hot("node-3"))[1].decisions == ()


# --- The machine ------------------------------------------------------------------------------------------------------


def without(nodes: Mapping[str, Node]) -> dict[str, Node]:
    return {name: n for name, n in nodes.items() if name != "node-3"}


def test_row_the_node_of_a_suspicion_is_not_listed() -> None:
    observed = snapshot(fleet(), hot("node-3"), mode=Mode.OBSERVE)
    state = after(State(), plan(observed, rules()))
    state, made = look(state, without(fleet()))
    assert told(made) == [("retire", "node-3", "gone")]
    state, made = look(state, without(fleet()), now=NOW + 10 * MINUTE)
    assert ("retire", "node-3", None) in told(made)
    assert state.holds == {}


def test_row_the_node_is_not_listed() -> None:
    state, nodes = out_and_untold()
    state, made = look(state, without(nodes), law=unasked())
    assert told(made) == [("retire", "node-3", "gone")]
    state, made = look(state, without(nodes), law=unasked(), now=NOW + 5 * HOUR)
    assert made.decisions == ()
    state, made = look(state, without(nodes), law=unasked(), now=NOW + 6 * HOUR)
    assert ("retire", "node-3", None) in told(made)
    assert state.holds == {}


def test_row_the_node_is_not_listed_and_its_provider_was_told() -> None:
    state, nodes = quarantined()
    state, made = look(state, without(nodes))
    assert told(made) == [("retire", "node-3", "gone")]
    state, made = look(state, without(nodes), now=NOW + timedelta(days=6))
    assert ("retire", "node-3", None) not in told(made)
    state, made = look(state, without(nodes), now=NOW + timedelta(days=7))
    assert ("retire", "node-3", None) in told(made)


def remade(**machine: str) -> Node:
    return node("node-3", machine=replace(node("node-3").machine, node_uid="another", **machine))  # type: ignore[arg-type]


def test_row_another_machine_has_the_name() -> None:
    state, nodes = out_and_untold()
    nodes["node-3"] = remade(system_uuid="other", provider_id="acme://other")
    assert told(look(state, nodes, law=unasked())[1]) == [("retire", "node-3", None)]


def test_row_another_machine_has_the_name_and_the_provider_was_told() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = remade(system_uuid="other", provider_id="acme://other")
    state, made = look(state, nodes)
    assert told(made) == [("swap", "node-3", None)]
    case = opened(state)
    assert (case.phase, case.machine.system_uuid) == (Phase.SWAPPED, "other")
    assert case.sent_away is not None
    assert look(state, nodes, now=NOW + HOUR)[1].decisions == (), "a newcomer's mark does not grow late"


def test_row_the_node_object_was_made_again() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = remade(boot_id="later")
    state, made = look(state, nodes)
    assert told(made)[0] == ("follow", "node-3", None)
    assert made.decisions[0].effects == (Effect.MARK, Effect.CONDITION)
    assert look(state, nodes, now=NOW + HOUR)[1].decisions == (), "its bare taints are nobody's word"


def oldest_first(state: State) -> list[Case]:
    return sorted((c for c in state.cases.values() if c.open), key=lambda case: (case.opened_at, case.id))


def test_row_many_are_gone_at_once() -> None:
    names = [f"node-{n}" for n in range(4)]
    state, nodes = quarantined(*names)
    for by in ("", "kubectl-taint", DRIVER, "quarantine"):
        # Without our annotations, it looks as another prefix or another cluster would.
        bare = {**nodes, **{name: node(name, tainted_by=by) for name in names}}
        assert ("retire", None, "sight") in told(look(state, bare)[1])
    kept = {**nodes, **{name: stripped(nodes[name], DRIVER) for name in names}}
    assert told(look(state, kept)[1]) == [("remark", case.node, None) for case in oldest_first(state)], (
        "these are our nodes"
    )


# --- Marks that no case explains --------------------------------------------------------------------------------------


def carrying(case_id: str, name: str = "node-9", **annotations: str) -> Node:
    known = {f"{PREFIX}/{key}": value for key, value in annotations.items()}
    return node(name, taints=(Taint(f"{PREFIX}/suspect", case_id),), annotations=known)


def test_row_a_mark_of_an_unknown_case() -> None:
    state, made = look(State(), {**fleet(), "node-9": carrying("q-other")})
    assert told(made) == [("adopt", "node-9", None)]
    assert opened(state, "node-9").id == "q-other"


def test_row_a_mark_of_an_unknown_case_that_is_younger_than_the_ledger() -> None:
    state, nodes = quarantined()
    nodes["node-9"] = carrying("q-other", since=(NOW + HOUR).isoformat())
    state, made = look(state, nodes, hot("node-5"), now=NOW + 2 * HOUR)
    assert ("adopt", None, "restored-ledger") in told(made)
    assert made.observe_only
    seen = snapshot(nodes, state=state, now=NOW + 2 * HOUR, requests=[ask(RequestKind.ADOPT, "")])
    made = plan(seen, rules())
    assert ("adopt", "node-9", None) in told(made)
    assert not made.observe_only


def test_row_a_mark_of_a_case_that_ended() -> None:
    nodes = {**fleet(), "node-9": carrying("q-old")}
    state, made = look(State(ended=frozenset({"q-old"})), nodes)
    assert told(made) == [("adopt", "node-9", "foreign-mark")]
    assert look(state, {**nodes, "node-9": node("node-9")})[0].holds == {}


def test_row_a_mark_of_another_nodes_case() -> None:
    state, nodes = quarantined()
    nodes["node-9"] = carrying(opened(state).id)
    assert told(look(state, nodes)[1]) == [("adopt", "node-9", "foreign-mark")]


def test_row_a_mark_that_is_about_to_be_taken_away() -> None:
    state, nodes = quarantined()
    released = plan(snapshot(nodes, state=state, requests=[ask(RequestKind.RELEASE, "node-3")]), rules())
    state = after(state, released)
    decided = look(state, nodes, now=NOW + HOUR)[1].decisions
    assert [d.action for d in decided] == [Action.WITHDRAW], "of its ticket, which was not closed for an hour"


# --- Who it was -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "automata", "who"),
    [
        ("", (), Remover.PERSON),
        ("kubectl-taint", (), Remover.PERSON),
        ("Lens", (), Remover.PERSON),
        ("quarantine", (), Remover.OURS),
        ("gpu-operator", (), Remover.REWRITER),
        ("kube-controller-manager", (), Remover.REWRITER),
        ("gpu-operator", ("gpu-operator",), Remover.AUTOMATON),
        ("kubectl-patch", ("kubectl-patch",), Remover.AUTOMATON),  # a script: the fleet file knows better
        ("kubectl-patch", ("gpu-operator",), Remover.PERSON),
    ],
)
def test_who_took_it_away_is_told_by_who_wrote_the_list_last(by: str, automata: tuple[str, ...], who: Remover) -> None:
    state, nodes = quarantined()
    assert remover(stripped(nodes["node-3"], by), opened(state), automata) is who


# --- The table --------------------------------------------------------------------------------------------------------


def test_every_row_of_the_table_has_its_test_and_every_test_its_row() -> None:
    text = (Path(__file__).parents[2] / "docs" / "ownership.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| `(test_row_\w+)` \|$", text, re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == {name for name in globals() if name.startswith("test_row_")}


# --- Any order --------------------------------------------------------------------------------------------------------

writers = st.sampled_from(["", "kubectl-taint", "kubectl-edit", DRIVER, "gpu-operator", "quarantine"])
events = st.one_of(
    st.tuples(st.just("strip"), writers),
    st.tuples(st.just("restore"), writers),  # the whole list as it was before, by a program that had read it
    st.tuples(st.just("uncordon"), st.just("")),
    st.tuples(st.just("cordon"), st.just("")),
    st.tuples(st.just("work"), st.sampled_from(["begin", "end"])),
    st.tuples(st.just("write"), st.sampled_from(["recorded", "crashed"])),  # the executor's turn
    st.tuples(st.just("wait"), st.sampled_from(["1", "7", "70"])),
)


@given(steps=st.lists(events, max_size=25))
@settings(max_examples=100, deadline=None)
def test_in_any_order_a_person_wins_and_a_program_never_does(steps: list[tuple[str, str]]) -> None:
    law = rules(policy(response={"ticket": "none"}), automata=["gpu-operator"], maintenance={"labels": {"work": "*"}})
    state, nodes = out_and_untold()
    first = opened(state)
    now, on, trail = NOW, nodes["node-3"], list[Decision]()
    for what, how in steps:
        now += timedelta(minutes=int(how)) if what == "wait" else timedelta(seconds=10)
        state, on = happen(state, on, first, what, how, now)
        seen = snapshot({**nodes, "node-3": on}, state=state, now=now, given={})
        made = plan(seen, law)
        state = after(state, made)
        trail += made.decisions
        assert plan(replace(seen, state=state), law).decisions == (), "planning twice yields nothing new"
        ended = state.open_case_of("node-3") is None
        by_person = remover(on, first, law.fleet.automata) is Remover.PERSON
        vanished = case_on(on, PREFIX) is None
        assert not ended or (vanished and by_person), "only a person's hand puts the node back"
        if vanished and by_person and "work" not in on.labels:
            assert ended, "and it does so at once"
        if ended:
            break
    put_back = [d for d in trail if d.action is Action.REMARK and d.kind is Kind.DECIDED]
    for number, decision in enumerate(put_back):
        before = [d.at for d in put_back[:number]]
        if "gpu-operator" in decision.reason:
            assert not before or decision.at >= before[-1] + 5 * MINUTE
        else:
            assert sum(1 for at in before if at > decision.at - HOUR) < 3


def happen(state: State, on: Node, case: Case, what: str, how: str, now: datetime) -> tuple[State, Node]:
    """What somebody does to the node, and the executor's turn."""
    taint = Taint(f"{PREFIX}/suspect", case.id)
    match what:
        case "strip" if case_on(on, PREFIX):
            on = stripped(on, how)
        case "restore":
            on = replace(on, taints=(OTHER, taint), tainted_by=how)
        case "uncordon" | "cordon":
            on = replace(on, unschedulable=what == "cordon")
        case "work":
            on = replace(on, labels={"gpu": "yes", **({"work": "x"} if how == "begin" else {})})
        case "write" if state.cases[case.id].is_pending(Effect.MARK):
            if taken_back(on, state.cases[case.id], PREFIX, ("gpu-operator",)):
                return state, on
            on = replace(on, taints=(OTHER, taint), tainted_by="quarantine")
            if how == "recorded":
                outcome = Decision(now, Kind.DONE, Action.QUARANTINE, "done", "t", case=case.id, effect=Effect.MARK)
                state = fold(state, [replace(outcome, cordoned_by_us=True)])
        case _:
            pass
    return state, on
