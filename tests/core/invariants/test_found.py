"""Defects that the random histories found, each as short as it could be told."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import HeldBy
from quarantine.core.decision import Action, Decision, Kind, RequestKind, State
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from tests.core.invariants.kube import PREFIX
from tests.core.invariants.laws import BIG, law
from tests.core.invariants.prom import FAILED
from tests.core.invariants.world import World
from tests.core.world import NOW, after, answers, fleet, hot, policy, quarantined, rules, snapshot

MINUTE = timedelta(minutes=1)
POOL = {"name": BIG, "nodeSelector": {"gpu": "yes"}, "budget": {"quarantined": 3, "unavailable": 9, "perHour": 9}}


def twice(look: Snapshot, by: Rules) -> tuple[list[Decision], list[Decision]]:
    """What is decided, and what is decided again on the result."""
    made = plan(look, by)
    again = plan(replace(look, state=after(look.state, made)), by)
    return list(made.decisions), list(again.decisions)


def test_an_annotation_of_a_node_that_left_is_forgotten_once_and_not_in_the_cycle_in_which_its_case_ends() -> None:
    state, nodes = quarantined("node-3")
    said = {**nodes["node-3"].annotations, f"{PREFIX}/maintenance-until": "next week"}
    nodes["node-3"] = replace(nodes["node-3"], annotations=said)
    state = after(state, plan(snapshot(nodes, hot("node-3"), state=state, now=NOW + MINUTE), rules()))
    assert any(hold.held_by is HeldBy.BROKEN_ANNOTATION for hold in state.holds.values())
    del nodes["node-3"]
    for minutes in (2, 60 * 24 * 8):
        look = snapshot(nodes, state=state, now=NOW + minutes * MINUTE)
        _made, again = twice(look, rules())
        assert again == []
        state = after(state, plan(look, rules()))
    assert not any(case.open for case in state.cases.values())
    state = after(state, plan(snapshot(nodes, state=state, now=NOW + timedelta(days=9)), rules()))
    assert not state.holds


def test_a_gpu_that_is_another_one_when_the_provider_is_told_was_not_exchanged_for_it() -> None:
    ladder = [{"do": "report", "after": "2h"}]
    by = law([policy(response={"ladder": ladder, "notify": False})], [POOL])
    world = World(by)
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}
    world.cycle()
    world.pass_(MINUTE)
    world.cycle()
    world.exchange_gpu("node-2", 0)
    world.pass_(timedelta(hours=3))
    world.cycle()  # and planned again, which yields nothing
    case = world.open_cases()[0]
    assert [str(rung.step) for rung in case.rungs] == ["report"]
    assert case.swapped_at is None


def test_an_incident_that_keeps_no_machine_from_anything_is_not_told() -> None:
    """One of two findings on a machine that is out is a group's doing; the other is its own, and is acted on."""
    correlation = {"by": ["rack"], "machines": 2, "within": "20m"}
    share = {"maxShare": "20%"}
    quiet = policy(correlation=correlation, response={"notify": False}, breaker=share)
    world = World(law([quiet], [POOL]))
    world.prom.bad["gpu-hot"] = {world.gpus["node-3"][1]}
    world.cycle()
    world.pass_(timedelta(hours=1))
    for name in ("node-3", "node-4", "node-5"):
        world.prom.bad["gpu-hot"].add(world.gpus[name][0])
    world.cycle()
    world.pass_(MINUTE)
    # It is not answered, so that nothing but what is owed to the first machine looks into who fails together.
    world.prom.failing = {"trigger": FAILED}
    world.law = law([policy(correlation=correlation, response={"notify": True}, breaker=share)], [POOL])
    world.cycle()  # and planned again, which yields nothing
    assert [d.node for d in world.book.trail if d.action is Action.NOTIFY and d.kind is Kind.DECIDED] == ["node-3"]


def test_a_cordon_of_ours_stays_ours_though_the_policy_would_set_none_when_the_mark_is_put_back() -> None:
    world = World(law([policy(response={"notify": False})], [POOL]))
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}
    world.cycle()
    assert world.kube.held["node-2"].unschedulable
    world.kube.retaint("node-2", [], "kubectl")
    world.kube.follow_cordons()
    world.kube.change("node-2", tainted_by="driver-manager")
    world.law = law([policy(response={"notify": False, "cordon": False})], [POOL])
    world.pass_(MINUTE)
    world.cycle()
    assert len(world.open_cases()[0].put_back) == 1
    world.ask(RequestKind.RELEASE, "node-2")
    world.pass_(MINUTE)
    world.cycle()
    assert not world.kube.held["node-2"].unschedulable, "released means usable"


def test_a_machine_that_is_held_for_its_label_is_still_one_of_those_that_failed_together() -> None:
    correlation = {"by": ["rack"], "machines": 2, "within": "1h"}
    by = rules(policy(correlation=correlation), topology={"rack": "rack"})
    nodes = {name: replace(n, labels={**n.labels, "rack": f"r{i // 3}"}) for i, (name, n) in enumerate(fleet().items())}
    bad = (hot("node-0"), hot("node-1"))
    state = after(State(), plan(snapshot(nodes, *bad), by))
    assert {case.held_by for case in state.cases.values()} == {HeldBy.CORRELATED}
    nodes["node-0"] = replace(nodes["node-0"], labels={"rack": "r0"})
    look = snapshot(nodes, *bad, state=state, now=NOW + MINUTE, given={"gpu-hot": answers(nodes, *bad)})
    made, again = twice(look, by)
    assert [(d.node, d.held_by) for d in made] == [("node-0", HeldBy.NOT_IN_POOL)]
    assert again == []


def test_a_person_who_releases_what_an_old_ledger_only_suspects_has_its_mark_taken_away() -> None:
    world = World(law([policy(correlation={"by": ["rack"], "within": "1h", "settle": "5m"})], [POOL]))
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}
    world.cycle()
    backup = len(world.book.trail)
    world.pass_(6 * MINUTE)
    world.cycle()
    assert world.open_cases()[0].marked
    world.book.restore(backup)
    world.restart(0)
    world.pass_(MINUTE)
    world.cycle()
    assert [str(hold.held_by) for hold in world.state.holds.values()] == ["restored-ledger"] * 2
    world.ask(RequestKind.RELEASE, "node-2")
    world.pass_(MINUTE)
    world.cycle()  # and planned again, which yields nothing
    assert not world.kube.held["node-2"].unschedulable
    world.pass_(MINUTE)
    world.cycle()
    assert "restored" not in world.state.holds
    assert not any(hold.held_by is HeldBy.FOREIGN_MARK for hold in world.state.holds.values())


def test_marks_that_are_taken_over_leave_no_second_case_on_a_node_whose_machine_is_another_one() -> None:
    world = World(law([policy(correlation={"by": ["rack"], "within": "1h", "settle": "5m"})], [POOL]))
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}
    world.cycle()
    backup = len(world.book.trail)
    world.swap("node-2", same_object=False)
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}
    for _ in range(2):
        world.pass_(6 * MINUTE)
        world.cycle()
    assert world.open_cases()[0].marked
    world.book.restore(backup)
    world.restart(0)
    world.pass_(MINUTE)
    world.cycle()
    world.ask(RequestKind.ADOPT)
    world.pass_(MINUTE)
    world.cycle()
    assert [case.phase.value for case in world.open_cases()] == ["quarantined"]


def test_a_machine_is_out_of_the_pool_that_it_was_in_when_it_was_taken_out() -> None:
    pools = [POOL, {"name": "small", "nodeSelector": {"gpu": "small"}}]
    world = World(law([policy()], pools))
    world.ask(RequestKind.PAUSE, scope="pool/small")
    world.prom.bad["gpu-hot"] = {world.gpus["node-7"][0]}
    world.cycle()
    assert world.open_cases()[0].held_by is HeldBy.PAUSED
    world.label("node-7", "gpu", "yes")
    world.pass_(10 * MINUTE)
    world.cycle()
    assert [(case.marked, case.pool) for case in world.open_cases()] == [(True, BIG)]
    assert world.kube.held["node-7"].unschedulable


def test_a_succeeded_process_does_not_mark_a_node_whose_case_a_person_has_ended_meanwhile() -> None:
    world = World(law([policy()], [POOL]))
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}

    def successor() -> None:
        trying, look = world.book.trying, world.watch.look
        world.ask(RequestKind.RELEASE, "node-2")
        world.clock.at += timedelta(seconds=1)
        world.cycle(1)
        world.book.trying, world.watch.look = trying, look

    world.kube.meanwhile = successor
    world.cycle()
    assert world.kube.held["node-2"].taints == ()
    world.pass_(MINUTE)
    world.cycle(1)
    node = world.kube.held["node-2"]
    assert (node.taints, node.unschedulable) == ((), False)
    assert not any(key.startswith("quarantine.gpu/") for key in (*node.labels, *node.annotations))


def test_a_machine_whose_domain_waits_for_another_at_the_gate_costs_nothing_to_take_out() -> None:
    """A domain is of no use while one that it needs is still to be let in: that is no budget's to keep in service."""
    domain = {"gate": {"burnIn": "burn-in"}, "domain": {"by": "domain", "machines": 2}}
    budget = {"budget": {"quarantined": 1, "unavailable": 1, "perHour": 1}}
    world = World(law([policy(response={"notify": False})], [{**POOL, **domain, **budget}]))
    world.cycle()
    world.join("node-1")
    world.cycle()
    assert [(case.node, case.gate) for case in world.open_cases()] == [("node-1", True)]
    world.prom.bad["gpu-hot"] = {world.gpus["node-0"][0]}
    world.cycle()  # and the invariants are looked at
    assert [case.node for case in world.open_cases() if case.marked] == ["node-1", "node-0"]
