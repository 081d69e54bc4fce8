"""What holds of every drain, whatever runs on the machines, whatever is asked for and whatever goes wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.core.case import Case, Phase, PodRef
from quarantine.core.decision import Decision
from quarantine.core.model import Failed, FailureKind
from quarantine.core.policy import Rules
from quarantine.core.response import Drain, Moment
from quarantine.core.workload import Class, Pod
from tests.core.treatment.floor import Floor, floor, paced, pod, rank
from tests.core.world import MINUTE, NOW

OUT = tuple(f"node-{n}" for n in range(5))
ELSEWHERE = ("node-10", "node-11")
FAILED = Failed(FailureKind.TIMEOUT, "it took too long")
QUARTER = timedelta(seconds=15)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    """Services, single training pods, and gangs over several machines, some of which are not out."""
    found = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(Class))
        priority = draw(st.integers(-2, 2))
        found.append(pod(f"web-{number}", draw(st.sampled_from(OUT)), kind=kind, priority=priority))
    for which in range(draw(st.integers(0, 3))):
        for number in range(draw(st.integers(1, 8))):
            on = draw(st.sampled_from(OUT + ELSEWHERE))
            found.append(rank(f"job-{which}-{number}", on, f"Job training/job-{which}"))
    return found


drains = st.builds(
    lambda when, hours, then: (
        Drain(when=when)
        if when in (Moment.NOW, Moment.NEVER) or hours is None
        else Drain(when=when, deadline=timedelta(hours=hours), then=then)
    ),
    st.sampled_from(Moment),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(["hold", "now"]),
)
laws = st.builds(paced, st.integers(1, 6), st.integers(1, 3))


@dataclass(frozen=True)
class Event:
    """What happens between two cycles."""

    wait: timedelta
    failed: bool
    unseen: frozenset[str]
    stopped: frozenset[str]
    uncordoned: frozenset[str]
    restarted: str  # what starts anew in place, and has just written a checkpoint
    carried_out: bool


nodes_of = st.frozensets(st.sampled_from(OUT), max_size=2)
events = st.builds(
    Event,
    st.sampled_from([QUARTER, MINUTE, 10 * MINUTE, timedelta(hours=1)]),
    st.sampled_from([False, False, False, True]),
    nodes_of,
    nodes_of,
    nodes_of,
    st.sampled_from(["", "job-0", "job-1", "web"]),
    st.booleans(),
)


def happen(world: Floor, event: Event) -> None:
    world.at += event.wait
    world.failed = FAILED if event.failed else None
    world.unseen, world.stopped = set(event.unseen), set(event.stopped)
    world.nodes = {n: replace(o, unschedulable=n not in event.uncordoned) for n, o in world.nodes.items()}
    anew = {"started_at": world.at, "checkpoint_at": world.at}
    at = event.restarted
    world.pods = [replace(p, **anew) if at and p.ref.name.startswith(at) else p for p in world.pods]  # type: ignore[arg-type]


def batches(made: Sequence[Decision]) -> list[tuple[str, tuple[PodRef, ...], str]]:
    return [(d.node or "", d.leaving.pods, d.leaving.gang) for d in made if d.leaving is not None]


def whole_gangs(world: Floor) -> set[str]:
    keys = [p.gang for p in world.pods if p.gang]
    return {key for key in keys if keys.count(key) > 1}


@given(
    here=pods(),
    asked_for=st.lists(drains, min_size=5, max_size=5),
    law=laws,
    history=st.lists(events, min_size=1, max_size=12),
    protected=st.frozensets(st.integers(0, 11), max_size=2),
    doomed=st.frozensets(st.integers(0, 11), max_size=2),
)
@settings(max_examples=100, deadline=None)
def test_over_any_history_only_what_is_seen_leaves_and_no_gang_is_split(
    here: list[Pod],
    asked_for: list[Drain],
    law: Rules,
    history: list[Event],
    protected: frozenset[int],
    doomed: frozenset[int],
) -> None:
    world = floor(*OUT, pods=here, drain=dict(zip(OUT, asked_for, strict=True)), law=law)
    world.protected, world.doomed = {f"web-{n}" for n in protected}, {f"web-{n}" for n in doomed - protected}
    first_asked: dict[PodRef, datetime] = {}
    alone: dict[PodRef, datetime] = {}  # of those, what stands for itself
    rate = world.law.fleet.pools[0].drain.evictions_per_minute
    for event in history:
        happen(world, event)
        before = {n: world.phase(n) for n in OUT}
        made = world.plan()  # and again, which yields nothing new
        if event.failed:
            assert all(d.leaving is None and d.phase is None for d in made), "nothing is done on what is not known"
        seen = {p.ref: p for p in world.pods}
        for node, refs, gangs in batches(made):
            assert node not in event.unseen | event.stopped | event.uncordoned
            assert world.drain[node].when is not Moment.NEVER
            assert len(set(refs)) == len(refs)
            assert all(ref in seen and seen[ref].node == node for ref in refs), "only what is seen now, by its uid"
            assert not any(seen[ref].terminating for ref in refs)
            fresh = [ref for ref in refs if ref not in first_asked]
            single = [ref for ref in fresh if seen[ref].gang not in gangs.split(", ") or not seen[ref].gang]
            assert [seen[ref].kind for ref in single] == sorted(seen[ref].kind for ref in single), "services first"
            assert not {seen[ref].gang for ref in single} & whole_gangs(world)
            first_asked |= dict.fromkeys(fresh, world.at)
            alone |= dict.fromkeys(single, world.at)
        not_split(world, made, event, before)
        assert sum(at > world.at - MINUTE for at in alone.values()) <= rate
        if event.carried_out:
            world.carry_out()


def not_split(world: Floor, made: Sequence[Decision], event: Event, before: dict[str, Phase]) -> None:
    """Every pod of a gang that falls, on every machine that may be emptied, is asked in this very plan."""
    falls = {key for _, _, gangs in batches(made) for key in gangs.split(", ") if key}
    earlier = {
        key
        for case in world.state.cases.values()
        for leaving in case.leaving
        if leaving.at < world.at
        for key in leaving.gang.split(", ")
    }
    may_be = {
        n
        for n in OUT
        if n not in event.unseen | event.stopped | event.uncordoned
        and world.drain[n].when is not Moment.NEVER
        and before[n] in (Phase.QUARANTINED, Phase.DRAINING)
    }
    asked = {ref for _, refs, _ in batches(made) for ref in refs}
    for p in world.pods:
        if p.gang in falls - earlier and p.node in may_be and not p.terminating:
            assert p.ref in asked, f"{p.ref} of {p.gang} stays behind"


@given(here=pods(), law=laws)
@settings(max_examples=40, deadline=None)
def test_where_nothing_goes_wrong_every_machine_is_emptied_within_its_places(here: list[Pod], law: Rules) -> None:
    world = floor(*OUT, pods=here, law=law)
    places = world.law.fleet.pools[0].drain.machines_at_once
    for _ in range(45):
        world.plan()
        assert groups(world.state.cases.values()) <= places
        world.carry_out()
        world.at += MINUTE
    assert {case.phase for case in world.state.cases.values()} == {Phase.DRAINED}
    assert world.state.holds == {}
    assert all(p.node in ELSEWHERE for p in world.pods)
    for key in {p.gang for p in here if p.gang}:
        times = {lv.at for c in world.state.cases.values() for lv in c.leaving if key in lv.gang.split(", ")}
        assert len(times) <= 1, "each gang is interrupted once"


def groups(cases: Collection[Case]) -> int:
    """How many drains are under way, where those that gangs tie together are one, also by a machine that is done."""
    left, count = list(cases), 0
    while left:
        reached, edge = [left.pop()], True
        while edge:
            keys = {key for case in reached for lv in case.leaving for key in lv.gang.split(", ") if key}
            joined = [c for c in left if keys & {k for lv in c.leaving for k in lv.gang.split(", ")}]
            left = [c for c in left if c not in joined]
            reached, edge = reached + joined, bool(joined)
        count += any(case.phase is Phase.DRAINING for case in reached)
    return count


@given(here=pods(), asked_for=st.lists(drains, min_size=5, max_size=5), hours=st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_without_its_moment_training_goes_on(here: list[Pod], asked_for: list[Drain], hours: int) -> None:
    """No gang restarts, and none writes a checkpoint: only `now` and a deadline that drains interrupt anything."""
    world = floor(*OUT, pods=here, drain=dict(zip(OUT, asked_for, strict=True)))
    world.at = NOW + timedelta(hours=hours)
    made = world.plan()
    seen = {p.ref: p for p in world.pods}
    impatient = {
        node
        for node, drain in world.drain.items()
        if drain.when is Moment.NOW
        or (drain.then == "now" and drain.deadline is not None and NOW + drain.deadline <= world.at)
    }
    reached = {p.gang for p in world.pods if p.gang and p.node in impatient}
    for node, refs, _ in batches(made):
        for ref in refs:
            if seen[ref].kind is Class.TRAINING:
                assert node in impatient or seen[ref].gang in reached
