"""What is decided, and what is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Effect, EffectStatus, HeldBy, Phase
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.model import Answer, Mode, Node, PolicyAnswers, Sample, Samples, Taint, Verdict
from quarantine.core.planner import plan
from tests.core.treatment.floor import rank
from tests.core.treatment.life import Life, law
from tests.core.world import (
    DOWNED,
    FAILED,
    MINUTE,
    NOW,
    TEMP,
    after,
    answers,
    ask,
    carried_out,
    flapping,
    fleet,
    hot,
    node,
    nvlink,
    policy,
    quarantined,
    rules,
    seen,
    snapshot,
    suspected,
    told,
)


def flap(nodes: dict[str, Node], number: int = 3) -> PolicyAnswers:
    """A flapping port on one node."""
    labels = {"instance": f"10.0.0.{number}:9100", "device": "mlx5_4", "port": "1"}
    return answers(nodes, Sample(labels, 4.0, NOW, query="q"), key=DOWNED)


def test_a_hot_gpu_is_taken_out_reported_and_asked_for() -> None:
    made = plan(snapshot(None, hot("node-3")), rules())
    assert told(made) == [("quarantine", "node-3", None), ("ticket", "node-3", None), ("notify", "node-3", None)]
    decision = made.decisions[0]
    assert decision.effects == (Effect.MARK, Effect.EVENT, Effect.CONDITION)
    assert decision.verdict is Verdict.BAD
    assert decision.evidence is not None
    assert (decision.evidence.value, decision.evidence.unit, decision.evidence.query) == (
        84.0,
        "°C",
        "bad(temperature)",
    )
    assert decision.evidence.covered == 160
    assert decision.reason == ("GPU 3 (GPU-node-3-3) on node-3 is above 78 °C for 5m, 10% tolerated (84 °C now)")
    assert decision.budget is not None
    assert decision.budget.ours == 0


def test_planning_again_yields_nothing_new() -> None:
    look = snapshot(None, hot("node-3"), hot("node-5"))
    state = after(State(), plan(look, rules()))
    assert plan(replace(look, state=state), rules()).decisions == ()


def test_nothing_bad_nothing_done() -> None:
    made = plan(snapshot(), rules())
    assert made.decisions == ()
    assert made.summary == "0 findings on 20 nodes, 0 open cases; nothing to do"


def test_observe_mode_opens_a_suspicion_once_and_touches_nothing() -> None:
    look = snapshot(None, hot("node-3"), mode=Mode.OBSERVE)
    made = plan(look, rules())
    assert told(made) == [("quarantine", "node-3", "observe-mode")]
    assert made.decisions[0].effects == ()
    state = after(State(), made)
    assert state.open_case_of("node-3").phase is Phase.SUSPECTED  # type: ignore[union-attr]
    assert plan(replace(look, state=state), rules()).decisions == ()


def test_the_lower_of_the_two_modes_holds() -> None:
    made = plan(snapshot(None, hot("node-3")), rules(policy(mode="observe")))
    assert told(made) == [("quarantine", "node-3", "observe-mode")]


def test_a_held_suspicion_is_acted_on_when_the_hold_is_gone_and_still_bad() -> None:
    look = snapshot(None, hot("node-3"), mode=Mode.OBSERVE)
    state = after(State(), plan(look, rules()))
    made = plan(snapshot(None, hot("node-3"), state=state), rules())
    assert told(made)[0] == ("quarantine", "node-3", None)
    assert made.decisions[0].case == state.open_case_of("node-3").id  # type: ignore[union-attr]
    assert after(state, made).holds == {}


def test_a_suspicion_ends_on_positive_evidence_only() -> None:
    state = after(State(), plan(snapshot(None, hot("node-3"), mode=Mode.OBSERVE), rules()))
    silent = plan(snapshot(None, state=state, mode=Mode.OBSERVE), rules())
    assert silent.decisions == ()
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, state=state, mode=Mode.OBSERVE, given=given), rules())
    assert told(made) == [("recover", "node-3", None), ("dismiss", "node-3", None)]
    assert after(state, made).open_case_of("node-3") is None


def test_a_quarantine_is_not_ended_by_quiet_metrics() -> None:
    state, nodes = quarantined()
    given = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, state=state, given=given), rules())
    assert told(made) == [("recover", "node-3", None)]
    assert after(state, made).open_case_of("node-3").phase is Phase.QUARANTINED  # type: ignore[union-attr]


def test_bad_and_good_at_once_is_bad() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, hot("node-3"), good=[hot("node-3", value=60)])}
    made = plan(snapshot(nodes, given=given), rules())
    assert told(made)[0] == ("quarantine", "node-3", None)


def test_an_unanswered_policy_is_unknown_and_held_once() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, trigger=FAILED)}
    look = snapshot(nodes, given=given)
    made = plan(look, rules())
    assert told(made) == [("judge", None, "no-answer")]
    assert made.decisions[0].verdict is Verdict.UNKNOWN
    assert "http://prometheus:9090" in made.decisions[0].reason
    state = after(State(), made)
    assert plan(replace(look, state=state), rules()).decisions == ()
    back = plan(snapshot(nodes, hot("node-3"), state=state), rules())
    assert told(back)[0] == ("judge", None, None)
    assert told(back)[1] == ("quarantine", "node-3", None)


@pytest.mark.parametrize("held_by", [HeldBy.BREAKER, HeldBy.CROWDED])
def test_what_a_policy_found_is_not_gone_on_with_once_it_is_the_suspect_itself(held_by: HeldBy) -> None:
    life = Life(law(ladder=[{"do": "replace", "after": "10m"}], drain={"when": "on-restart", "deadline": "10m"}))
    life.pods = (rank("a", "node-3", gang=""),)
    life.cycles(2)
    if held_by is HeldBy.CROWDED:
        life.nodes = {name: replace(n, gpus=4) for name, n in life.nodes.items()}
    else:
        everywhere = (hot(name, gpu) for name in life.nodes for gpu in range(8))
        given = {"gpu-hot": answers(life.nodes, *everywhere)}
        look = life.look
        life.look = lambda requests=(): replace(look(requests), answers=given)  # type: ignore[method-assign]
    life.cycles(30)
    assert held_by in {hold.held_by for hold in life.state.holds.values()}
    assert life.phase() is Phase.QUARANTINED, "its drain and its replacement wait"


def test_no_coverage_is_held_loudly_even_with_findings() -> None:
    nodes = fleet()
    for coverage in (FAILED, Samples((), "coverage")):
        given = {"gpu-hot": answers(nodes, hot("node-3"), coverage=coverage)}
        made = plan(snapshot(nodes, given=given), rules())
        assert told(made) == [("judge", None, "no-coverage")]


def test_a_name_that_matches_no_node_is_reported_and_never_acted_on() -> None:
    look = snapshot(None, hot("ghost-1"))
    made = plan(look, rules())
    assert told(made) == [("quarantine", "ghost-1", "no-such-node")]
    assert made.decisions[0].verdict is Verdict.UNKNOWN
    state = after(State(), made)
    assert state.cases == {}
    assert plan(replace(look, state=state), rules()).decisions == ()
    gone = plan(snapshot(None, state=state, now=NOW + 10 * MINUTE), rules())
    assert [d.kind for d in gone.decisions] == [Kind.DECIDED]
    assert after(state, gone).holds == {}


def test_more_gpus_than_a_node_has_are_another_clusters() -> None:
    nodes = {name: replace(n, gpus=8) for name, n in fleet().items()}
    doubled = {"gpu-hot": answers(nodes, hot("node-3"), coverage=seen(nodes, devices=16))}
    made = plan(snapshot(nodes, given=doubled), rules())
    assert told(made) == [("judge", None, "crowded")]
    assert "set matchers in the fleet file" in made.decisions[0].reason
    full = seen(nodes, devices=16)
    links: dict[str, Answer] = {
        "dcgm-exporter/NVLINK_REPLAY": Samples((hot("node-3"),), "q"),
        "dcgm-exporter/NVLINK_CRC": FAILED,
    }
    half = {"nvlink": PolicyAnswers(links, {}, dict.fromkeys(links, full), NOW)}
    assert told(plan(snapshot(nodes, given=half), rules(nvlink()))) == [("judge", None, "no-answer")]
    healthy = {"gpu-hot": answers(nodes, good=[hot("node-3", value=60.0)], coverage=full)}
    assert told(plan(snapshot(nodes, given=healthy, state=suspected()), rules())) == [("judge", None, "crowded")]
    untold = {name: replace(n, gpus=None) for name, n in nodes.items()}
    assert told(plan(snapshot(untold, given=doubled), rules()))[0] == ("quarantine", "node-3", None)


def test_a_policy_that_is_held_is_named_in_every_cycles_sentence() -> None:
    nodes = fleet()
    look = snapshot(nodes, given={"gpu-hot": answers(nodes, coverage=Samples((), "coverage"))})
    state = after(State(), plan(look, rules()))
    again = plan(replace(look, state=state), rules())
    assert again.decisions == ()
    assert "policies that are held: gpu-hot (no-coverage)" in again.summary
    assert "nothing to do" not in again.summary


def test_the_breaker_holds_the_policy_not_the_fleet() -> None:
    many = [hot(f"node-{n}", gpu) for n in range(10) for gpu in range(8)]
    made = plan(snapshot(None, *many), rules())
    assert told(made) == [("judge", None, "breaker")]
    assert made.decisions[0].evidence is not None
    assert made.decisions[0].evidence.offenders == 80


def test_the_breaker_never_trips_on_one_machine() -> None:
    nodes = fleet(2)
    all_of_one = [hot("node-1", gpu) for gpu in range(8)]
    made = plan(snapshot(nodes, *all_of_one), rules())
    assert told(made)[0] == ("quarantine", "node-1", None)


def test_findings_of_one_machine_make_one_case() -> None:
    made = plan(snapshot(None, hot("node-3", 1), hot("node-3", 2)), rules())
    assert [t[0] for t in told(made)] == ["quarantine", "join", "ticket", "notify"]
    case = after(State(), made).open_case_of("node-3")
    assert case is not None
    assert len(case.findings) == 2


def test_two_faults_in_one_instant_by_two_policies_join_one_case() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": flap(nodes)}
    look = snapshot(nodes, given=given)
    both = rules(policy(), flapping(severity="fatal"))
    made = plan(look, both)
    assert [t[0] for t in told(made)] == ["quarantine", "join", "ticket", "notify"]
    assert made.decisions[0].policy == "ib-flapping", "the most severe leads"
    assert plan(replace(look, state=after(State(), made)), both).decisions == ()


def test_an_observing_policy_does_not_hold_back_an_enforcing_one_nor_flip_flop() -> None:
    nodes = fleet()
    given = {"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": flap(nodes)}
    watching = rules(policy(mode="observe"), flapping(mode="observe", severity="warning"))
    look = snapshot(nodes, given=given)
    first = plan(look, watching)
    assert told(first) == [("quarantine", "node-3", "observe-mode"), ("join", "node-3", None)]
    assert plan(replace(look, state=after(State(), first)), watching).decisions == ()
    enforcing = rules(policy(mode="observe"), flapping(severity="warning"))
    made = plan(look, enforcing)
    assert made.decisions[0].policy == "ib-flapping"
    assert made.decisions[0].held_by is None


def test_a_new_finding_by_another_policy_joins_a_held_case() -> None:
    nodes = fleet()
    watching = rules(policy(mode="observe"), flapping(mode="observe", severity="fatal"))
    quiet = {"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": answers(nodes, key=DOWNED)}
    state = after(State(), plan(snapshot(nodes, given=quiet), watching))
    both = {"gpu-hot": answers(nodes, hot("node-3")), "ib-flapping": flap(nodes)}
    made = plan(snapshot(nodes, given=both, state=state), watching)
    assert told(made) == [("join", "node-3", None)]


def test_opt_out_never_touch_and_no_pool_are_holds_without_a_case() -> None:
    nodes = fleet()
    nodes["node-1"] = node("node-1", labels={"gpu": "yes", "quarantine.gpu/ignore": "true"})
    nodes["node-2"] = node("node-2", labels={})
    look = snapshot(nodes, hot("node-1"), hot("node-2"), hot("node-4"))
    made = plan(look, rules(never_touch=["node-4"]))
    assert sorted(told(made)) == [
        ("quarantine", "node-1", "ignored"),
        ("quarantine", "node-2", "not-in-pool"),
        ("quarantine", "node-4", "ignored"),
    ]
    state = after(State(), made)
    assert state.cases == {}
    assert plan(replace(look, state=state), rules(never_touch=["node-4"])).decisions == ()
    calm = plan(snapshot(nodes, state=state, now=NOW + 10 * MINUTE), rules(never_touch=["node-4"]))
    assert after(state, calm).holds == {}


def test_a_node_selector_limits_a_policy() -> None:
    made = plan(snapshot(None, hot("node-3")), rules(policy(nodeSelector={"model": "b200"})))
    assert all(d.action is not Action.QUARANTINE for d in made.decisions)


def small_pool(**budget: object) -> list[dict[str, object]]:
    return [{"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": budget}]


def test_the_budget_takes_the_most_severe_and_holds_the_rest() -> None:
    pools = small_pool(quarantined=1, unavailable=5, perHour=5)
    look = snapshot(None, hot("node-3"), hot("node-5"))
    made = plan(look, rules(pools=pools))
    assert ("quarantine", "node-3", None) in told(made)
    assert ("quarantine", "node-5", "budget") in told(made)
    state = after(State(), made)
    assert plan(replace(look, state=state), rules(pools=pools)).decisions == ()


def test_what_is_out_for_other_reasons_counts_against_the_budget() -> None:
    nodes = fleet()
    for n in (7, 8):
        nodes[f"node-{n}"] = node(f"node-{n}", unschedulable=True)
    made = plan(snapshot(nodes, hot("node-3")), rules(pools=small_pool(quarantined=5, unavailable=2, perHour=5)))
    assert told(made) == [("quarantine", "node-3", "budget")]


def test_a_dead_node_costs_no_budget() -> None:
    nodes = fleet()
    nodes["node-3"] = node("node-3", ready=False)
    nodes["node-7"] = node("node-7", unschedulable=True)
    made = plan(snapshot(nodes, hot("node-3")), rules(pools=small_pool(quarantined=1, unavailable=1, perHour=1)))
    assert told(made)[0] == ("quarantine", "node-3", None)


def test_a_restart_grants_no_budget_and_the_pace_is_remembered() -> None:
    pools = small_pool(quarantined=9, unavailable=9, perHour=1)
    state = after(State(), plan(snapshot(None, hot("node-3")), rules(pools=pools)))
    later = plan(snapshot(None, hot("node-3"), hot("node-5"), state=state, now=NOW + 59 * MINUTE), rules(pools=pools))
    assert told(later) == [("quarantine", "node-5", "budget")]
    state = after(state, later)
    hour = plan(snapshot(None, hot("node-3"), hot("node-5"), state=state, now=NOW + 61 * MINUTE), rules(pools=pools))
    assert told(hour)[0] == ("quarantine", "node-5", None)


def test_marks_the_ledger_does_not_know_count_as_ours() -> None:
    nodes = fleet()
    nodes["node-9"] = node("node-9", taints=(Taint("quarantine.gpu/suspect", "q-old"),))
    made = plan(snapshot(nodes, hot("node-3")), rules(pools=small_pool(quarantined=1, unavailable=9, perHour=9)))
    assert ("quarantine", "node-3", "budget") in told(made)


def test_an_unknown_mark_is_adopted_and_never_removed() -> None:
    nodes = fleet()
    nodes["node-9"] = node("node-9", taints=(Taint("quarantine.gpu/suspect", "q-old"),))
    made = plan(snapshot(nodes), rules())
    assert told(made)[0] == ("adopt", "node-9", None)
    state = after(State(), made)
    case = state.cases["q-old"]
    assert case.phase is Phase.QUARANTINED
    assert case.effects[Effect.MARK].status is EffectStatus.DONE
    assert all(Effect.UNMARK not in d.effects for d in made.decisions)


def test_a_taint_removed_by_hand_puts_the_node_back_and_is_not_fought() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = replace(nodes["node-3"], taints=())
    look = snapshot(nodes, hot("node-3"), state=state, now=NOW + MINUTE)
    made = plan(look, rules())
    assert told(made) == [("dismiss", "node-3", None), ("quarantine", "node-3", "dismissed-by-human")]
    assert made.decisions[0].effects == (Effect.UNMARK, Effect.CONDITION, Effect.CLOSE)
    state = after(state, made)
    assert plan(replace(look, state=state), rules()).decisions == ()
    later = plan(replace(look, state=state, now=NOW + timedelta(days=8)), rules())
    assert ("quarantine", "node-3", None) in told(later)


def test_another_fault_on_a_dismissed_machine_is_acted_on() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = replace(nodes["node-3"], taints=())
    state = after(state, plan(snapshot(nodes, hot("node-3"), state=state), rules()))
    made = plan(snapshot(nodes, hot("node-3"), hot("node-3", gpu=6), state=state, now=NOW + MINUTE), rules())
    assert ("quarantine", "node-3", None) in told(made)


def test_a_vanished_cordon_is_not_a_release() -> None:
    state, nodes = quarantined()
    nodes["node-3"] = replace(nodes["node-3"], unschedulable=False)
    assert told(plan(snapshot(nodes, hot("node-3"), state=state), rules())) == [("drain", "node-3", "uncordoned")]


def test_a_person_opens_a_case() -> None:
    look = snapshot(None, requests=[ask(RequestKind.OPEN, "node-6")])
    made = plan(look, rules())
    assert told(made) == [("quarantine", "node-6", None), ("ticket", "node-6", None), ("notify", "node-6", None)]
    assert made.decisions[0].request == "r1"
    assert made.decisions[0].actor == "an engineer (cli)"
    assert plan(replace(look, state=after(State(), made)), rules()).decisions == ()


def test_a_person_asks_for_what_cannot_be() -> None:
    asked = [ask(RequestKind.OPEN, "nowhere", 1), ask(RequestKind.RELEASE, "node-6", 2)]
    made = plan(snapshot(None, requests=asked), rules())
    assert [d.action for d in made.decisions] == [Action.ANSWER, Action.ANSWER]
    assert "no node of this cluster is called nowhere" in made.decisions[0].reason
    assert "no case is open on node-6" in made.decisions[1].reason


def test_a_person_opens_in_observe_mode_and_it_waits() -> None:
    made = plan(snapshot(None, requests=[ask(RequestKind.OPEN, "node-6")], mode=Mode.OBSERVE), rules())
    assert told(made) == [("quarantine", "node-6", "observe-mode")]


def test_a_person_releases_and_the_findings_are_left_alone() -> None:
    state, nodes = quarantined()
    made = plan(snapshot(nodes, hot("node-3"), state=state, requests=[ask(RequestKind.RELEASE, "node-3")]), rules())
    assert told(made) == [("release", "node-3", None), ("quarantine", "node-3", "dismissed-by-human")]
    assert made.decisions[0].effects == (Effect.UNMARK, Effect.CONDITION, Effect.CLOSE)
    state = after(state, made)
    assert plan(snapshot(nodes, hot("node-3"), state=state), rules()).decisions == (), "until it is unmarked as well"


def test_a_tripped_breaker_and_a_full_budget_block_no_release() -> None:
    state, nodes = quarantined()
    many = [hot(f"node-{n}", gpu) for n in range(10) for gpu in range(8)]
    pools = small_pool(quarantined=1, unavailable=1, perHour=1)
    look = snapshot(nodes, *many, state=state, requests=[ask(RequestKind.RELEASE, "node-3")])
    assert ("release", "node-3", None) in told(plan(look, rules(pools=pools)))


def test_an_address_of_two_nodes_is_ambiguous() -> None:
    nodes = fleet()
    nodes["node-5"] = node("node-5", addresses=("10.0.0.3",))
    given = {"ib-flapping": flap(nodes)}
    made = plan(snapshot(nodes, given=given), rules(flapping()))
    assert told(made) == [("quarantine", "10.0.0.3:9100", "ambiguous-node")]


def test_strays_beyond_a_number_are_told_together() -> None:
    ghosts = [hot(f"ghost-{n}") for n in range(50)]
    made = plan(snapshot(None, *ghosts), rules())
    assert len(made.decisions) == 21
    assert "30 more devices" in made.decisions[-1].reason


def test_kill_switch_stops_tickets_of_cases_that_are_out_already() -> None:
    made = plan(snapshot(None, hot("node-3")), rules())
    only_marked = [d for d in made.decisions if d.action is Action.QUARANTINE]
    state, nodes = carried_out(after(State(), replace(made, decisions=tuple(only_marked))), fleet())
    assert plan(snapshot(nodes, hot("node-3"), state=state, mode=Mode.OBSERVE), rules()).decisions == ()


def test_decisions_carry_what_a_reader_needs_in_a_year() -> None:
    decision: Decision = plan(snapshot(None, hot("node-3")), rules()).decisions[0]
    assert decision.policy_hash == policy().hash
    assert decision.policy_revision == "abc123"
    assert decision.machine == node("node-3").machine
    assert decision.evidence is not None
    assert decision.evidence.source == TEMP
    assert decision.evidence.labels["Hostname"] == "node-3"
    assert decision.held_by is not HeldBy.BUDGET
