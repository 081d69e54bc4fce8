"""Random lives of machines that are to be swapped: providers, their ticket systems, and people who say yes or not now.

The fleets of `test_life` seldom come so far. Here nearly every machine that fails does, whatever fails on the way.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from quarantine.core.case import Effect
from quarantine.core.decision import RequestKind
from quarantine.core.policy import Rules
from tests.core.invariants.checks import nothing_waits_for_ever
from tests.core.invariants.laws import BIG, RESET, SMALL, approvals, law
from tests.core.invariants.provider import all_is_said_and_one_ticket_is_open
from tests.core.invariants.swapping import Swapping, bounded, long_waits, picks, spans, waits
from tests.core.invariants.world import GPUS, World
from tests.core.world import nvlink, policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

REPLACE: dict[str, Any] = {"do": "replace"}
ladders = st.sampled_from(
    [
        [REPLACE],
        [REPLACE],
        [{"do": "report"}, REPLACE],
        [{**REPLACE, "after": "2h"}],
        [RESET, REPLACE],
        [{"do": "report"}],
    ]
)
few = st.sampled_from([f"node-{n}" for n in range(4)])


@st.composite
def laws(draw: st.DrawFn) -> Rules:
    """All that is found takes the machine out, and nearly all is swapped."""
    found = []
    for made in (policy, nvlink):
        ladder = draw(ladders)
        response: dict[str, Any] = {
            "ladder": ladder,
            "notify": draw(st.booleans()),
            "drain": draw(st.sampled_from(["never", "now"])),
        }
        if REPLACE in ladder and draw(st.integers(0, 3)):
            response["approval"] = draw(approvals)
            response["notify"] |= "then" in response["approval"]
        found.append(made(breaker={"maxShare": "100%"}, mode="enforce", response=response))
    budget = {"quarantined": 4, "unavailable": 6, "perHour": 6}
    big = {"name": BIG, "nodeSelector": {"gpu": "yes"}, "budget": budget}
    big["provider"] = draw(st.sampled_from(["acme", "acme", "provider"]))
    return law(found, [big, {"name": SMALL, "nodeSelector": {"gpu": "small"}}])


class Swaps(Swapping):
    """Fewer accidents than in a `Fleet`, and more machines whose provider is asked."""

    @initialize(
        law=laws(),
        settles=st.sampled_from([timedelta(0), timedelta(minutes=5), timedelta(minutes=30)]),
        out=st.sets(few, min_size=1, max_size=3),
    )
    def begin(self, law: Rules, settles: timedelta, out: set[str]) -> None:
        self.world = self.made(law)
        self.world.desk.settles = settles
        for name in sorted(out):
            self.bad("gpu-hot").add(self.world.gpus[name][0])
        self.then(timedelta(minutes=1), 2)
        self.then(timedelta(minutes=6), 2)

    @rule(name=few, found_by=st.sampled_from(["gpu-hot", "nvlink"]), gpu=st.integers(0, GPUS - 1), wait=waits)
    def fails(self, name: str, found_by: str, gpu: int, wait: timedelta) -> None:
        self.bad(found_by).add(self.world.gpus[name][gpu])
        self.then(wait, 2)

    @rule(
        calls=st.dictionaries(
            st.sampled_from(["ticket", "read", "comment", "post", "attempt", "settle"]),
            st.sampled_from(["down", "lost", "crash", "crashed"]),
            min_size=1,
            max_size=3,
        ),
        wait=waits,
    )
    def calls_go_wrong(self, calls: dict[str, str], wait: timedelta) -> None:
        self.world.pass_(wait)
        self.world.trouble.of = dict(calls)
        self.world.cycle()
        self.then(timedelta(minutes=1))

    @rule(pick=picks, wait=waits)
    def is_swapped(self, pick: int, wait: timedelta) -> None:
        self.world.swap(self.out(pick), same_object=bool(pick % 2))
        self.then(wait, 2)

    @rule(pick=picks, kind=st.sampled_from([RequestKind.RELEASE, RequestKind.REPAIRED, RequestKind.OPEN]))
    def people_act(self, pick: int, kind: RequestKind) -> None:
        self.world.ask(kind, self.out(pick))
        self.then(timedelta(minutes=1), 2)

    @rule(scope=st.sampled_from(["all", "gpu"]), until=spans)
    def pause(self, scope: str, until: timedelta) -> None:
        self.world.ask(RequestKind.PAUSE, scope=scope, until=until)
        self.then(timedelta(minutes=1))

    @rule(over=st.sets(few, min_size=1), finish=st.booleans())
    def jobs(self, over: set[str], finish: bool) -> None:
        if finish:
            for key in self.world.gangs():
                self.world.finish(key)
        else:
            self.world.job(tuple(sorted(over)))
        self.then(timedelta(minutes=1), 2)

    @rule(law=laws())
    def the_policies_are_edited(self, law: Rules) -> None:
        self.world.law = law
        self.then(timedelta(minutes=1), 2)

    @rule(wait=long_waits | waits)
    def time_passes(self, wait: timedelta) -> None:
        self.then(wait, 2)

    @rule(which=st.integers(0, 1))
    def another_process_leads(self, which: int) -> None:
        self.world.restart(0)
        self.world.pass_(timedelta(seconds=15))
        self.world.cycle(which)
        self.then(timedelta(seconds=15))

    @precondition(lambda self: len(self.world.book.trail) > 5)
    @rule(back=st.integers(1, 6))
    def the_ledger_is_restored(self, back: int) -> None:
        self.world.book.restore(max(0, len(self.world.book.trail) - back))
        self.world.restores.append(self.world.now)
        for which in (0, 1):
            self.world.restart(which)
        self.then(timedelta(minutes=1), 2)

    @rule()
    def marks_are_taken_over(self) -> None:
        self.world.ask(RequestKind.ADOPT)
        self.then(timedelta(minutes=1), 2)

    @rule()
    def all_trouble_is_over(self) -> None:
        self.world.desk.down = False
        for _ in range(8):
            self.then(timedelta(minutes=15))
        nothing_waits_for_ever(self.world)
        all_is_said_and_one_ticket_is_open(self.world)


TestSwaps = Swaps.TestCase
TestSwaps.settings = settings(bounded(60), stateful_step_count=20)


def sold(**response: Any) -> World:
    """A world in which a ticket is found five minutes after it was filed, and node-2 is to be swapped."""
    budget = {"quarantined": 4, "unavailable": 6, "perHour": 6}
    big = {"name": BIG, "nodeSelector": {"gpu": "yes"}, "budget": budget, "provider": "acme"}
    found = policy(breaker={"maxShare": "100%"}, response={"ladder": [REPLACE], "notify": False, **response})
    world = World(law([found], [big]), settles=timedelta(minutes=5))
    world.prom.bad["gpu-hot"] = {world.gpus["node-2"][0]}
    world.cycle()
    return world


def passing(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.pass_(timedelta(minutes=1))
        world.cycle()


@pytest.mark.parametrize("how", ["crash", "crashed", "lost", "down"])
def test_exactly_once_whatever_becomes_of_the_process_that_files(how: str) -> None:
    world = sold()
    world.pass_(timedelta(minutes=1))
    world.trouble.of = {"ticket": how}
    world.cycle()
    assert len(world.desk.held) == (how in ("crashed", "lost"))
    for _ in range(4):
        world.restart(0)
        passing(world, 1)
    passing(world, 8)
    (filing,) = world.open_cases()[0].filings
    assert [*world.desk.held] == [filing.ref]


def test_a_second_ticket_that_turns_up_late_is_closed_for_the_first() -> None:
    world = sold()
    passing(world, 2)
    (first,) = world.desk.held
    second = world.desk.file(world.desk.held[first].ticket.key, ours=False)
    passing(world, 12)
    assert [held.ticket.open for held in world.desk.held.values()] == [True, False]
    assert first in next(iter(world.desk.told[second.ref].values()))


def test_a_reminder_reaches_its_ticket_once_though_its_answer_is_lost() -> None:
    world = sold()
    passing(world, 2)
    (ref,) = world.desk.held
    world.pass_(timedelta(hours=5))
    world.trouble.of = {"comment": "crashed"}
    world.cycle()
    passing(world, 12)
    assert len(world.desk.told[ref]) == 1
    said = [d for d in world.book.trail if d.effect is Effect.COMMENT]
    assert len(said) == len(world.open_cases()[0].remarks) == 1


def test_nobody_is_asked_for_a_machine_before_a_person_has_said_yes_to_this_very_case() -> None:
    world = sold(approval={})
    passing(world, 2)
    (case,) = world.open_cases()
    assert f"approval/{case.id}" in world.state.holds
    world.answer(RequestKind.APPROVE, "node-2", case="q-another")
    world.answer(RequestKind.APPROVE, "node-2", at=world.now - timedelta(days=1))
    passing(world, 2)
    assert not world.desk.held
    world.answer(RequestKind.DEFER, "node-2", until=world.now + timedelta(minutes=30))
    passing(world, 20)
    assert not world.desk.held
    passing(world, 12)
    assert not world.desk.held
    world.answer(RequestKind.APPROVE, "node-2", case=case.id)
    passing(world, 2)
    assert len(world.desk.held) == 1
