"""What is looked at beyond nodes and policies: where something could follow from it, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core import seeing
from quarantine.core.case import Effect, Phase, PodRef, Purpose, Run, RunOutcome
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.model import Sample, Samples
from quarantine.core.policy import Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.state import fold
from quarantine.core.workload import Class, Gang, Pod, Workloads
from tests.core.world import FAILED, MINUTE, NOW, TEMP, answers, fleet, hot, policy, quarantined, rules, suspected

NODES = fleet()
RANK = PodRef("ml", "llama-0", "u0")


def asked(state: State, law: Rules) -> frozenset[str]:
    return seeing.with_pods(state, law, {}, NODES)


@pytest.mark.parametrize(
    ("response", "matters"),
    [
        ({}, False),
        ({"ticket": "report"}, False),
        ({"drain": "when-idle"}, True),
        ({"ticket": "replace"}, True),
        ({"ladder": [{"do": "reboot", "by": "reboot"}, {"do": "report"}]}, True),
    ],
)
def test_pods_are_asked_about_where_a_machine_may_have_to_be_empty(response: object, matters: bool) -> None:
    state, _ = quarantined("node-3")
    assert asked(state, rules(policy(response=response))) == ({"node-3"} if matters else set())
    assert asked(state, rules(policy(response=response, mode="observe"))) == set()
    assert asked(suspected("node-3"), rules(policy(response=response))) == set()


def test_a_drain_that_has_begun_is_watched_whatever_the_policy_says_since() -> None:
    state, _ = quarantined("node-3")
    (case,) = state.cases.values()
    begun = fold(state, [Decision(NOW, Kind.DECIDED, Action.DRAIN, "r", "c", case=case.id, phase=Phase.DRAINING)])
    assert asked(begun, rules()) == {"node-3"}


def test_a_node_that_is_gone_is_not_asked_about() -> None:
    state, _ = quarantined("node-3")
    law = rules(policy(response={"drain": "now"}))
    assert seeing.with_pods(state, law, {}, {k: n for k, n in NODES.items() if k != "node-3"}) == set()


def test_jobs_of_what_is_found_bad_are_asked_about_where_a_policy_groups_by_them() -> None:
    found = {"gpu-hot": answers(NODES, hot("node-1"), hot("node-2"), hot("no-such-node"))}
    by_job = {"by": ["job"], "within": "10m"}
    assert seeing.with_pods(State(), rules(policy(correlation=by_job)), found, NODES) == {"node-1", "node-2"}
    assert seeing.with_pods(State(), rules(), found, NODES) == set()
    emerging = replace(found["gpu-hot"], emerging={TEMP: Samples((hot("node-1"), hot("node-5")), "q")})
    both = {"gpu-hot": emerging}
    assert seeing.with_pods(State(), rules(policy(correlation=by_job)), both, NODES) == {"node-1", "node-2", "node-5"}
    alone = {"gpu-hot": replace(emerging, trigger={TEMP: Samples((), "q")})}
    assert seeing.with_pods(State(), rules(policy(correlation=by_job)), alone, NODES) == set()
    failed = {"gpu-hot": answers(NODES, trigger=FAILED)}
    assert seeing.with_pods(State(), rules(policy(correlation=by_job)), failed, NODES) == set()


def test_procedures_are_looked_at_once_they_may_have_begun_and_until_they_ended() -> None:
    state, _ = quarantined("node-3")
    (case,) = state.cases.values()
    spec = ProcedureSpec.model_validate({"description": "d", "command": ["true"]})
    law = replace(rules(), procedures={"diag": spec})
    run = Run(f"{case.id}-burn-in-1", Purpose.BURN_IN, "diag", NOW, NOW + MINUTE)
    wanted = Decision(NOW, Kind.DECIDED, Action.RUN, "r", "c", case=case.id, run=run, effects=(Effect.RUN,))
    running = fold(state, [wanted])
    assert seeing.runs_of(state, law) == []
    assert seeing.runs_of(running, law) == [(run, spec)]
    assert seeing.runs_of(running, rules()) == [], "nobody knows how"
    over = Decision(
        NOW, Kind.DECIDED, Action.RUN, "r", "c", case=case.id, run=replace(run, outcome=RunOutcome.SUCCEEDED)
    )
    assert seeing.runs_of(fold(running, [over]), law) == []
    given_up = Decision(NOW, Kind.FAILED, Action.RUN, "r", "c", case=case.id, effect=Effect.RUN)
    assert seeing.runs_of(fold(running, [given_up]), law) == []


def said(value: float, name: str = "llama-0") -> Sample:
    return Sample({"namespace": "ml", "pod": name}, value, NOW)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), (NOW + 6 * MINUTE).timestamp(), 1e300])
def test_what_cannot_be_the_time_of_a_checkpoint_is_none(value: float) -> None:
    assert seeing.checkpoints(Samples((said(value),), "q"), NOW) == {}


def test_no_answer_knows_no_checkpoint() -> None:
    assert seeing.checkpoints(FAILED, NOW) == {}
    assert seeing.checkpoints(Samples((Sample({"pod": "a"}, NOW.timestamp(), NOW),), "q"), NOW) == {}


def test_the_latest_series_of_a_pod_counts() -> None:
    old, new = NOW - 9 * MINUTE, NOW - MINUTE
    answer = Samples((said(new.timestamp()), said(old.timestamp())), "q")
    assert seeing.checkpoints(answer, NOW) == {("ml", "llama-0"): new}


def gang(*, pods: int = 2, checkpoint_at: datetime | None = None) -> Gang:
    members = frozenset(PodRef("ml", f"llama-{n}", f"u{n}") for n in range(pods))
    return Gang("JobSet ml/llama", pods, pods, frozenset({"node-3"}), checkpoint_at, None, members)


def test_one_pod_speaks_for_its_gang_wherever_it_runs() -> None:
    """The first rank writes the checkpoint, and may run on another machine than the one that is to be drained."""
    here = Pod(PodRef("ml", "llama-1", "u1"), "node-3", Class.TRAINING, "JobSet ml/llama")
    known = Workloads({"node-3": (here,)}, {"JobSet ml/llama": gang()})
    found = seeing.with_checkpoints(known, {("ml", "llama-0"): NOW - MINUTE}, NOW)
    assert found.gangs["JobSet ml/llama"].checkpoint_at == NOW - MINUTE
    assert found.nodes["node-3"][0].checkpoint_at is None


def test_where_every_pod_tells_the_oldest_part_counts() -> None:
    known = Workloads({}, {"JobSet ml/llama": gang()})
    times = {("ml", "llama-0"): NOW - MINUTE, ("ml", "llama-1"): NOW - 5 * MINUTE}
    assert seeing.with_checkpoints(known, times, NOW).gangs["JobSet ml/llama"].checkpoint_at == NOW - 5 * MINUTE


def test_another_namespaces_pod_is_another_pod() -> None:
    known = Workloads({}, {"JobSet ml/llama": gang()})
    found = seeing.with_checkpoints(known, {("other", "llama-0"): NOW}, NOW)
    assert found.gangs["JobSet ml/llama"].checkpoint_at is None


times = st.none() | st.integers(-600, 600).map(lambda minutes: NOW + timedelta(minutes=minutes))


@given(annotated=times, queried=times)
def test_the_later_word_counts_and_none_from_the_future(annotated: datetime | None, queried: datetime | None) -> None:
    pod = Pod(RANK, "node-3", Class.TRAINING, "JobSet ml/llama", checkpoint_at=annotated)
    known = Workloads({"node-3": (pod,)}, {"JobSet ml/llama": gang(pods=1, checkpoint_at=annotated)})
    told = {} if queried is None else seeing.checkpoints(Samples((said(queried.timestamp()),), "q"), NOW)
    found = seeing.with_checkpoints(known, told, NOW)
    believed = [at for at in (annotated, queried) if at is not None and at <= NOW + seeing.AHEAD]
    assert found.nodes["node-3"][0].checkpoint_at == max(believed, default=None)
    assert found.gangs["JobSet ml/llama"].checkpoint_at == max(believed, default=None)
