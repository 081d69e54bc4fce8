"""When a drain begins, in which order pods are asked to leave, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quarantine.core.case import Effect, EffectState, EffectStatus, HeldBy, Phase, Purpose, Run
from quarantine.core.decision import Action, Decision
from quarantine.core.draft import Draft
from quarantine.core.model import Failed, FailureKind
from quarantine.core.response import Drain, Moment
from quarantine.core.treatment.drain import drains
from quarantine.core.treatment.moment import FRESH
from quarantine.core.workload import Class, Workloads
from tests.core.treatment.floor import Floor, asked, floor, gang, held, one, paced, pod, rank
from tests.core.world import MINUTE, NOW

HOUR = timedelta(hours=1)
LLAMA = "JobSet training/llama"


def changed(world: Floor, **changes: object) -> None:
    case = world.case("node-3")
    world.state = replace(world.state, cases={case.id: replace(case, **changes)})  # type: ignore[arg-type]


def test_a_machine_is_emptied_and_then_drained() -> None:
    world = one(pod("web-0", "node-3"), pod("web-1", "node-3"))
    first = world.plan()
    assert [(d.action, d.phase, d.effects) for d in first] == [
        (Action.DRAIN, Phase.DRAINING, (Effect.PHASE,)),
        (Action.EVICT, None, (Effect.EVICT,)),
    ]
    assert first[1].reason == "inference/web-0, inference/web-1 are asked to leave node-3"
    assert [ref.uid for ref in world.case("node-3").leaving[0].pods] == ["uid-web-0", "uid-web-1"]
    world.carry_out()
    assert world.plan() == [], "they terminate, and are waited for"
    world.carry_out()
    (last,) = world.plan()
    assert (last.action, last.phase, last.effects) == (Action.DRAIN, Phase.DRAINED, (Effect.PHASE,))
    assert world.minutes(3) == []


def test_never_leaves_what_runs_alone_and_an_empty_machine_as_it_is() -> None:
    world = one(pod("web-0", "node-3"), when="never")
    assert world.minutes(2) == []
    world.pods = []
    assert world.minutes(2) == []
    assert world.phase("node-3") is Phase.QUARANTINED


def test_an_empty_machine_is_drained_at_once_whatever_moment_it_would_wait_for() -> None:
    world = one(when="after-checkpoint")
    (decision,) = world.plan()
    assert decision.phase is Phase.DRAINED
    assert decision.reason == "node-3 is empty: no pod is left on it that has to leave"


def test_services_leave_before_training_and_the_lowest_priority_first() -> None:
    batch = {"kind": Class.TRAINING}
    world = one(
        pod("tune", "node-3", priority=-5, **batch),
        pod("important", "node-3", priority=100),
        pod("spare", "node-3", priority=-1),
        pod("usual", "node-3"),
    )
    world.law = paced(evictions=1)
    assert asked(world.minutes(4)) == [["spare"], ["usual"], ["important"], ["tune"]]


# --- The moment -------------------------------------------------------------------------------------------------------


def test_when_idle_waits_for_the_end_of_all_training() -> None:
    training = rank("llama-0", "node-3", running=False)
    world = one(pod("web-0", "node-3"), training, when="when-idle")
    assert world.minutes(3) == [], "that nothing of it runs now is not its end"
    world.pods.remove(training)
    assert asked(world.minutes(1)) == [["web-0"]]


@pytest.mark.parametrize(
    ("checkpoint", "leaves"),
    [
        (None, False),
        (NOW - MINUTE, False),
        (NOW, False),
        (NOW + timedelta(seconds=20), True),
        (NOW + 2 * MINUTE, False),  # a minute in the future
    ],
)
def test_after_checkpoint_waits_for_one_that_is_younger_than_the_quarantine(checkpoint: object, leaves: bool) -> None:
    ranks = [rank(f"llama-{n}", "node-3") for n in range(2)]
    world = one(*ranks, when="after-checkpoint")
    world.gangs = {ranks[0].gang: gang(*ranks, checkpoint_at=checkpoint)}
    assert asked(world.plan()) == ([["llama-0", "llama-1"]] if leaves else [])


def test_after_checkpoint_a_gang_that_is_down_has_nothing_more_to_lose() -> None:
    ranks = [rank("llama-0", "node-3", running=False), rank("llama-1", "node-4", running=False)]
    world = one(*ranks, when="after-checkpoint")
    assert asked(world.plan()) == [["llama-0"]]


def test_a_gang_of_which_nothing_is_counted_is_not_taken_to_be_down() -> None:
    ranks = [rank("llama-0", "node-3", running=False)]
    world = one(*ranks, when="on-restart")
    world.gangs = {ranks[0].gang: gang(*ranks, pods=0)}
    assert world.plan() == []


@pytest.mark.parametrize(
    ("started", "leaves"), [(None, False), (NOW - HOUR, False), (NOW + timedelta(seconds=5), True)]
)
def test_on_restart_evicts_what_started_anew_in_place(started: object, leaves: bool) -> None:
    world = one(rank("llama-0", "node-3", started_at=started), rank("llama-1", "node-4"), when="on-restart")
    assert asked(world.plan()) == ([["llama-0"]] if leaves else [])


def test_training_that_is_of_no_gang_has_its_own_moment() -> None:
    fresh = {"kind": Class.TRAINING, "checkpoint_at": NOW + timedelta(seconds=1)}
    world = one(pod("tune-0", "node-3", **fresh), pod("tune-1", "node-3", kind=Class.TRAINING), when="after-checkpoint")
    assert world.plan() == [], "the moment is that of everything on the machine"
    world.pods = [replace(p, checkpoint_at=NOW + timedelta(seconds=2)) for p in world.pods]
    assert asked(world.plan()) == [["tune-0", "tune-1"]]


def test_what_was_ready_when_the_drain_began_needs_no_second_moment() -> None:
    ready = {"kind": Class.TRAINING, "checkpoint_at": NOW + timedelta(seconds=1)}
    world = one(*(pod(f"tune-{n}", "node-3", **ready) for n in range(3)), when="after-checkpoint")
    world.law = paced(evictions=1)
    assert asked(world.minutes(5)) == [["tune-0"], ["tune-1"], ["tune-2"]]


@pytest.mark.parametrize("when", ["after-checkpoint", "on-restart"])
def test_a_moment_that_passed_unused_is_none_any_more(when: str) -> None:
    """A pause, say, lasted for hours: what the job did since its checkpoint or restart would be lost."""
    ranks = [rank("llama-0", "node-3"), rank("llama-1", "node-4")]
    world = one(ranks[0], when=when)
    came = NOW + timedelta(seconds=1)
    world.gangs = {ranks[0].gang: gang(*ranks, checkpoint_at=came, youngest=came)}
    for late in (FRESH, timedelta(hours=10)):
        world.at = came + late
        assert world.plan() == []
    world.gangs = {ranks[0].gang: gang(*ranks, checkpoint_at=world.at, youngest=world.at)}
    world.at += FRESH - timedelta(seconds=1)
    assert asked(world.plan()) == [["llama-0"]]


def test_the_last_of_several_jobs_keeps_the_moments_of_the_others() -> None:
    """Jobs that write checkpoints in turns would otherwise never be ready together."""
    early, late = NOW + timedelta(seconds=1), NOW + timedelta(minutes=40)
    tune = {"kind": Class.TRAINING, "checkpoint_at": early}
    world = one(pod("tune-0", "node-3", **tune), pod("tune-1", "node-3", kind=Class.TRAINING), when="after-checkpoint")
    world.at = late
    assert world.plan() == []
    world.pods = [replace(p, checkpoint_at=p.checkpoint_at or late) for p in world.pods]
    assert asked(world.plan()) == [["tune-0", "tune-1"]]


def test_what_became_ready_on_a_machine_that_is_being_drained_waits_anew_once_it_has_passed() -> None:
    ready = {"kind": Class.TRAINING, "checkpoint_at": NOW + timedelta(seconds=1)}
    world = one(pod("tune-0", "node-3", **ready), when="after-checkpoint")
    world.doomed = {"tune-0"}
    world.minutes(1)
    came = world.at
    world.pods.append(pod("tune-1", "node-3", kind=Class.TRAINING, checkpoint_at=came))
    world.at += timedelta(hours=10)
    assert asked(world.minutes(2)) == [["tune-0"]], "that is tried again; the other came later, and nothing left then"
    world.pods = [replace(p, checkpoint_at=world.at) if p.ref.name == "tune-1" else p for p in world.pods]
    assert ["tune-1"] in asked(world.minutes(2))


# --- Deadlines of the moment ------------------------------------------------------------------------------------------


def test_when_the_deadline_passes_then_now_drains() -> None:
    world = one(rank("llama-0", "node-3"), when="after-checkpoint", deadline="2h", then="now")
    world.at = NOW + 2 * HOUR - MINUTE
    assert world.plan() == []
    world.at += MINUTE
    drained, evicted = world.plan()
    assert drained.reason == "node-3 is being drained: what was waited for did not happen before the deadline"
    assert asked([evicted]) == [["llama-0"]]


def test_when_the_deadline_passes_then_hold_tells_once_and_goes_on_waiting() -> None:
    world = one(rank("llama-0", "node-3"), when="on-restart", deadline="2h")
    world.at = NOW + 2 * HOUR
    assert held(world.minutes(5)) == [
        ("drain", f"node-3 is to be drained and waits for the next restart of {LLAMA} since 2026-11-29 12:00 UTC")
    ]
    world.pods = [replace(world.pods[0], started_at=world.at)]
    made = world.plan()
    assert asked(made) == [["llama-0"]]
    assert world.state.holds == {}


def test_without_a_deadline_people_are_told_after_a_day() -> None:
    world = one(rank("llama-0", "node-3"), when="after-checkpoint")
    world.at = NOW + timedelta(days=1) - MINUTE
    assert world.minutes(1) == []
    (hold,) = world.plan()
    assert (hold.held_by, hold.hold_key) == (HeldBy.DRAIN, f"drain/{hold.case}/moment")
    assert "a checkpoint of JobSet training/llama (none is known)" in hold.reason


# --- What must be so before anything leaves ---------------------------------------------------------------------------


def test_nothing_leaves_before_the_mark_is_seen_on_the_node() -> None:
    world = one(pod("web-0", "node-3"))
    marked = world.nodes["node-3"]
    world.nodes["node-3"] = replace(marked, taints=())
    assert world.minutes(1) == []
    world.nodes["node-3"] = marked
    effects = world.case("node-3").effects
    changed(world, effects={**effects, Effect.MARK: EffectState(EffectStatus.PENDING)})
    assert world.minutes(1) == []
    changed(world, effects=effects)
    assert asked(world.minutes(1)) == [["web-0"]]


def test_a_vanished_cordon_stops_the_drain_before_and_after_its_beginning() -> None:
    """Failure case 1: a person uncordons during quarantine."""
    world = one(pod("web-0", "node-3"), pod("web-1", "node-3"))
    world.law = paced(evictions=1)
    cordoned = world.nodes["node-3"]
    uncordoned = replace(cordoned, unschedulable=False)
    world.nodes["node-3"] = uncordoned
    assert world.minutes(2) == []
    world.nodes["node-3"] = cordoned
    assert asked(world.minutes(1)) == [["web-0"]]
    world.nodes["node-3"] = uncordoned
    assert world.minutes(3) == []
    assert world.phase("node-3") is Phase.DRAINING
    world.nodes["node-3"] = cordoned
    assert asked(world.minutes(1)) == [["web-1"]]


def test_without_a_cordon_of_ours_none_is_missed() -> None:
    world = one(pod("web-0", "node-3"))
    changed(world, cordoned_by_us=False)
    world.nodes["node-3"] = replace(world.nodes["node-3"], unschedulable=False)
    assert asked(world.plan()) == [["web-0"]]


def test_evidence_is_taken_before_anything_leaves_and_no_longer_than_its_time() -> None:
    world = one(pod("web-0", "node-3"))
    run = Run("q-evidence-1", Purpose.EVIDENCE, "bug-report", NOW, NOW + timedelta(minutes=30))
    changed(world, runs=(run,))
    world.at = NOW + timedelta(minutes=29)
    assert world.minutes(1) == []
    assert asked(world.plan()) == [["web-0"]]


def test_a_drain_that_a_person_stops_stays_where_it_is() -> None:
    world = one(pod("web-0", "node-3"), pod("web-1", "node-3"))
    world.law = paced(evictions=1)
    world.minutes(1)
    world.stopped = {"node-3"}
    assert world.minutes(3) == []
    assert world.phase("node-3") is Phase.DRAINING


def test_a_drain_that_the_policy_no_longer_asks_for_evicts_no_more_and_may_end() -> None:
    world = one(pod("web-0", "node-3"), pod("web-1", "node-3"))
    world.law = paced(evictions=1)
    world.minutes(1)
    world.drain = {"node-3": Drain(when=Moment.NEVER)}
    assert world.minutes(3) == []
    world.pods = []
    assert [d.phase for d in world.minutes(2)] == [Phase.DRAINED]


# --- What is not known ------------------------------------------------------------------------------------------------


def test_pods_that_cannot_be_asked_about_hold_the_drain_and_end_nothing() -> None:
    world = one(pod("web-0", "node-3"), pod("web-1", "node-3"))
    world.law = paced(evictions=1)
    world.failed = Failed(FailureKind.REFUSED, "pods are forbidden: grant list on pods")
    assert held(world.minutes(3)) == [
        (
            "unknown-pods",
            "node-3 is to be drained, and what runs on it is not known: pods are forbidden: grant list on pods",
        )
    ]
    world.failed = None
    assert asked(world.minutes(1)) == [["web-0"]]
    world.pods = []
    world.failed = Failed(FailureKind.TIMEOUT, "it took too long")
    assert all(d.phase is None and d.leaving is None for d in world.minutes(5))
    assert world.phase("node-3") is Phase.DRAINING


def test_a_node_that_was_not_asked_about_is_not_empty() -> None:
    world = floor("node-3", "node-4", pods=[pod("web-0", "node-3"), pod("web-1", "node-4")], unseen={"node-3"})
    made = world.plan()
    assert asked(made) == [["web-1"]]
    assert held(made) == [
        (
            "unknown-pods",
            "node-3 is to be drained, and what runs on it is not known: the cluster's answer does not tell",
        )
    ]


def test_a_gang_that_the_answer_names_and_does_not_describe_is_unknown() -> None:
    world = one(rank("llama-0", "node-3"))
    look = world.look()
    assert isinstance(look.workloads, Workloads)
    draft = Draft(replace(look, workloads=replace(look.workloads, gangs={})), world.law)
    drains(draft, world.due())
    assert [d.held_by for d in draft.decisions] == [HeldBy.UNKNOWN_PODS]


def test_a_server_that_answers_now_and_then_is_not_told_of_each_time() -> None:
    world = one(rank("llama-0", "node-3"), when="when-idle")
    rows: list[Decision] = []
    for minute in range(60):
        world.failed = Failed(FailureKind.TIMEOUT, "it took too long") if minute % 2 else None
        rows += world.minutes(1)
    assert 2 <= len([row for row in rows if row.hold_key]) <= 6
    world.failed = None
    world.minutes(21)
    assert world.state.holds == {}


def test_a_plan_that_is_made_without_any_look_at_pods_says_nothing() -> None:
    world = one(pod("web-0", "node-3"))
    world.unseen = {"node-3"}
    assert world.minutes(2) == []


def test_what_is_told_stands_only_as_long_as_its_case() -> None:
    world = one(rank("llama-0", "node-3"), when="on-restart", deadline="1h")
    world.at = NOW + HOUR
    world.minutes(1)
    assert len(world.state.holds) == 1
    changed(world, phase=Phase.RELEASED)
    (lifted,) = world.plan()
    assert (lifted.action, lifted.held_by) == (Action.JUDGE, None)
    assert world.state.holds == {}
