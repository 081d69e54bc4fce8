"""Whether this process still leads is asked last of all: after the attempt is committed and all is looked up.

A process may be paused at any line. What it asked before a commit or a look, which may take minutes, is of the past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from quarantine.adapters.tickets.targets import only
from quarantine.core.case import Effect, Leaving, Phase, PodRef, Purpose
from quarantine.core.decision import Action
from tests.execute.lab import NODE, Lab, pod, refs
from tests.execute.test_doubt import ask, end
from tests.execute.test_machines import leave, order
from tests.execute.test_people import filed, remark

LEADS = "leads"
# What is done to the world outside, by the port.
ACTS = {"patch_node", "create_event", "set_condition", "evict", "start", "open", "update", "post", "fold"}


@dataclass
class Trace:
    """Every call in its order, of the ledger as well, and every look at whether this process leads."""

    calls: list[str] = field(default_factory=list)
    lost_at: str = ""  # the call during which another process comes to lead; empty: none does
    lost: bool = False

    def leads(self) -> bool:
        self.calls.append(LEADS)
        return not self.lost

    def heard(self, name: str) -> None:
        self.calls.append(name)
        self.lost = self.lost or name == self.lost_at

    @property
    def acts(self) -> list[int]:
        return [at for at, name in enumerate(self.calls) if name in ACTS]


class Traced:
    """A port, whose calls are written down once they are over."""

    def __init__(self, inner: object, trace: Trace) -> None:
        self._inner, self._trace = inner, trace

    def __getattr__(self, name: str) -> object:
        inner = getattr(self._inner, name)
        if not callable(inner):
            return inner

        def call(*given: object, **named: object) -> object:
            try:
                return inner(*given, **named)
            finally:
                self._trace.heard(name)

        return call


def trace(here: Lab, *, lost_at: str = "") -> Trace:
    made, executor = Trace(lost_at=lost_at), here.executor
    executor.cluster = Traced(here.kube, made)  # type: ignore[assignment]
    executor.ledger = Traced(here.ledger, made)  # type: ignore[assignment]
    executor.procedures = Traced(here.runner, made)  # type: ignore[assignment]
    executor.notifier = Traced(here.chat, made)  # type: ignore[assignment]
    executor.desks = only("lab", Traced(here.tickets, made))  # type: ignore[arg-type]
    executor.leads = made.leads
    return made


def late_batch(here: Lab) -> None:
    """More pods than are asked within a moment."""
    names = [f"pod-{number}" for number in range(4)]
    here.kube.pods[NODE] = tuple(pod(name) for name in names)
    here.decide(Action.DRAIN, phase=Phase.DRAINING)
    leaving = Leaving(here.clock.at, tuple(refs(names)))
    here.decide(Action.EVICT, phase=Phase.DRAINING, leaving=leaving, effects=(Effect.EVICT,))
    evict = here.kube.evict

    def slow(pod: PodRef) -> bool:
        here.later(seconds=30 if pod == leaving.pods[0] else 4)
        return evict(pod)

    here.kube.evict = slow  # type: ignore[method-assign]


def comment(here: Lab) -> None:
    remark(here, filed(here))


def close(here: Lab) -> None:
    filed(here)
    end(here)


ASKED: dict[str, Callable[[Lab], object]] = {
    "condition": lambda here: here.decide(Action.SHOW, effects=(Effect.CONDITION,)),
    "event": lambda here: here.decide(Action.SHOW, effects=(Effect.EVENT,)),
    "evict": lambda here: leave(here, "a", "b", "c"),
    "evict slowly": late_batch,
    "run": lambda here: order(here, Purpose.EVIDENCE),
    "ticket": lambda here: ask(here, Effect.TICKET),
    "replace": lambda here: ask(here, Effect.REPLACE),
    "notify": lambda here: here.decide(Action.SHOW, effects=(Effect.NOTIFY,)),
    "comment": comment,
    "close": close,
    "unmark": end,
}
EACH = pytest.mark.parametrize("asked", list(ASKED))


@EACH
def test_nothing_stands_between_the_last_look_and_the_act(here: Lab, asked: str) -> None:
    ASKED[asked](here)
    made = trace(here)
    here.act()
    assert made.acts, "it was done"
    for at in made.acts:
        assert made.calls[at - 1] == LEADS, made.calls[: at + 1]


@EACH
def test_who_is_deposed_while_the_attempt_is_committed_leaves_it_to_the_next(here: Lab, asked: str) -> None:
    ASKED[asked](here)
    made = trace(here, lost_at="attempt")
    assert any("another process may lead by now" in said for said in here.act().postponed)
    assert (made.acts, made.calls.count("attempt")) == ([], 1)
    here.restart()
    after = trace(here)
    here.later(minutes=5)
    here.act()
    assert after.acts


@pytest.mark.parametrize("asked", ["ticket", "notify", "close"])
def test_who_is_deposed_while_it_looks_up_what_is_there_sends_nothing(here: Lab, asked: str) -> None:
    ASKED[asked](here)
    made = trace(here, lost_at="find")
    here.act()
    assert [made.calls[at] for at in made.acts if made.calls[at] != "patch_node"] == []


def test_a_machine_is_marked_as_carefully(quiet: Lab) -> None:
    made = trace(quiet)
    quiet.quarantine()
    assert "patch_node" in made.calls
    for at in made.acts:
        assert made.calls[at - 1] == LEADS, made.calls[: at + 1]
