"""One incident is told once; jobs, exporters and what has not lasted yet count as well; a pool has a breaker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Decision, State
from quarantine.core.model import Failed, FailureKind, Node, Sample, Samples
from quarantine.core.planner import plan
from quarantine.core.policy import Rules
from quarantine.core.snapshot import Snapshot
from quarantine.core.workload import Gang, Workloads
from tests.core.test_correlate import ONE_INCIDENT, law, racked
from tests.core.world import (
    MINUTE,
    NOW,
    TEMP,
    after,
    answers,
    carried_out,
    fleet,
    hot,
    node,
    policy,
    rules,
    seen,
    snapshot,
    told,
)

RACK = "incident/gpu-hot/rack/r1"


def incident(made_of: tuple[Decision, ...]) -> list[Decision]:
    return [d for d in made_of if d.hold_key.startswith("incident/")]


# --- One incident, told once ------------------------------------------------------------------------------------------


def test_it_is_told_once_however_many_machines_join_it() -> None:
    nodes = racked()
    first = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), law())
    (said,) = incident(first.decisions)
    assert said.hold_key == RACK
    assert "3 machines of rack r1 at once: the rack is the suspect" in said.reason
    assert "node-4, node-5, node-6" in said.reason
    state = after(State(), first)
    second = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6, 7)), state=state, now=NOW + MINUTE), law())
    assert incident(second.decisions) == []
    assert ("quarantine", "node-7", "correlated") in told(second)


def test_it_ends_when_no_machine_is_held_for_it_any_more() -> None:
    nodes = racked()
    state = after(State(), plan(snapshot(nodes, *(hot(f"node-{n}") for n in (4, 5, 6))), law()))
    silent = plan(snapshot(nodes, state=state, now=NOW + 5 * MINUTE), law())
    assert incident(silent.decisions) == [], "silence ends nothing"
    good = [hot(f"node-{n}", value=60) for n in (4, 5, 6)]
    look = snapshot(nodes, state=state, now=NOW + 60 * MINUTE, given={"gpu-hot": answers(nodes, good=good)})
    made = plan(look, law())
    (over,) = incident(made.decisions)
    assert over.held_by is None
    assert RACK not in after(state, made).holds
    assert plan(replace(look, state=after(state, made)), law()).decisions == ()


def test_two_racks_are_two_incidents() -> None:
    made = plan(snapshot(racked(), *(hot(f"node-{n}") for n in (4, 5, 6, 8, 9, 10))), law())
    assert [d.hold_key for d in incident(made.decisions)] == [RACK, "incident/gpu-hot/rack/r2"]


def test_a_machine_of_the_incident_that_is_out_already_gets_no_ticket_meanwhile() -> None:
    nodes, state = racked(), State()
    state = after(state, plan(snapshot(nodes, hot("node-4")), law(settle="5m")))
    state = after(state, plan(snapshot(nodes, hot("node-4"), state=state, now=NOW + 5 * MINUTE), law(settle="5m")))
    case = state.open_case_of("node-4")
    assert case is not None
    assert case.phase is Phase.QUARANTINED
    state, nodes = carried_out(state, nodes, NOW + 5 * MINUTE)
    made = plan(snapshot(nodes, *(hot(f"node-{n}") for n in (5, 6)), state=state, now=NOW + 6 * MINUTE), law())
    assert all(d[2] == "correlated" for d in told(made) if d[0] == "quarantine")


# --- What no label says -----------------------------------------------------------------------------------------------


def running(look: Snapshot, *gangs: Gang) -> Snapshot:
    return replace(look, workloads=Workloads({}, {gang.key: gang for gang in gangs}))


def job(*numbers: int, key: str = "JobSet training/llama") -> Gang:
    return Gang(key, pods=len(numbers), running=len(numbers), nodes=frozenset(f"node-{n}" for n in numbers))


def test_machines_of_one_job_at_once_make_the_job_the_suspect() -> None:
    by_job = law(by=["job"])
    look = snapshot(racked(), *(hot(f"node-{n}") for n in (1, 5, 9)))
    held = plan(running(look, job(1, 5, 9, 13)), by_job)
    assert [what[2] for what in told(held)] == ["correlated"] * 4
    assert "the job is the suspect" in held.decisions[0].reason
    other = plan(running(look, job(1, 2, 3, 4)), by_job)
    assert {what[2] for what in told(other) if what[0] == "quarantine"} == {None}


def test_where_pods_could_not_be_asked_about_no_job_is_suspected() -> None:
    look = snapshot(racked(), *(hot(f"node-{n}") for n in (1, 5, 9)))
    failed = replace(look, workloads=Failed(FailureKind.UNREACHABLE, "the API is away", ""))
    assert {what[2] for what in told(plan(failed, law(by=["job"]))) if what[0] == "quarantine"} == {None}


def test_machines_that_one_exporter_is_read_from_make_it_the_suspect() -> None:
    nodes = racked()
    few = {name: n for name, n in nodes.items() if name in {f"node-{k}" for k in range(6)}}
    names = ["NEW_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"]
    base = law(by=["exporter"])
    signal = base.signals["gpu.temperature"]
    (source,) = signal.sources
    new = source.model_copy(update={"exporter": "new-exporter", "metrics": (names[0],)})
    two = replace(
        base, signals={**base.signals, "gpu.temperature": signal.model_copy(update={"sources": (source, new)})}
    )
    bad = [hot(f"node-{n}") for n in (0, 1, 2)]
    given = replace(
        answers(nodes),
        trigger={TEMP: Samples((), "t"), "new-exporter/NEW_GPU_TEMP": Samples(tuple(bad), "t")},
        coverage={
            TEMP: seen({name: n for name, n in nodes.items() if name not in few}),
            "new-exporter/NEW_GPU_TEMP": seen(few),
        },
    )
    made = plan(snapshot(nodes, given={"gpu-hot": given}), two)
    assert {what[2] for what in told(made)} == {"correlated"}
    assert "exporter new-exporter at once" in made.decisions[0].reason


# --- What has not lasted yet ------------------------------------------------------------------------------------------


def with_emerging(nodes: Mapping[str, Node], bad: list[Sample], *emerging: Sample) -> Snapshot:
    given = replace(answers(nodes, *bad), emerging={TEMP: Samples(tuple(emerging), "candidates")})
    return snapshot(nodes, given={"gpu-hot": given})


def test_what_has_not_lasted_yet_counts_where_others_fail_beside_it() -> None:
    nodes = racked()
    warm = [hot(f"node-{n}") for n in (4, 5, 6)]
    held = plan(with_emerging(nodes, warm[:1], *warm), law())
    assert told(held) == [("quarantine", "node-4", "correlated"), ONE_INCIDENT]
    alone = plan(with_emerging(nodes, warm[:1], *warm[:1]), law())
    assert ("quarantine", "node-4", None) in told(alone)


def test_it_opens_no_case_by_itself_and_is_not_remembered() -> None:
    nodes = racked()
    made = plan(with_emerging(nodes, [], hot("node-4"), hot("node-5"), hot("node-6")), law())
    assert made.decisions == ()


def test_machines_that_are_never_acted_on_do_not_emerge() -> None:
    nodes = racked()
    for name in ("node-5", "node-6"):
        nodes[name] = replace(nodes[name], labels={**nodes[name].labels, "quarantine.gpu/ignore": "true"})
    made = plan(with_emerging(nodes, [hot("node-4")], *(hot(f"node-{n}") for n in (4, 5, 6))), law())
    assert ("quarantine", "node-4", None) in told(made)


# --- A breaker for each pool ------------------------------------------------------------------------------------------


def two_pools(share: str = "10%") -> Rules:
    budget = {"quarantined": 9, "unavailable": 9, "perHour": 9}
    pools = [{"name": name, "nodeSelector": {"pool": name}, "budget": budget} for name in ("large", "small")]
    return rules(policy(breaker={"maxShare": share}), pools=pools)


def pooled() -> dict[str, Node]:
    return {
        name: replace(n, labels={"gpu": "yes", "pool": "small" if number < 4 else "large"})
        for number, (name, n) in enumerate(fleet(40).items())
    }


def test_what_is_too_much_for_one_pool_is_held_there_alone() -> None:
    few = [hot("node-0", gpu) for gpu in range(4)] + [hot("node-1", gpu) for gpu in range(4)]
    made = plan(snapshot(pooled(), *few, hot("node-20")), two_pools())
    assert ("quarantine", "node-20", None) in told(made)
    held = [d for d in made.decisions if d.held_by is HeldBy.BREAKER]
    assert {d.node for d in held} == {"node-0", "node-1"}
    assert "8 of 32 devices of pool small" in held[0].reason


def test_one_machine_never_trips_it() -> None:
    made = plan(snapshot(pooled(), *(hot("node-0", gpu) for gpu in range(8))), two_pools())
    assert ("quarantine", "node-0", None) in told(made)


def test_small_pools_are_not_stranded() -> None:
    """Two machines and a fifth of them: one may go, not none (a percentage of two rounds to nothing)."""
    pool = {
        "name": "gpu",
        "nodeSelector": {"gpu": "yes"},
        "budget": {"quarantined": "20%", "unavailable": "20%", "perHour": "20%"},
    }
    tiny = rules(policy(breaker={"maxShare": "10%"}), pools=[pool])
    for size in (1, 2):
        nodes = {f"node-{n}": node(f"node-{n}") for n in range(size)}
        assert ("quarantine", "node-0", None) in told(plan(snapshot(nodes, hot("node-0")), tiny))
    both = {f"node-{n}": node(f"node-{n}") for n in range(2)}
    wide = rules(policy(breaker={"maxShare": "100%"}), pools=[pool])
    quarantines = [w for w in told(plan(snapshot(both, hot("node-0"), hot("node-1")), wide)) if w[0] == "quarantine"]
    assert quarantines == [("quarantine", "node-0", None), ("quarantine", "node-1", "budget")]
