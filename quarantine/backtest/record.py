"""From plans, one after the other, to what a backtest shows: who was out, what stood in the way, what was not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quarantine.backtest.result import Gap, Held, Outage
from quarantine.core.case import Evidence
from quarantine.core.decision import Action, Decision, Kind, State
from quarantine.core.model import Device, DeviceKind, Node, Severity, Verdict
from quarantine.core.record.spans import HoldSpan, follow, stand
from quarantine.core.snapshot import Plan
from quarantine.core.state import evolve


@dataclass(slots=True)
class Record:
    """Grows with what happens, not with the time that passes."""

    gpus: Mapping[str, int]  # by node
    decisions: int = 0
    outages: dict[str, Outage] = field(default_factory=dict)  # by case
    held: list[Held] = field(default_factory=list)  # those that are over
    gaps: dict[str, list[Gap]] = field(default_factory=dict)  # by policy
    _standing: Mapping[str, HoldSpan] = field(default_factory=dict)  # by key
    _state: State = field(default_factory=State)  # before the next plan

    def add(self, plan: Plan, state: State) -> None:
        """What was decided, and the state after it."""
        for decision in plan.decisions:
            self.decisions += 1
            self._hold(decision)
            if decision.case is not None and decision.kind is Kind.DECIDED:
                self._case(decision, decision.case, state)
        self._state = state

    def unanswered(self, policy: str, start: datetime, end: datetime, detail: str, step: timedelta) -> None:
        """Nothing is known of a policy from `start` to `end`. In order of time."""
        gaps = self.gaps.setdefault(policy, [])
        if gaps and gaps[-1].detail == detail and gaps[-1].end + step >= start:
            gaps[-1] = replace(gaps[-1], end=end)
        else:
            gaps.append(Gap(policy, start, end, detail))

    def all_held(self) -> tuple[Held, ...]:
        """Those that are over and those that still stand, in order of their start."""
        found = (*self.held, *map(_held, self._standing.values()))
        return tuple(sorted(found, key=lambda held: (held.start, held.node or "", held.policy or "")))

    def all_gaps(self) -> tuple[Gap, ...]:
        """By policy, in order of time."""
        return tuple(gap for policy in sorted(self.gaps) for gap in self.gaps[policy])

    def _hold(self, decision: Decision) -> None:
        before, self._state = self._state, evolve(self._state, decision)
        cases = (
            (before.cases.get(decision.case), self._state.cases.get(decision.case)) if decision.case else (None, None)
        )
        changed = follow(self._standing, self.decisions, decision, *cases)
        self._standing = stand(self._standing, changed)
        self.held += [_held(span) for span in changed if span.until is not None]

    def _case(self, decision: Decision, case: str, state: State) -> None:
        outage = self.outages.get(case)
        if outage is None:
            if decision.action is Action.QUARANTINE:
                self.outages[case] = self._begun(decision, case)
            return
        after = state.cases[case]
        if decision.action is Action.JOIN:
            also = {*outage.also, decision.policy} - {None, outage.policy}
            outage = replace(outage, also=tuple(sorted(str(name) for name in also)), good_at=None)
        elif decision.action is Action.RECOVER and all(f.verdict is Verdict.GOOD for f in after.findings):
            outage = replace(outage, good_at=decision.at)
        elif not after.open and outage.end is None:
            outage = replace(outage, end=decision.at)
        self.outages[case] = outage

    def _begun(self, decision: Decision, case: str) -> Outage:
        return Outage(
            node=decision.node or "",
            case=case,
            policy=decision.policy or "",
            device=decision.device or Device(DeviceKind.NODE, ""),
            severity=decision.severity or Severity.WARNING,
            start=decision.at,
            end=None,
            reason=decision.reason,
            gpus=self.gpus.get(decision.node or "", 0),
            evidence=decision.evidence or Evidence("", None, "", "", decision.at),
        )


def _held(span: HoldSpan) -> Held:
    return Held(span.node or None, span.policy or None, span.held_by, span.since, span.until, span.reason)


def gpus_of(nodes: Mapping[str, Node], expected: Mapping[str, int]) -> dict[str, int]:
    """How many GPUs each node has: its capacity, or what its pool is expected to have; 0 where neither is said."""
    return {name: node.gpus if node.gpus is not None else expected.get(name, 0) for name, node in nodes.items()}
