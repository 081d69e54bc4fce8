"""How many machines are emptied at once, and how many pods are asked to leave in a minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import Leaving, Phase, PodRef
from quarantine.core.response import Drain, Moment
from quarantine.core.treatment.drain import drain_waits
from quarantine.core.treatment.pace import evictions_left, paid_at
from tests.core.treatment.floor import Floor, asked, floor, paced, pod, rank
from tests.core.world import MINUTE, NOW, policy, rules

NAMES = tuple(f"node-{n}" for n in range(1, 6))


def services(each: int = 1, **fields: object) -> Floor:
    """Five machines out, with so many services on each of them."""
    return floor(*NAMES, pods=[pod(f"web-{name}-{n}", name) for name in NAMES for n in range(each)], **fields)


def draining(world: Floor) -> int:
    return sum(case.phase is Phase.DRAINING for case in world.state.cases.values())


def test_no_more_machines_are_emptied_at_once_than_the_pool_allows() -> None:
    world = services(law=paced(machines=2))
    seen = []
    for _ in range(20):
        world.plan()
        seen.append(draining(world))
        world.carry_out()
        world.at += MINUTE
    assert max(seen) == 2
    assert {case.phase for case in world.state.cases.values()} == {Phase.DRAINED}


def test_no_more_pods_are_asked_in_a_minute_than_the_pool_allows() -> None:
    world = services(each=4, law=paced(evictions=3))
    sizes = []
    for _ in range(40):
        sizes.append(sum(len(batch) for batch in asked(world.plan())))
        world.carry_out()
        world.at += MINUTE / 4
    assert max(sum(sizes[n : n + 4]) for n in range(40)) == 3
    assert sum(sizes) == 20


def test_a_machine_whose_evictions_are_blocked_leaves_its_place_to_others() -> None:
    """Failure cases 20 and 24: a place is held by nobody who does nothing with it."""
    world = services(law=paced(machines=1))
    world.protected = {"web-node-1-0"}
    world.plan()
    assert world.phase("node-1") is Phase.DRAINING
    assert draining(world) == 1
    world.carry_out()
    world.at += MINUTE
    assert world.plan() == []
    world.carry_out()
    world.at += MINUTE
    assert [d.node for d in world.plan() if d.phase is Phase.DRAINING] == ["node-2"], "tried twice, for two minutes"


def test_a_request_that_was_tried_twice_is_blocked_however_young_it_is() -> None:
    world = services(law=paced(machines=1))
    world.plan()
    world.attempts = {world.case("node-1").id: 2}
    assert [d.node for d in world.plan() if d.phase is Phase.DRAINING] == ["node-2"]


def test_a_machine_whose_node_is_gone_leaves_its_place_to_others() -> None:
    """Failure case 20: a slot is held by a node that is gone."""
    world = services(law=paced(machines=1))
    world.plan()
    del world.nodes["node-1"]
    assert [d.node for d in world.plan() if d.phase is Phase.DRAINING] == ["node-2"]


def test_a_drain_that_a_person_stopped_leaves_its_place_to_others() -> None:
    world = services(law=paced(machines=1))
    world.plan()
    world.stopped = {"node-1"}
    assert [d.node for d in world.plan() if d.phase is Phase.DRAINING] == ["node-2"]


def test_a_machine_that_waits_for_pods_to_end_keeps_its_place_for_a_while() -> None:
    world = services(law=paced(machines=1))
    world.plan()
    world.settle(world.case("node-1"), done=True)
    ended = {"terminating": True, "running": False}
    world.pods = [replace(p, **ended) if p.node == "node-1" else p for p in world.pods]  # type: ignore[arg-type]
    world.at += timedelta(minutes=59)
    assert world.plan() == []
    world.at += timedelta(minutes=1)
    assert [d.node for d in world.plan() if d.phase is Phase.DRAINING] == ["node-2"]


def test_a_machine_that_waits_for_the_moment_of_a_gang_keeps_no_place() -> None:
    world = services(law=paced(machines=1), drain={"node-1": Drain(when=Moment.ON_RESTART)})
    world.minutes(1)
    assert world.phase("node-1") is Phase.DRAINING
    late = rank("late", "node-1", "Job training/late", tolerates=True)
    world.pods = [*(p for p in world.pods if p.node != "node-1"), late]
    assert [d.node for d in world.plan() if d.phase is Phase.DRAINING] == ["node-2"]


def test_gangs_take_one_place_whatever_their_size() -> None:
    pods = [rank(f"a-{n}", n, "Job t/a") for n in NAMES[:3]] + [rank(f"b-{n}", n, "Job t/b") for n in NAMES[3:]]
    world = floor(*NAMES, pods=pods, law=paced(machines=2))
    world.plan()
    assert draining(world) == 5
    world = floor(*NAMES, pods=pods, law=paced(machines=1))
    world.plan()
    assert draining(world) == 3


def test_each_pool_has_its_own_pace() -> None:
    budget = {"quarantined": "50%", "unavailable": "90%", "perHour": "50%"}
    pace = {"evictionsPerMinute": 1, "machinesAtOnce": 1}
    law = rules(pools=[{"name": "other", "nodeSelector": {"x": "y"}, "budget": budget, "drain": pace}])
    world = services(law=law)
    assert len(asked(world.plan())) == 2, "a pool that is no more has the usual pace"


def spent(world: Floor, *batches: tuple[int, int]) -> int:
    """What is left of ten a minute at NOW + 10 min, where batches of so many were asked so many seconds before."""
    at = NOW + 10 * MINUTE
    case = world.case("node-1")
    leaving = [
        Leaving(at - timedelta(seconds=ago), tuple(PodRef("n", f"{ago}-{i}", f"{ago}-{i}") for i in range(count)))
        for count, ago in batches
    ]
    cases = {**world.state.cases, case.id: replace(case, leaving=tuple(leaving))}
    return evictions_left(replace(world.state, cases=cases), paced(evictions=10), "gpu", at)


def test_the_pace_is_counted_over_the_last_minute_and_a_gang_for_as_long_as_it_costs() -> None:
    world = services()
    assert spent(world) == 10
    assert spent(world, (4, 59), (3, 30)) == 3
    assert spent(world, (4, 60), (3, 30)) == 7
    assert spent(world, (64, 0)) == 0
    assert spent(world, (64, 359)) == 0
    assert spent(world, (64, 360)) == 6
    assert spent(world, (64, 420)) == 10


def test_whoever_steps_through_time_knows_when_a_pace_is_paid() -> None:
    world = services(law=paced(evictions=2))
    world.pods = [rank(f"r-{n}", "node-1") for n in range(5)]
    world.plan()
    assert paid_at(world.state, world.law) == {world.at + n * MINUTE for n in (1, 2, 3)}
    drain = {"when": "on-restart", "deadline": "3h", "blocked": "20m"}
    waits = drain_waits(rules(policy(response={"drain": drain})))
    assert {timedelta(hours=3), timedelta(minutes=20), MINUTE, timedelta(days=1)} <= waits
