"""One run of the outbox: what is wrong with one effect, or with the world meanwhile, and what becomes of the rest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from quarantine.adapters.tickets.targets import only
from quarantine.core.case import Effect, Phase, PodRef, Purpose
from quarantine.core.decision import Action, Decision, Kind, Request, RequestKind
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, Superseded
from quarantine.core.workload import Workloads
from quarantine.execute import machines
from quarantine.execute.run import LONGEST_RUN
from quarantine.ports import Order
from tests.core.world import NOW
from tests.execute.lab import Lab
from tests.execute.test_machines import leave, order


@pytest.mark.parametrize(
    "error", [ClusterUnavailable("500: a webhook failed"), ClusterRefused("403 in this namespace")]
)
def test_a_pod_whose_eviction_errs_keeps_no_other(here: Lab, error: Exception) -> None:
    leave(here, "a", "b", "c")
    here.kube.answers["b"] = error
    assert any("jobs/b" in said and str(error) in said for said in here.act().postponed)
    assert here.kube.evicted == ["a", "c"]
    here.kube.answers.clear()
    here.later(minutes=1)
    here.act()
    assert here.kube.evicted == ["a", "c", "b"]


def test_pods_that_are_never_answered_keep_none_for_good_and_a_server_that_is_away_is_not_asked_for_all(
    here: Lab,
) -> None:
    names = "abcdefgh"
    leave(here, *names)
    tried: list[str] = []
    real = here.kube.evict

    def evict(ref: PodRef) -> bool:
        tried.append(ref.name)
        return real(ref)

    here.kube.evict = evict  # type: ignore[method-assign,assignment]
    here.kube.answers.update({name: ClusterUnavailable("no answer") for name in "abcd"})
    here.act()
    assert len(tried) == machines.IN_A_ROW
    for _ in range(4):
        here.later(minutes=5)
        here.act()
    assert sorted(here.kube.evicted) == list("efgh")


def _takes_it_back(here: Lab) -> None:
    here.kube.change(taints=(), unschedulable=False)
    here.later(seconds=10)


def test_a_mark_that_is_taken_away_during_an_earlier_effect_is_seen(here: Lab) -> None:
    leave(here, "a")
    order(here)
    real = here.runner.start

    def start(begun: Order) -> None:
        real(begun)
        here.kube.change(taints=(), unschedulable=False)

    here.runner.start = start  # type: ignore[method-assign,assignment]
    here.act()
    assert len(here.runner.begun) == 1
    assert here.kube.evicted == []


def _after_a(here: Lab, what: Callable[[], None]) -> None:
    real = here.kube.evict

    def evict(ref: PodRef) -> bool:
        there = real(ref)
        if ref.name == "a":
            what()
        return there

    here.kube.evict = evict  # type: ignore[method-assign,assignment]


def test_a_mark_that_is_taken_away_between_two_pods_is_seen(here: Lab) -> None:
    leave(here, "a", "b", "c")
    _after_a(here, lambda: _takes_it_back(here))
    here.act()
    assert here.kube.evicted == ["a"]


def test_what_a_person_asks_meanwhile_ends_the_run(here: Lab) -> None:
    leave(here, "a", "b", "c")
    asked = Request("r1", RequestKind.PAUSE, "", "stop", "an engineer", "cli", here.clock.at, scope="all")

    def ask() -> None:
        here.ledger.ask(asked)
        here.later(seconds=10)

    _after_a(here, ask)
    assert any("a person asks" in said for said in here.act().postponed)
    assert here.kube.evicted == ["a"]
    assert here.status(Effect.EVICT) == "pending"


def _while_looking(here: Lab, what: Callable[[], object]) -> None:
    real = here.kube.workloads

    def workloads(*asked: object) -> Workloads:
        seen = real(*asked)  # type: ignore[arg-type]
        what()
        return seen

    here.kube.workloads = workloads  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("succeeded", [True, False])
@pytest.mark.parametrize("effect", [Effect.RUN, Effect.REPLACE])
def test_what_happens_during_a_slow_look_at_the_pods_is_seen_after_it(
    here: Lab, effect: Effect, succeeded: bool
) -> None:
    if effect is Effect.RUN:
        order(here, Purpose.RESET, "reset")
    else:
        here.decide(Action.DRAIN, phase=Phase.DRAINED)
        here.decide(Action.STEP, phase=Phase.SWAP_REQUESTED, effects=(Effect.REPLACE,))
    if succeeded:
        _while_looking(here, lambda: here.ledger.take_term("another", here.kube.uid))
        with pytest.raises(Superseded):
            here.act()
    else:
        _while_looking(here, lambda: _takes_it_back(here))
        here.act()
    assert here.runner.begun == {}
    assert here.tickets.find(f"{here.case.id}-replace") == ()


def test_a_defect_in_one_effect_is_said_and_ends_no_other(here: Lab) -> None:
    here.decide(Action.TICKET, effects=(Effect.TICKET, Effect.PHASE))
    leave(here, "a")

    class Defective:
        def find(self, key: str) -> None:
            raise ValueError(f"a bug with {key}")

    here.executor.desks = only("defective", Defective())  # type: ignore[arg-type]
    assert any("ValueError" in said for said in here.act().postponed)
    assert here.kube.evicted == ["a"]
    (row,) = here.ledger.load().pending
    assert (row.effect, row.attempts) == (Effect.TICKET, 1)
    assert row.last_error.startswith("a defect, ValueError: a bug with")


def _many(here: Lab, count: int) -> None:
    """So many machines are to be marked."""
    nodes = here.kube.held
    for number, name in enumerate(list(nodes)[:count]):
        made = Decision(
            NOW, Kind.DECIDED, Action.QUARANTINE, "r", "t", node=name, machine=nodes[name].machine, pool="gpu",
            case=f"q-{number:010d}", phase=Phase.QUARANTINED, effects=(Effect.MARK,), request=f"r{number}",
        )  # fmt: skip
        here.ledger.record(here.term, [made])


def test_a_dependency_that_does_not_answer_is_not_asked_for_everything(quiet: Lab) -> None:
    _many(quiet, 6)
    began = quiet.clock.at

    def patch(_: object) -> None:
        quiet.later(seconds=10)
        raise ClusterUnavailable("no answer")

    real, quiet.kube.patch_node = quiet.kube.patch_node, patch  # type: ignore[method-assign,assignment]
    assert len(quiet.act().postponed) == 6
    assert quiet.clock.at == began + timedelta(seconds=20)
    assert sorted(p.attempts for p in quiet.ledger.load().pending) == [0, 0, 0, 0, 1, 1]
    quiet.kube.patch_node = real  # type: ignore[method-assign]
    quiet.later(seconds=10)
    assert len(quiet.act().done) == 6


def test_a_run_that_takes_too_long_leaves_the_rest_to_the_next_cycle(quiet: Lab) -> None:
    _many(quiet, 4)
    real = quiet.kube.patch_node

    def patch(asked: object) -> object:
        quiet.later(seconds=LONGEST_RUN.total_seconds() / 2)
        return real(asked)  # type: ignore[arg-type]

    quiet.kube.patch_node = patch  # type: ignore[method-assign,assignment]
    executed = quiet.act()
    assert len(executed.done) == 2
    assert executed.postponed == ("what is left (2) waits for the next cycle, since this one took too long",)
    assert len(quiet.act().done) == 2
