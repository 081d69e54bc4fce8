"""What the observer remembers between cycles: coverage, as long as it answers the question that is asked now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from quarantine.core.decision import State
from quarantine.core.model import Answer, Failed, Mode, Node, Sample, Samples
from quarantine.core.policy import Rules
from quarantine.core.signal import SignalSpec
from quarantine.observe import Observer
from quarantine.ports import LedgerView
from tests.core.world import FAILED, GPU_TEMPERATURE, NOW, TEMP, fleet, policy, rules

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
