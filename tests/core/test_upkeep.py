"""Ledger and cluster brought together, and every way in which a case ends or does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Effect, EffectStatus, Phase
from quarantine.core.decision import Action, RequestKind, State
from quarantine.core.model import Machine, Mode, Node, PolicyAnswers, Samples, Taint
from quarantine.core.planner import plan
from tests.core.treatment.life import COMMAND, ON_PROOF, PROCEDURES, REBOOT, Life, law
from tests.core.world import (
    DOWNED,
    FAILED,
    MINUTE,
    NOW,
    after,
    answers,
    ask,
    carried_out,
    flapping,
    fleet,
    hot,
    node,
    policy,
    quarantined,
    rules,
    seen,
    snapshot,
    suspected,
    told,
)

HOUR = timedelta(hours=1)


def recreated(name: str, **machine: str) -> Node:
    return node(name, machine=replace(node(name).machine, node_uid="another", **machine))  # type: ignore[arg-type]


def strange(known: Node) -> Node:
    """Another cluster's machine of the same name, with nothing of ours on it."""
    machine = Machine(f"u-{known.name}", f"b://{known.name}", f"s-{known.name}")
    return replace(known, machine=machine, taints=(), annotations={}, unschedulable=False)


QUIET = policy(response={"ticket": "none"})


def untold() -> tuple[State, dict[str, Node]]:
    """node-3 quarantined, everything carried out, and its provider told nothing."""
    known = fleet()
    return carried_out(after(State(), plan(snapshot(known, hot("node-3")), rules(QUIET))), known)


def test_a_marked_node_that_is_not_listed_gets_six_hours_before_its_case_is_retired() -> None:
    state, nodes = untold()
    del nodes["node-3"]
    look = snapshot(nodes, state=state)
    first = plan(look, rules(QUIET))
    assert told(first) == [("retire", "node-3", "gone")]
    state = after(state, first)
    assert plan(replace(look, state=state, now=NOW + 6 * HOUR - MINUTE), rules(QUIET)).decisions == ()
    last = plan(replace(look, state=state, now=NOW + 6 * HOUR), rules(QUIET))
    assert ("retire", "node-3", None) in told(last)
    state = after(state, last)
    assert state.open_case_of("node-3") is None
    assert state.holds == {}


def test_a_suspected_node_that_is_not_listed_gets_ten_minutes() -> None:
    nodes = {name: n for name, n in fleet().items() if name != "node-3"}
    look = snapshot(nodes, state=suspected(), mode=Mode.OBSERVE)
    state = after(look.state, plan(look, rules()))
    assert plan(replace(look, state=state, now=NOW + 9 * MINUTE), rules()).decisions == ()
    last = plan(replace(look, state=state, now=NOW + 10 * MINUTE), rules())
    assert ("retire", "node-3", None) in told(last)
    assert after(state, last).holds == {}


def test_a_machine_whose_node_is_deleted_while_it_reboots_comes_back_in_its_case() -> None:
    life = Life(law(ladder=[REBOOT], release=ON_PROOF))
    life.cycles(2)
    life.running()
    away = life.nodes.pop("node-3")
    life.hot = False
    life.cycles(12)
    assert life.phase() is Phase.REMEDY
    back = replace(away.machine, node_uid="another", boot_id="another")
    life.nodes["node-3"] = replace(away, machine=back, taints=(), annotations={}, unschedulable=False)
    life.cycle()
    assert life.phase() is Phase.REMEDY
    assert any(taint.value == life.case.id for taint in life.nodes["node-3"].taints), "it is marked again"


def test_no_case_is_retired_while_a_procedure_has_time_left() -> None:
    slow = {"node-reboot": COMMAND.model_copy(update={"timeout": 8 * HOUR})}
    life = Life(replace(law(ladder=[REBOOT], release=ON_PROOF), procedures={**PROCEDURES, **slow}))
    life.cycles(2)
    life.running()
    del life.nodes["node-3"]
    life.cycle()
    life.wait(7 * HOUR)
    assert life.phase() is Phase.REMEDY


def test_a_node_that_is_back_in_time_keeps_its_case() -> None:
    state, nodes = quarantined()
    without = {name: n for name, n in nodes.items() if name != "node-3"}
    state = after(state, plan(snapshot(without, state=state), rules()))
    back = plan(snapshot(nodes, state=state, now=NOW + 30 * MINUTE), rules())
    state = after(state, back)
    assert state.open_case_of("node-3") is not None
    assert state.holds == {}


@pytest.mark.parametrize("seen", ["none", "others", "prefix", "strangers"])
def test_when_many_are_gone_at_once_our_sight_is_suspect(seen: str) -> None:
    state, nodes = quarantined("node-1", "node-2", "node-3", "node-4")
    law = rules()
    if seen == "none":
        known: dict[str, Node] = {}
    elif seen == "others":
        known = {f"other-{n}": node(f"other-{n}") for n in range(20)}
    elif seen == "strangers":  # another cluster has machines under the same names
        known = {name: strange(n) for name, n in nodes.items()}
    else:
        known, law = nodes, replace(law, prefix="another.prefix")
    look = snapshot(known, state=state, given={"gpu-hot": answers(known)}, now=NOW + MINUTE)
    made = plan(look, law)
    assert ("retire", None, "sight") in told(made)
    assert all(case.open for case in after(state, made).cases.values())
    state = after(state, made)
    late = plan(replace(look, state=state, now=NOW + timedelta(days=1)), law)
    assert all(case.open for case in after(state, late).cases.values())
    calm = plan(snapshot(nodes, state=state, now=NOW + 2 * MINUTE), rules())
    assert after(state, calm).holds == {}


def test_what_is_not_believed_of_the_cluster_takes_no_machine_out_and_opens_no_case() -> None:
    state, nodes = quarantined("node-3", "node-4", "node-5")
    others = {name: strange(n) for name, n in nodes.items()}
    newcomer = Taint("quarantine.gpu/suspect", "q-other")
    others["node-8"] = replace(others["node-8"], taints=(newcomer,))
    look = snapshot(others, hot("node-9"), hot("node-10"), state=state, now=NOW + MINUTE)
    made = plan(look, rules())
    assert told(made) == [
        ("retire", None, "sight"),
        ("quarantine", "node-10", "sight"),
        ("quarantine", "node-9", "sight"),
    ]
    state = after(state, made)
    assert plan(replace(look, state=state), rules()).decisions == ()
    assert state.open_case_of("node-9") is None, "a case more would make those that are gone the fewer"
    seen = plan(snapshot(nodes, hot("node-9"), state=state, now=NOW + 2 * MINUTE), rules())
    assert ("quarantine", "node-9", None) in told(seen)
    assert after(state, seen).holds == {}


def test_a_suspicion_is_not_acted_on_or_ended_by_what_is_not_believed() -> None:
    state, nodes = quarantined("node-3", "node-4", "node-5")
    state = after(state, plan(snapshot(nodes, hot("node-9"), state=state, mode=Mode.OBSERVE), rules()))
    others = {name: strange(n) if name in ("node-3", "node-4", "node-5") else n for name, n in nodes.items()}
    held = plan(snapshot(others, hot("node-9"), state=state, now=NOW + MINUTE), rules())
    assert ("quarantine", "node-9", "sight") in told(held)
    well = {"gpu-hot": answers(others, good=[hot("node-9", value=60)])}
    late = snapshot(others, state=after(state, held), given=well, now=NOW + timedelta(days=15))
    assert plan(late, rules()).decisions == ()


def test_a_node_that_was_to_be_replaced_is_waited_for_as_long_as_a_swap_may_take() -> None:
    state, nodes = quarantined()
    del nodes["node-3"]
    look = snapshot(nodes, state=state)
    first = plan(look, rules())
    assert told(first) == [("retire", "node-3", "gone")]
    assert "its provider was told; its case is retired unless it is back within 7d" in first.decisions[0].reason
    state = after(state, first)
    early = plan(replace(look, state=state, now=NOW + timedelta(days=7) - MINUTE), rules())
    assert ("retire", "node-3", None) not in told(early)
    late = plan(replace(look, state=state, now=NOW + timedelta(days=7)), rules())
    assert ("retire", "node-3", None) in told(late)
    assert after(state, late).holds == {}


def test_a_provider_that_is_still_to_be_told_is_not_said_to_know() -> None:
    state = after(State(), plan(snapshot(None, hot("node-3")), rules()))
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.told_provider
    nodes = fleet()
    del nodes["node-3"]
    (gone,) = (d for d in plan(snapshot(nodes, state=state), rules()).decisions if d.action is Action.RETIRE)
    assert "its provider is about to be told; its case is retired unless" in gone.reason


def test_another_machine_in_the_place_of_one_that_the_provider_knows_of_is_a_swap() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = recreated("node-3", system_uuid="other-board", provider_id="acme://other")
    made = plan(snapshot(nodes, state=state), rules())
    assert told(made) == [("swap", "node-3", None)]
    case = after(state, made).open_case_of("node-3")
    assert case is not None
    assert case.is_pending(Effect.MARK)


def test_another_machine_under_the_same_name_retires_the_case() -> None:
    state, nodes = untold()
    nodes["node-3"] = recreated("node-3", system_uuid="other-board", provider_id="acme://other")
    made = plan(snapshot(nodes, state=state), rules(QUIET))
    assert told(made) == [("retire", "node-3", None)]
    ended = after(state, made).cases[made.decisions[0].case or ""]
    assert all(s.status is not EffectStatus.PENDING for s in ended.effects.values())


def test_the_same_machine_made_again_keeps_its_case_and_is_marked_again() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = recreated("node-3")
    made = plan(snapshot(nodes, state=state), rules())
    assert told(made) == [("follow", "node-3", None)]
    state = after(state, made)
    case = state.open_case_of("node-3")
    assert case is not None
    assert case.machine.node_uid == "another"
    assert case.effects[Effect.MARK].status is EffectStatus.PENDING
    later = plan(snapshot(nodes, state=state, now=NOW + timedelta(hours=3)), rules())
    assert later.decisions == (), "it was marked before: quiet metrics do not end it"
    state, nodes = carried_out(state, nodes)
    assert plan(snapshot(nodes, state=state), rules()).decisions == ()


def test_a_dismissal_follows_the_machine_too() -> None:
    state, nodes = quarantined()
    state = after(state, plan(snapshot(nodes, state=state, requests=[ask(RequestKind.RELEASE, "node-3")]), rules()))
    nodes["node-3"] = recreated("node-3")
    made = plan(snapshot(nodes, hot("node-3"), state=state), rules())
    assert ("quarantine", "node-3", "dismissed-by-human") in told(made)


def test_ending_a_case_abandons_what_was_still_to_be_done() -> None:
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, hot("node-3")), rules(QUIET)))
    nodes["node-3"] = recreated("node-3", system_uuid="other-board")
    state = after(state, plan(snapshot(nodes, state=state), rules(QUIET)))
    statuses = {s.status for case in state.cases.values() for s in case.effects.values()}
    assert statuses == {EffectStatus.ABANDONED}


def test_an_old_taint_of_a_case_that_ended_long_ago_is_told_and_opens_nothing() -> None:
    nodes = fleet()
    nodes["node-9"] = node("node-9", taints=(Taint("quarantine.gpu/suspect", "q-old"),))
    state = State(ended=frozenset({"q-old"}))
    made = plan(snapshot(nodes, state=state), rules())
    assert told(made) == [("adopt", "node-9", "foreign-mark")]
    gone = {name: n for name, n in nodes.items() if name != "node-9"}
    swept = after(after(state, made), plan(snapshot(gone, state=after(state, made)), rules()))
    assert swept.holds == {}


def test_the_taint_of_another_nodes_open_case_is_told() -> None:
    state, nodes = quarantined()
    case = state.open_case_of("node-3")
    assert case is not None
    nodes["node-9"] = node("node-9", taints=(Taint("quarantine.gpu/suspect", case.id),))
    assert told(plan(snapshot(nodes, state=state), rules())) == [("adopt", "node-9", "foreign-mark")]


def test_an_adopted_mark_is_no_evidence_for_the_provider() -> None:
    nodes = fleet()
    nodes["node-9"] = node("node-9", taints=(Taint("quarantine.gpu/suspect", "test"),))
    assert told(plan(snapshot(nodes), rules())) == [("adopt", "node-9", None)]


def test_a_suspicion_that_is_never_confirmed_ends_but_not_while_blind() -> None:
    state, late = suspected(), NOW + timedelta(days=15)
    nodes = fleet()
    blind = {"gpu-hot": answers(nodes, trigger=FAILED)}
    held = plan(snapshot(nodes, state=state, now=late, mode=Mode.OBSERVE, given=blind), rules())
    assert told(held) == [("judge", None, "no-answer"), ("release", "node-3", "overdue")]
    assert held.decisions[1].reason == (
        f"case {state.open_case_of('node-3').id} on node-3 is suspected since 2026-11-29: "  # type: ignore[union-attr]
        "whether it is still bad is not known, since policy gpu-hot cannot be judged"
    )
    made = plan(snapshot(nodes, state=state, now=late, mode=Mode.OBSERVE), rules())
    assert told(made) == [("dismiss", "node-3", None)]


SEES_NOTHING = Samples((), "coverage")


def beside(nodes: dict[str, Node], own: PolicyAnswers) -> dict[str, PolicyAnswers]:
    """`own` of gpu-hot, beside a policy whose exporter is not installed."""
    return {"gpu-hot": own, "ib-flapping": answers(nodes, coverage=SEES_NOTHING, key=DOWNED)}


def test_a_policy_that_never_sees_anything_keeps_no_other_policys_case_open() -> None:
    nodes, both = fleet(), rules(policy(), flapping())
    calm = beside(nodes, answers(nodes))
    late = plan(snapshot(nodes, state=suspected(), now=NOW + timedelta(days=15), mode=Mode.OBSERVE, given=calm), both)
    assert ("dismiss", "node-3", None) in told(late)
    waiting = after(State(), plan(snapshot(nodes, given=beside(nodes, answers(nodes, hot("node-3")))), both))
    unmarked = plan(snapshot(nodes, state=waiting, now=NOW + 11 * MINUTE, given=calm), both)
    assert ("dismiss", "node-3", None) in told(unmarked)


def test_one_that_found_it_and_sees_nothing_since_keeps_it_open_and_is_told_once() -> None:
    nodes, both = fleet(), rules(policy(), flapping())
    given = {"gpu-hot": answers(nodes, coverage=SEES_NOTHING), "ib-flapping": answers(nodes, key=DOWNED)}
    look = snapshot(nodes, state=suspected(), now=NOW + timedelta(days=15), mode=Mode.OBSERVE, given=given)
    made = plan(look, both)
    assert told(made) == [("judge", None, "no-coverage"), ("release", "node-3", "overdue")]
    state = after(look.state, made)
    assert plan(replace(look, state=state, now=NOW + timedelta(days=60)), both).decisions == ()
    waiting = after(State(), plan(snapshot(nodes, hot("node-3")), rules()))
    unmarked = plan(snapshot(nodes, state=waiting, now=NOW + 11 * MINUTE, given=given), both)
    assert ("dismiss", "node-3", None) not in told(unmarked)


@pytest.mark.parametrize("seven", [False, True])
def test_a_machine_that_is_not_seen_or_not_in_full_is_not_known_to_be_good(seven: bool) -> None:
    """Its exporter is dead, or a GPU fell off the bus: that nothing bad is found ends nothing."""
    nodes = {name: replace(n, gpus=8) for name, n in fleet().items()}
    others = seen({name: n for name, n in nodes.items() if name != "node-3"})
    left = seen({"node-3": nodes["node-3"]}, devices=7).samples if seven else ()
    given = {"gpu-hot": answers(nodes, coverage=replace(others, samples=(*others.samples, *left)))}
    look = snapshot(nodes, state=suspected(), now=NOW + timedelta(days=15), mode=Mode.OBSERVE, given=given)
    made = plan(look, rules())
    assert told(made) == [("release", "node-3", "overdue")]
    assert "policy gpu-hot cannot see all of the machine" in made.decisions[0].reason
    waiting = after(State(), plan(snapshot(nodes, hot("node-3")), rules()))
    assert plan(snapshot(nodes, state=waiting, now=NOW + 11 * MINUTE, given=given), rules()).decisions == ()


def test_a_policy_that_looks_there_no_more_keeps_no_case_open() -> None:
    nodes = fleet()
    elsewhere = rules(policy(nodeSelector={"gpu": "other"}))
    given = {"gpu-hot": answers({"node-1": replace(nodes["node-1"], labels={"gpu": "other"})})}
    nodes["node-1"] = replace(nodes["node-1"], labels={"gpu": "other"})
    late = snapshot(nodes, state=suspected(), now=NOW + timedelta(days=15), mode=Mode.OBSERVE, given=given)
    assert ("dismiss", "node-3", None) in told(plan(late, elsewhere))


def test_a_suspicion_that_is_still_bad_after_its_deadline_is_told_once() -> None:
    look = snapshot(None, hot("node-3"), state=suspected(), now=NOW + timedelta(days=15), mode=Mode.OBSERVE)
    made = plan(look, rules())
    assert told(made) == [("release", "node-3", "overdue")]
    assert plan(replace(look, state=after(look.state, made)), rules()).decisions == ()


def test_an_overdue_quarantine_is_told_once_and_forgotten_when_it_ends() -> None:
    state, nodes = quarantined()
    look = snapshot(nodes, state=state, now=NOW + timedelta(days=8))
    made = plan(look, rules())
    assert told(made) == [("release", "node-3", "overdue")]
    state = after(state, made)
    assert plan(replace(look, state=state), rules()).decisions == ()
    ended = plan(replace(look, state=state, requests=(ask(RequestKind.RELEASE, "node-3"),)), rules())
    assert after(state, ended).holds == {}


def test_a_mark_that_could_not_be_made_is_not_made_on_old_evidence() -> None:
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, hot("node-3")), rules()))
    soon = plan(snapshot(nodes, state=state, now=NOW + 5 * MINUTE), rules())
    assert soon.decisions == ()
    late = snapshot(nodes, state=state, now=NOW + 11 * MINUTE)
    assert told(plan(late, rules())) == [("dismiss", "node-3", None)]
    still = plan(snapshot(nodes, hot("node-3"), state=state, now=NOW + 11 * MINUTE), rules())
    assert still.decisions == ()
    assert still.bad_nodes == {"node-3"}
    blind = {"gpu-hot": answers(nodes, trigger=FAILED)}
    unknown = plan(snapshot(nodes, state=state, now=NOW + 11 * MINUTE, given=blind), rules())
    assert all(d.action.value != "dismiss" for d in unknown.decisions)


def test_a_mark_is_not_made_for_a_policy_that_no_longer_enforces() -> None:
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, hot("node-3")), rules()))
    watching = rules(policy(mode="observe"))
    assert ("dismiss", "node-3", None) in told(plan(snapshot(nodes, hot("node-3"), state=state), watching))


def test_a_machine_that_recovers_before_it_could_be_marked_is_left_in_service() -> None:
    nodes = fleet()
    state = after(State(), plan(snapshot(nodes, hot("node-3")), rules()))
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, state=state, given=given), rules())
    assert told(made) == [("recover", "node-3", None), ("dismiss", "node-3", None)]


def test_holds_of_a_policy_that_is_no_more_are_lifted() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, hot("ghost-1"), trigger=None), "other": answers(nodes, trigger=FAILED)}
    both = rules(policy(), policy("other"))
    state = after(State(), plan(snapshot(nodes, given=given), both))
    assert len(state.holds) == 2
    renamed = rules(policy("renamed"))
    made = plan(snapshot(nodes, state=state, given={"renamed": answers(nodes)}), renamed)
    assert after(state, made).holds == {}


def test_a_suspicion_of_policies_that_are_no_more_ends() -> None:
    renamed = rules(policy("renamed"))
    nodes = fleet()
    made = plan(snapshot(nodes, state=suspected(), given={"renamed": answers(nodes)}, mode=Mode.OBSERVE), renamed)
    assert told(made) == [("dismiss", "node-3", None)]
