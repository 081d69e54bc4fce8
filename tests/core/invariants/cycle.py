"""One cycle's plan beside what is true of the world: what the invariants are told from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from quarantine.core import maintenance, signs
from quarantine.core.case import Case, Effect, Finding, Purpose
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.model import Failed, Mode, Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.snapshot import Plan, Snapshot
from quarantine.core.state import evolve
from tests.core.invariants.prom import Place

if TYPE_CHECKING:
    from tests.core.invariants.world import World


HOUR = timedelta(hours=1)
SHOWS = {Effect.UNMARK, Effect.STOP, Effect.CONDITION, Effect.CLOSE, Effect.PHASE}  # what takes away, or only shows
ACTS = {Action.EVICT, Action.STEP, Action.TICKET, Action.NOTIFY}
REMEDIES = (Purpose.RESET, Purpose.REBOOT)


@dataclass(frozen=True)
class Cycle:
    """A plan, with what it was made from and what it makes of the state."""

    world: World
    look: Snapshot
    law: Rules
    made: Plan
    before: State
    after: State

    @cached_property
    def steps(self) -> list[tuple[State, Decision]]:
        """Each decision with the state in which it was taken."""
        state, found = self.before, []
        for decision in self.made.decisions:
            found.append((state, decision))
            state = evolve(state, decision)
        assert state == self.after
        return found

    @property
    def decided(self) -> Iterator[tuple[State, Decision]]:
        """Without what is held."""
        return ((state, d) for state, d in self.steps if d.kind is Kind.DECIDED)

    def case(self, decision: Decision) -> Case:
        """As the decision leaves it at the end of the plan."""
        assert decision.case is not None
        return self.after.cases[decision.case]

    def ours(self, decision: Decision) -> bool:
        """Whether nobody asked for it."""
        return decision.request is None and decision.actor == self.look.actor

    # --- What is true -------------------------------------------------------------------------------------------------

    def told(self, policy: LoadedPolicy, node: str | None = None) -> bool:
        """Whether a policy was answered in full, so that what it does not find bad (there) is not bad."""
        said = self.look.answers[policy.name]
        full = not any(isinstance(a, Failed) for a in (*said.trigger.values(), *said.coverage.values()))
        return full and (node in self.world.prom.seen() if node is not None else bool(self.world.prom.seen()))

    def finds(self, policy: LoadedPolicy, place: Place) -> bool:
        """Whether a policy's trigger names the device in this cycle."""
        prom = self.world.prom
        answered = any(not isinstance(a, Failed) for a in self.look.answers[policy.name].trigger.values())
        return answered and place[0] in prom.seen() and place in self._devices(policy) and prom.is_bad(policy, place)

    def shows_good(self, policy: LoadedPolicy, place: Place) -> bool:
        """Whether its recovery names it."""
        prom = self.world.prom
        answers = self.look.answers[policy.name].recovery.values()
        answered = bool(answers) and not any(isinstance(a, Failed) for a in answers)
        here = place[0] in prom.seen() & prom.loaded and place in self._devices(policy)
        return answered and here and not prom.is_bad(policy, place)

    def _devices(self, policy: LoadedPolicy) -> set[Place]:
        return set(self.world.prom.devices(policy))

    def bad_nodes(self, policy: LoadedPolicy) -> set[str]:
        """On which it finds anything."""
        return {place[0] for place in self._devices(policy) if self.finds(policy, place)}

    @cached_property
    def maintained(self) -> set[str]:
        """The nodes with planned work under way, as of the end of the plan."""
        nodes, now, prefix = self.look.nodes, self.look.now, self.law.prefix
        by_words = maintenance.under_words(nodes, self.after.words.values(), now)
        return {*by_words, *signs.worked_on(nodes, prefix, now), *(n for n in nodes if "ops/work" in nodes[n].labels)}

    def acting(self, case: Case) -> list[LoadedPolicy]:
        """The policies that found something on the case's machine and take machines out."""
        found = (self.law.policy(finding.policy) for finding in case.findings)
        return [p for p in found if p is not None and p.spec.mode is Mode.ENFORCE and p.spec.response.taint]


def place_of(finding: Finding, node: str) -> Place:
    return (node, finding.device.name)


def taken(d: Decision) -> bool:
    return d.action is Action.QUARANTINE and d.kind is Kind.DECIDED


def pool_of(node: Node) -> str:
    return {"yes": "gpu", "small": "small"}.get(node.labels.get("gpu", ""), "")
