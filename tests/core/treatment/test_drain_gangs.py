"""A gang is interrupted once, on all its quarantined machines together, at a moment that is right for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Case, Effect, EffectState, EffectStatus, Phase, Purpose, Run
from quarantine.core.decision import Decision, Request, RequestKind, State
from quarantine.core.planner import plan
from quarantine.core.response import Drain, Moment
from quarantine.core.workload import Workloads
from tests.core.treatment.floor import Floor, asked, floor, gang, paced, pod, rank
from tests.core.world import MINUTE, NOW, after, carried_out, fleet, hot, policy, rules, snapshot, suspected

LLAMA = "JobSet training/llama"
OUT = ("node-3", "node-4", "node-5")


def training(*names: str, ranks: int = 2, **fields: object) -> Floor:
    """One gang over these machines, all out, and over node-9, which is not."""
    pods = [rank(f"llama-{n}-{r}", n) for n in (*names, "node-9") for r in range(ranks)]
    return floor(*names, pods=pods, **fields)


def begun(decisions: Sequence[Decision]) -> list[str]:
    return [d.node or "" for d in decisions if d.phase is Phase.DRAINING]


def changed(world: Floor, node: str, **changes: object) -> None:
    case = world.case(node)
    world.state = replace(world.state, cases={**world.state.cases, case.id: replace(case, **changes)})  # type: ignore[arg-type]


def interruptions(world: Floor, key: str = LLAMA) -> set[object]:
    """The times at which pods of this gang were asked to leave."""
    return {leaving.at for case in world.state.cases.values() for leaving in case.leaving if key in leaving.gang}


def test_a_gang_over_three_quarantined_machines_is_interrupted_once() -> None:
    world = training(*OUT)
    made = world.plan()
    assert begun(made) == list(OUT)
    assert asked(made) == [[f"llama-{n}-0", f"llama-{n}-1"] for n in OUT]
    assert all(d.leaving.gang == LLAMA for d in made if d.leaving is not None)
    assert made[2].reason == f"node-4 is being drained: {LLAMA} leaves all its quarantined machines at once"
    world.carry_out()
    world.at += MINUTE
    assert asked(world.minutes(5)) == []
    assert {world.phase(n) for n in OUT} == {Phase.DRAINED}
    assert len(interruptions(world)) == 1
    assert world.on("node-9") == ["llama-node-9-0", "llama-node-9-1"], "what is not out is left alone"


def test_what_is_the_moment_on_one_machine_is_the_moment_on_all() -> None:
    patient = Drain(when=Moment.AFTER_CHECKPOINT)
    world = training(*OUT, drain={"node-3": patient, "node-4": patient})
    assert begun(world.plan()) == ["node-5", "node-3", "node-4"]


def test_a_machine_from_which_nothing_is_to_be_drained_stays_out_of_it() -> None:
    world = training(*OUT, drain={"node-4": Drain(when=Moment.NEVER)}, stopped={"node-5"})
    made = world.minutes(3)
    assert begun(made) == ["node-3"]
    assert asked(made) == [["llama-node-3-0", "llama-node-3-1"]]


def test_a_gang_is_whole_however_slow_the_pace() -> None:
    world = training(*OUT, ranks=8, law=paced(evictions=5, machines=1))
    made = world.plan()
    assert begun(made) == list(OUT)
    assert [len(batch) for batch in asked(made)] == [8, 8, 8]


def test_a_gang_is_paid_for_by_silence_afterwards() -> None:
    world = training(*OUT, ranks=8, law=paced(evictions=5))
    world.pods += [pod(f"web-{n}", "node-3") for n in range(7)]
    made = world.minutes(1)
    assert asked(made)[0] == [*(f"web-{n}" for n in range(5)), *(f"llama-node-3-{r}" for r in range(8))]
    # 29 at 5 a minute: nothing for five minutes, and one in the sixth.
    assert asked(world.minutes(4)) == []
    assert asked(world.minutes(1)) == [["web-5"]]
    assert asked(world.minutes(1)) == [["web-6"]]


# --- Waiting for one another ------------------------------------------------------------------------------------------


def test_a_machine_whose_mark_is_about_to_be_written_is_waited_for_and_not_for_ever() -> None:
    world = training(*OUT)
    effects = {**world.case("node-5").effects, Effect.MARK: EffectState(EffectStatus.PENDING)}
    changed(world, "node-5", effects=effects)
    assert world.minutes(9) == []
    made = world.minutes(1)
    assert begun(made) == ["node-3", "node-4"], "its mark is late: it may never be written"


def test_evidence_on_another_machine_is_waited_for() -> None:
    world = training(*OUT)
    run = Run("q-evidence-1", Purpose.EVIDENCE, "bug-report", NOW, NOW + timedelta(minutes=20))
    changed(world, "node-5", runs=(run,))
    assert world.minutes(19) == []
    assert begun(world.minutes(1)) == list(OUT)


def test_a_machine_that_was_not_seen_in_this_cycle_is_waited_for() -> None:
    world = training(*OUT, unseen={"node-4"})
    assert begun(world.minutes(3)) == []
    world.unseen = set()
    assert begun(world.minutes(1)) == list(OUT)


def test_a_machine_whose_node_is_gone_or_was_uncordoned_is_not_waited_for() -> None:
    world = training(*OUT)
    del world.nodes["node-4"]
    world.nodes["node-5"] = replace(world.nodes["node-5"], unschedulable=False)
    assert begun(world.plan()) == ["node-3"]


def settling(world: Floor, node: str, settle: str = "5m") -> None:
    """Another machine of the gang is suspected, and others may still join it."""
    rule = {"by": ["rack"], "machines": 3, "within": "20m", "settle": settle}
    world.law = replace(world.law, policies=(policy(correlation=rule),))
    (case,) = suspected(node).cases.values()
    world.state = replace(world.state, cases={**world.state.cases, case.id: case})


def test_a_suspicion_that_still_settles_is_waited_for_and_then_no_more() -> None:
    world = training(*OUT)
    settling(world, "node-9")
    assert world.minutes(4) == []
    assert begun(world.minutes(1)) == list(OUT), "held or not, the gang waits no longer than the settling"


def test_a_suspicion_elsewhere_is_nothing_to_the_gang() -> None:
    world = training(*OUT)
    settling(world, "node-8")
    assert begun(world.plan()) == list(OUT)


def behind_others(*, bad: bool) -> list[tuple[int, str | None]]:
    """Two machines of one gang go out once a pause is over, one after the other: who is drained, and in which minute.

    `bad`: whether the second one is found bad for as long as it waits.
    """
    pace = {"quarantined": "50%", "unavailable": "60%", "perHour": 4}
    pool = {"name": "gpu", "nodeSelector": {"gpu": "yes"}, "budget": pace}
    law = rules(policy(response={"notify": False, "drain": "now"}), pools=[pool])
    nodes, state, at = fleet(), State(), NOW
    pods = [rank(f"llama-{n}", n) for n in ("node-3", "node-4", "node-5")]
    works = Workloads({n: tuple(p for p in pods if p.node == n) for n in nodes}, {LLAMA: gang(*pods)})
    word = Request("x1", RequestKind.PAUSE, "", "r", "an engineer", "cli", NOW, scope="all")
    over = replace(word, id="x2", kind=RequestKind.RESUME)
    drained = []
    for minute in range(12):
        found = [hot("node-3")] if minute > 1 and not bad else [hot("node-3"), hot("node-4")]
        said = [word] if minute == 0 else [over] if minute == 1 else []
        look = replace(snapshot(nodes, *found, state=state, now=at, requests=said), workloads=works)
        made = plan(look, law)
        state = after(state, made)
        assert plan(replace(look, state=state), law).decisions == ()
        drained += [(minute, d.node) for d in made.decisions if d.phase is Phase.DRAINING]
        state, nodes = carried_out(state, nodes, at)
        at += MINUTE
    return drained


def test_a_machine_whose_turn_among_those_that_were_held_has_not_come_is_waited_for() -> None:
    drained = behind_others(bad=True)
    assert [node for _, node in drained] == ["node-3", "node-4"]
    assert len({minute for minute, _ in drained}) == 1, "the gang falls once"


def test_one_that_is_not_found_bad_any_more_is_not() -> None:
    assert behind_others(bad=False) == [(2, "node-3")]


# --- Several on one machine -------------------------------------------------------------------------------------------


def test_two_gangs_of_one_machine_leave_together_when_the_moment_of_both_has_come() -> None:
    qwen = [rank("qwen-0", "node-3", "Job training/qwen"), rank("qwen-1", "node-8", "Job training/qwen")]
    world = training("node-3", drain={"node-3": Drain(when=Moment.ON_RESTART)})
    world.pods += qwen
    late = {p.gang: gang(*(q for q in world.pods if q.gang == p.gang), youngest=NOW + MINUTE) for p in world.pods}
    world.gangs = {LLAMA: late[LLAMA]}
    assert world.plan() == []
    world.gangs = late
    made = world.plan()
    assert asked(made) == [["llama-node-3-0", "llama-node-3-1", "qwen-0"]]
    assert [d.leaving.gang for d in made if d.leaving is not None] == [f"Job training/qwen, {LLAMA}"]


def test_another_gang_on_a_machine_that_is_drawn_in_waits_for_its_own_moment() -> None:
    patient = Drain(when=Moment.ON_RESTART)
    world = training("node-3", "node-4", drain={"node-4": patient}, law=paced(machines=1))
    qwen = [rank("qwen-0", "node-4", "Job training/qwen"), rank("qwen-1", "node-8", "Job training/qwen")]
    world.pods += qwen
    made = world.minutes(3)
    assert asked(made) == [["llama-node-3-0", "llama-node-3-1"], ["llama-node-4-0", "llama-node-4-1"]]
    assert world.on("node-4") == ["qwen-0"]
    world.gangs = {qwen[0].gang: gang(*qwen, youngest=world.at)}
    assert asked(world.minutes(1)) == [["qwen-0"]]


def test_a_gang_does_not_wait_for_a_service_that_a_disruption_budget_keeps() -> None:
    world = training("node-3", drain={"node-3": Drain(when=Moment.NEVER)})
    world.pods = [pod("web-0", "node-3")]
    world.drain = {}
    world.protected = {"web-0"}
    world.minutes(1)
    ranks = [rank("llama-0", "node-3"), rank("llama-1", "node-4")]
    world.pods += ranks
    made = world.minutes(1)
    assert asked(made) == [["web-0", "llama-0"]], "what is still asked goes along, or it would be forgotten"
    world.minutes(2)
    assert world.on("node-3") == ["web-0"]


def test_a_gang_that_comes_back_to_the_machine_is_not_brought_down_again_but_told() -> None:
    world = training("node-3", law=paced())
    world.minutes(3)
    assert world.phase("node-3") is Phase.DRAINED
    world = training("node-3")
    world.minutes(1)
    again = [
        rank(f"llama-node-3-{r}", "node-3", uid=f"again-{r}", tolerates=True, created_at=world.at) for r in range(2)
    ]
    world.pods += again
    made = world.minutes(90)
    assert asked(made) == []
    assert [d.held_by for d in made if d.held_by is not None] == ["drain"]
    assert len(interruptions(world)) == 1


def test_a_gang_of_one_pod_leaves_at_the_pace_of_all() -> None:
    pods = [rank(f"tune-{n}", "node-3", f"Job training/tune-{n}") for n in range(4)]
    world = floor("node-3", pods=pods, law=paced(evictions=2))
    made = world.minutes(2)
    assert asked(made) == [["tune-0", "tune-1"], ["tune-2", "tune-3"]]
    assert all(d.leaving.gang == "" for d in made if d.leaving is not None)


@pytest.mark.parametrize("when", ["after-checkpoint", "on-restart"])
def test_a_moment_must_hold_for_the_gang_as_a_whole(when: str) -> None:
    world = training(*OUT, drain={n: Drain.model_validate({"when": when}) for n in OUT})
    fresh = {"started_at": NOW + timedelta(seconds=5), "checkpoint_at": NOW + timedelta(seconds=5)}
    world.pods = [replace(p, **fresh) if p.node == "node-3" else p for p in world.pods]  # type: ignore[arg-type]
    world.gangs = {LLAMA: gang(*world.pods, checkpoint_at=NOW - MINUTE, youngest=NOW - MINUTE)}
    assert world.plan() == [], "its pods on one machine say so, and the gang does not"
    world.gangs = {LLAMA: gang(*world.pods, checkpoint_at=NOW + MINUTE, youngest=NOW + MINUTE)}
    assert begun(world.plan()) == list(OUT)


def test_cases_know_nothing_of_a_gang_in_an_earlier_stay() -> None:
    """A machine that was on probation and is bad again is drained anew: what was asked before counts no more."""
    world = training("node-3")
    world.minutes(3)
    case: Case = world.case("node-3")
    later = world.at + timedelta(minutes=30)
    changed(world, "node-3", phase=Phase.QUARANTINED, phase_since=later, effects=case.effects)
    world.at = later + MINUTE
    world.pods += [rank("llama-node-3-0", "node-3", uid="new")]
    assert asked(world.plan()) == [["llama-node-3-0"]]


def test_half_of_a_gang_is_not_left_waiting_for_a_moment() -> None:
    """A machine that was drawn in keeps a pod of a gang that fell: what is left of it does nothing, and is asked."""
    world = training("node-3", "node-4", drain={"node-4": Drain(when=Moment.ON_RESTART)})
    world.doomed = {"llama-node-4-1"}
    world.minutes(5)
    assert world.on("node-4") == ["llama-node-4-1"]
    world.doomed = set()
    made = world.minutes(60)
    assert asked(made) == [["llama-node-4-1"]]
    assert world.phase("node-4") is Phase.DRAINED


def test_a_gang_that_was_named_and_never_asked_is_asked_again_as_a_whole() -> None:
    """A pause, say, came between the decision and the evictions, and lasted until the batch was given up."""
    world = training(*OUT, ranks=4, law=paced(evictions=1))
    world.plan()
    world.at += timedelta(hours=2)
    for name in OUT:
        world.settle(world.case(name), done=True)
    assert [len(batch) for batch in asked(world.plan())] == [4, 4, 4]
