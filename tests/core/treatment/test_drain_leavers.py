"""Pods that were asked to leave and do not: what is told, and what is asked again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import Phase
from tests.core.treatment.floor import asked, held, one, paced, pod
from tests.core.world import MINUTE, NOW

HOUR = timedelta(hours=1)


def test_a_disruption_budget_that_refuses_for_long_is_told_once_and_nothing_else_is_asked_meanwhile() -> None:
    world = one(pod("web-0", "node-3"), pod("web-1", "node-3"), blocked="1h")
    world.protected = {"web-1"}
    made = world.minutes(90)
    assert asked(made) == [["web-0", "web-1"]]
    ((by, why),) = held(made)
    assert by == "drain"
    assert why.startswith("inference/web-1 were asked to leave node-3 at 2026-11-29 12:01 UTC and have not")
    world.protected = set()
    made = world.minutes(4)
    assert world.phase("node-3") is Phase.DRAINED
    assert world.state.holds == {}


def test_a_pod_that_can_never_be_evicted_is_told_at_once_and_the_drain_goes_on_with_the_others() -> None:
    world = one(pod("a-doomed", "node-3"), pod("web-0", "node-3"))
    world.doomed = {"a-doomed"}
    world.law = paced(evictions=1)
    made = world.minutes(4)
    assert asked(made) == [["a-doomed"], ["web-0"]]
    ((by, why),) = held(made)
    assert by == "drain"
    assert why.startswith("inference/a-doomed cannot be evicted from node-3")
    made = world.minutes(120)
    assert asked(made) == [["a-doomed"], ["a-doomed"]], "once an hour: somebody may have mended its budgets"
    assert held(made) == [], "it is told once"
    world.doomed = set()
    world.minutes(65)
    assert world.phase("node-3") is Phase.DRAINED


def test_a_stateful_pod_that_comes_back_is_asked_twice_more_and_then_told() -> None:
    """Failure case 21: a StatefulSet's pod returns under its name, and the drain must not loop."""
    owner = {"owner": "StatefulSet inference/db", "tolerates": True}
    world = one(pod("db-0", "node-3", **owner))
    made = []
    for again in range(12):
        made += world.minutes(2)
        if not world.on("node-3"):
            world.pods = [pod("db-0", "node-3", uid=f"again-{again}", created_at=world.at, **owner)]
    assert [len(batch) for batch in asked(made)] == [1, 1, 1]
    ((by, why),) = held(made)
    assert by == "drain"
    assert why.startswith("inference/db-0 came back to node-3")
    assert "StatefulSet inference/db" in why
    assert world.phase("node-3") is Phase.DRAINING


def test_a_replica_set_that_tolerates_the_taint_does_not_loop_either() -> None:
    owner = {"owner": "ReplicaSet inference/web-7d9f", "tolerates": True}
    old = NOW - HOUR
    world = one(*(pod(f"web-7d9f-a{n}", "node-3", created_at=old, **owner) for n in range(3)))
    world.law = paced(evictions=1)
    made, number = [], 0
    for _ in range(40):
        made += world.minutes(1)
        while len(world.on("node-3")) < 3:
            number += 1
            world.pods.append(pod(f"web-7d9f-b{number}", "node-3", created_at=world.at, **owner))
    assert 6 <= len(asked(made)) <= 12, "three at a time, each asked again at most twice"
    assert [by for by, _ in held(made)] == ["drain"]
    assert world.minutes(60) == []


def test_replicas_that_were_there_from_the_beginning_have_not_come_back() -> None:
    owner = {"owner": "ReplicaSet inference/web-7d9f", "tolerates": True, "created_at": NOW - HOUR}
    world = one(*(pod(f"web-7d9f-{n}", "node-3", **owner) for n in range(8)))
    world.law = paced(evictions=1)
    made = world.minutes(12)
    assert len(asked(made)) == 8
    assert held(made) == []


def test_pods_that_do_not_end_are_told() -> None:
    world = one(pod("web-0", "node-3"))
    world.plan()
    world.settle(world.case("node-3"), done=True)
    world.pods = [replace(world.pods[0], terminating=True, running=False)]
    made = []
    for _ in range(90):
        made += world.plan()
        world.at += MINUTE
    assert [by for by, _ in held(made)] == ["drain"]
    assert "were told to end long ago" in made[0].reason
