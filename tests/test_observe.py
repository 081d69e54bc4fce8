"""What the observer remembers between cycles (coverage, as long as it answers the question that is asked now), and what
it looks at of the machines that cases are about.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from quarantine.blindspots import blind_spots
from quarantine.core.case import Effect, PodRef, Purpose, Run, RunOutcome
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, QuarantineError
from quarantine.core.model import Answer, Failed, Mode, Node, Sample, Samples
from quarantine.core.policy import Rules
from quarantine.core.procedure import ProcedureSpec
from quarantine.core.signal import SignalSpec
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import fold
from quarantine.core.workload import Class, Gang, Pod, PodRules, RunStatus, Workloads
from quarantine.observe import Observer
from quarantine.ports import LedgerView, Order
from tests.core.world import FAILED, GPU_TEMPERATURE, NOW, TEMP, fleet, policy, quarantined, rules

SECONDS = timedelta(seconds=15)
NODES = fleet(4)


@dataclass
class World:
    """Nodes, a clock and a Prometheus that sees as many devices as are in `seen`, by what a query must contain."""

    seen: Mapping[str, float]
    at: datetime = NOW
    broken: bool = False
    asked: list[str] = field(default_factory=list)

    def nodes(self) -> Mapping[str, Node]:
        return NODES

    def now(self) -> datetime:
        return self.at

    def query(self, query: str, *, at: datetime, timeout: timedelta) -> Answer:
        assert timeout > timedelta(0)
        if not query.startswith("count by"):
            return Samples((), query)
        self.asked.append(query)
        if self.broken:
            return FAILED
        count = next(count for part, count in self.seen.items() if part in query)
        return Samples(tuple(Sample({"Hostname": name}, count, at) for name in NODES), query)


def law(**source: object) -> Rules:
    """Whose signal is read from another source."""
    written = GPU_TEMPERATURE.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = SignalSpec.model_validate({**written, "sources": [{**written["sources"][0], **source}]})
    given = rules()
    return replace(given, signals={**given.signals, "gpu.temperature": made})


def look(observer: Observer, world: World, after: timedelta) -> tuple[float, datetime | None]:
    """What coverage says, and as of when."""
    world.at = NOW + after
    found = observer.snapshot(LedgerView(State(), (), ()), cluster="c", mode=Mode.ENFORCE, actor="a")
    answers = found.answers["gpu-hot"]
    (answer,) = answers.coverage.values()
    assert not isinstance(answer, Failed)
    return sum(sample.value for sample in answer.samples), answers.coverage_at


def observer(world: World, given: Rules) -> Observer:
    return Observer(world, world, world, given)  # type: ignore[arg-type]


def test_coverage_is_asked_for_at_a_slow_pace() -> None:
    world = World({"": 8})
    ours = observer(world, law())
    assert [look(ours, world, SECONDS * n) for n in range(3)] == [(32, NOW)] * 3
    assert len(world.asked) == 1
    assert look(ours, world, timedelta(minutes=5)) == (32, NOW + timedelta(minutes=5))


@pytest.mark.parametrize(
    "edited",
    [
        law(match={"job": "new"}),
        law(node={"first": ["node"]}),
        replace(law(), fleet=law().fleet.model_copy(update={"matchers": {"cluster": "new"}})),
    ],
)
def test_coverage_of_former_selectors_says_nothing_about_the_present_ones(edited: Rules) -> None:
    """Else the breaker counts by devices that the policy does not look at any more."""
    world = World({"new": 1, "by (node)": 2, "": 8})
    ours = observer(world, law())
    assert look(ours, world, 0 * SECONDS) == (32, NOW)
    ours.rules = edited
    assert look(ours, world, SECONDS) in ((4, NOW + SECONDS), (8, NOW + SECONDS))
    look(ours, world, 2 * SECONDS)
    assert len(world.asked) == 2, "and is remembered in its turn"


def test_an_edit_that_asks_the_same_asks_nothing_again() -> None:
    world = World({"": 8})
    ours = observer(world, law())
    look(ours, world, 0 * SECONDS)
    ours.rules = replace(law(), policies=(policy(owner="others"),))
    look(ours, world, SECONDS)
    assert len(world.asked) == 1


def test_an_answer_that_failed_is_asked_for_again() -> None:
    world = World({"": 8}, broken=True)
    ours = observer(world, law())
    found = ours.snapshot(LedgerView(State(), (), ()), cluster="c", mode=Mode.ENFORCE, actor="a")
    assert found.answers["gpu-hot"].coverage == {TEMP: FAILED}
    world.broken = False
    assert look(ours, world, SECONDS) == (32, NOW + SECONDS)


LLAMA = PodRef("ml", "llama-0", "u0")


@dataclass
class Machines(World):
    """The same, with a gang on node-3 and one procedure, either of which may be out of sight."""

    trouble: QuarantineError | None = None
    sought: list[str] = field(default_factory=list)

    def nodes(self) -> Mapping[str, Node]:
        return fleet(20)

    def query(self, query: str, *, at: datetime, timeout: timedelta) -> Answer:
        assert timeout > timedelta(0)
        if query == "last_checkpoint":
            sample = Sample({"namespace": "ml", "pod": "llama-0"}, (at - SECONDS).timestamp(), at)
            return FAILED if self.broken else Samples((sample,), query)
        if "GPU_TEMP" in query and "count by" in query:
            return FAILED if self.broken else Samples((), query)
        return Samples((), query)

    def workloads(self, nodes: Collection[str], rules: PodRules) -> Workloads:
        assert rules.checkpoint == "example.com/checkpoint"
        self.sought += sorted(nodes)
        if self.trouble is not None:
            raise self.trouble
        pods = (Pod(LLAMA, "node-3", Class.TRAINING, "JobSet ml/llama"),)
        return Workloads(dict.fromkeys(nodes, pods), {"JobSet ml/llama": Gang("JobSet ml/llama", 1, 1)})

    def start(self, order: Order) -> None:
        raise NotImplementedError

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        if self.trouble is not None:
            raise self.trouble
        return {run.name: RunStatus(RunOutcome.SUCCEEDED) for run, _ in runs}

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        raise NotImplementedError


def machines(world: Machines, *, drain: str = "after-checkpoint") -> Snapshot:
    """What is seen while node-3 is quarantined, and a burn-in runs there."""
    checkpoint = {"annotation": "example.com/checkpoint", "query": "last_checkpoint"}
    inventory = {"signal": "gpu.temperature"}
    known = rules(policy(response={"drain": drain}), workloads={"checkpoint": checkpoint}, inventory=inventory)
    spec = ProcedureSpec.model_validate({"description": "d", "command": ["true"]})
    law = replace(known, procedures={"diag": spec})
    state, _ = quarantined("node-3")
    (case,) = state.cases.values()
    run = Run(f"{case.id}-burn-in-1", Purpose.BURN_IN, "diag", NOW, NOW + timedelta(hours=1))
    begun = Decision(NOW, Kind.DECIDED, Action.RUN, "r", "c", case=case.id, run=run, effects=(Effect.RUN,))
    ours = Observer(world, world, world, law, procedures=world)  # type: ignore[arg-type]
    view = LedgerView(fold(state, [begun]), (), ())
    return ours.snapshot(view, cluster="c", mode=Mode.ENFORCE, actor="a")


def test_what_runs_on_a_machine_comes_with_the_time_of_its_checkpoint() -> None:
    found = machines(Machines({"": 8}))
    assert isinstance(found.workloads, Workloads)
    (seen,) = found.workloads.nodes["node-3"]
    assert seen.checkpoint_at == found.workloads.gangs["JobSet ml/llama"].checkpoint_at == NOW - SECONDS
    assert isinstance(found.runs, Mapping)
    assert [status.outcome for status in found.runs.values()] == [RunOutcome.SUCCEEDED]
    assert blind_spots(found) == ()


def test_nobody_is_asked_where_nothing_could_follow() -> None:
    world = Machines({"": 8})
    assert machines(world, drain="never").workloads == Workloads()
    assert world.sought == []


@pytest.mark.parametrize("trouble", [ClusterUnavailable("the API server is away"), ClusterRefused("no right to look")])
def test_what_could_not_be_seen_is_a_failure_and_is_told(trouble: QuarantineError) -> None:
    found = machines(Machines({"": 8}, trouble=trouble))
    assert isinstance(found.workloads, Failed)
    assert isinstance(found.runs, Failed)
    told = blind_spots(found)
    assert told == (
        f"what runs on the cases' machines is not known: {trouble}",
        f"how far the cases' procedures have come is not known: {trouble}",
    )


def test_a_prometheus_that_does_not_answer_knows_neither_checkpoint_nor_hardware() -> None:
    found = machines(Machines({"": 8}, broken=True))
    assert isinstance(found.workloads, Workloads), "what runs is known all the same"
    assert found.workloads.nodes["node-3"][0].checkpoint_at is None
    assert isinstance(found.hardware, Failed)
    assert any(said.startswith("which GPUs the cases' machines have is not known") for said in blind_spots(found))
