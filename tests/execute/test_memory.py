"""What was put off and is wanted no more is not remembered: a process lives for months."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from quarantine.core.case import Effect, Phase
from quarantine.core.decision import Action, PendingEffect
from quarantine.core.errors import ClusterUnavailable, TicketsUnavailable
from quarantine.execute.memory import Memory
from tests.core.world import NOW
from tests.execute.lab import Lab
from tests.execute.test_executor import _many

LATER = timedelta(minutes=1)


def filled(*known: PendingEffect) -> Memory:
    """Of each of these effects everything is remembered."""
    memory = Memory()
    for one in known:
        memory.failed(one, TicketsUnavailable("busy", retry_after=LATER), NOW, LATER)
        memory.doubt(one, ["found-1"])
        memory.told(one)["desk", "F-1"] = True
    return memory


def maps(memory: Memory) -> list[int]:
    """How much there is, by kind."""
    return [len(memory.earliest), len(memory.ended), len(memory.doubtful), len(memory.ends)]


A = PendingEffect("q-1/ticket", "q-1", Effect.TICKET, NOW)
B = replace(A, key="q-2/ticket", case="q-2")


def test_of_what_is_pending_no_more_nothing_is_kept() -> None:
    memory = filled(A, B)
    assert maps(memory) == [2, 2, 2, 2]
    memory.keep([B])
    assert maps(memory) == [1, 1, 1, 1]
    memory.keep([])
    assert maps(memory) == [0, 0, 0, 0]


def test_of_what_is_done_nothing_is_kept() -> None:
    memory = filled(A, B)
    memory.forget(A)
    assert maps(memory) == [1, 1, 1, 1]


def test_what_is_asked_for_again_under_its_key_is_another() -> None:
    again = replace(A, decided_at=NOW + LATER, attempts=1)
    memory = filled(A)
    assert not memory.in_doubt(replace(A, attempts=1))
    assert memory.in_doubt(again)
    assert not memory.doubts(again)
    memory.keep([again])
    assert maps(memory) == [0, 0, 0, 0]


def test_an_effect_of_a_case_that_ended_is_forgotten(quiet: Lab) -> None:
    _many(quiet, 1)
    quiet.kube.trouble = ClusterUnavailable("no answer", retry_after=LATER)
    assert quiet.act().postponed
    memory = quiet.executor._memory
    assert maps(memory)[:2] == [1, 1]
    quiet.decide(Action.DISMISS, phase=Phase.DISMISSED)
    quiet.kube.trouble = None
    quiet.act()
    assert maps(memory) == [0, 0, 0, 0]
