"""A ticket system that does not answer: other cases' machines do not wait for it, and each ticket gets its turn."""

from __future__ import annotations

from datetime import timedelta

from quarantine.adapters.tickets.targets import ManyDesks
from quarantine.core.case import Effect, EffectStatus, Phase, PodRef
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.errors import EvictionBlocked, TicketsUnavailable
from quarantine.core.tickets import Answerable
from quarantine.execute.run import LONGEST_SPEECH
from tests.execute.lab import Lab
from tests.execute.test_machines import leave

SLOW = timedelta(seconds=30)  # as long as an adapter may take for one call
CYCLE = timedelta(seconds=15)


class Silent:
    """Takes all the time that it has, and answers nothing."""

    answerable = Answerable.SEARCHABLE
    settles = timedelta(0)

    def __init__(self, here: Lab) -> None:
        self.here = here
        self.asked: list[str] = []

    def find(self, key: str) -> None:
        self.asked.append(key)
        self.here.clock.at += SLOW
        raise TicketsUnavailable("it took more than 30 s")


def take_out(here: Lab, number: int, *effects: Effect, pool: str = "gpu") -> str:
    """A machine is to be marked, and more."""
    name = f"node-{number}"
    made = Decision(
        here.clock.at, Kind.DECIDED, Action.QUARANTINE, "r", "t", node=name, machine=here.kube.held[name].machine,
        pool=pool, case=f"q-{number:010d}", phase=Phase.QUARANTINED, effects=effects, request=f"r{number}",
    )  # fmt: skip
    here.ledger.record(here.term, [made])
    return f"q-{number:010d}"


def test_no_mark_waits_for_a_ticket_system_that_does_not_answer(quiet: Lab) -> None:
    silent = Silent(quiet)
    quiet.executor.desks = ManyDesks({"silent": silent}, {}, "silent")  # type: ignore[dict-item]
    for number in range(12):
        take_out(quiet, number, Effect.MARK, Effect.TICKET)
    quiet.act()
    for number in range(12, 18):
        quiet.clock.at += CYCLE
        case = take_out(quiet, number, Effect.MARK)
        began = quiet.clock.at
        quiet.act()
        assert quiet.state.cases[case].effects[Effect.MARK].status is EffectStatus.DONE
        assert quiet.clock.at - began <= LONGEST_SPEECH + SLOW, "one call, and no other is begun after it"


def test_no_eviction_that_was_refused_waits_for_it(here: Lab) -> None:
    here.executor.desks = ManyDesks({"silent": Silent(here)}, {}, "silent")  # type: ignore[dict-item]
    here.decide(Action.TICKET, effects=(Effect.TICKET,))
    leave(here, "a")
    here.kube.answers["a"] = EvictionBlocked("its budget allows none now")
    here.act()
    here.kube.answers.clear()
    here.later(minutes=1)
    began, at = here.clock.at, []
    real = here.kube.evict

    def evict(ref: PodRef) -> bool:
        at.append(here.clock.at)
        return real(ref)

    here.kube.evict = evict  # type: ignore[method-assign,assignment]
    here.act()
    assert at == [began]
    assert here.clock.at > began, "and the ticket system was asked in the same run"


def test_each_ticket_gets_its_turn_whatever_another_system_does(quiet: Lab) -> None:
    """Those that were never tried come first, then those that were not for longest."""
    silent = Silent(quiet)
    desks = {"silent": silent, "lab": quiet.tickets}
    quiet.executor.desks = ManyDesks(desks, {"acme": "silent"}, "lab")  # type: ignore[arg-type]
    for number in range(8):
        take_out(quiet, number, Effect.MARK, Effect.TICKET)
    alive = take_out(quiet, 8, Effect.MARK, Effect.TICKET, pool="another")
    for _ in range(9):
        quiet.act()
        quiet.clock.at += CYCLE
    assert sorted(silent.asked[:8]) == sorted(case for case in quiet.state.cases if case != alive), "once each"
    assert quiet.state.cases[alive].effects[Effect.TICKET].status is EffectStatus.DONE
