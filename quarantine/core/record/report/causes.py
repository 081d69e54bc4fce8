"""What machines were taken out for, and what became of what policies found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from quarantine.core.case import Phase
from quarantine.core.model import Severity
from quarantine.core.record.milestones import Fate
from quarantine.core.record.report.material import CaseGroup, Column
from quarantine.core.record.report.measure import Window

PERSON, GATE, POLICY, UNTOLD = "person", "gate", "policy", "untold"  # who opened a case, or what


@dataclass(frozen=True, slots=True)
class Cause:
    """Cases by what they were opened for. `severities`: of those that were taken out."""

    by: str  # PERSON, POLICY, GATE (a machine that is new here), UNTOLD (a mark that was found)
    policy: str
    signal: str
    opened: int
    out: int
    severities: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PolicyScore:
    """A policy's cases by their fates. Cases are counted, not machines."""

    policy: str
    confirmed: int
    refuted: int
    returned: int
    open: int

    @property
    def precision(self) -> float | None:
        """Confirmed of those that were decided either way; None where none was."""
        decided = self.confirmed + self.refuted
        return self.confirmed / decided if decided else None


def by_of(group: CaseGroup) -> str:
    """Who or what opened these cases."""
    if group.by_person:
        return PERSON
    if group.policy:
        return POLICY
    return GATE if group.gate else UNTOLD


@dataclass(slots=True)
class CauseTally:
    """Counts of causes, filled group by group."""

    window: Window
    opened: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    out: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def add(self, group: CaseGroup) -> None:
        """Cases that were opened in the window, and those that were taken out in it."""
        key = (by_of(group), group.policy, group.signal)
        self.opened[key] += self.window.count(group.opened)
        self.out[*key, group.severity or ""] += self.window.count(group.out)

    def causes(self) -> tuple[Cause, ...]:
        """By how many were taken out, the most first."""
        found = (self._cause(*key) for key in self.opened)
        told = (cause for cause in found if cause.opened or cause.out)
        return tuple(sorted(told, key=lambda cause: (-cause.out, -cause.opened, cause.by, cause.policy, cause.signal)))

    def _cause(self, by: str, policy: str, signal: str) -> Cause:
        key = (by, policy, signal)
        severities = {severity.value: self.out[*key, severity.value] for severity in Severity}
        out = sum(severities.values()) + self.out[*key, ""]
        told = {severity: count for severity, count in severities.items() if count}
        return Cause(by, policy, signal, self.opened[key], out, told)


@dataclass(slots=True)
class ScoreTally:
    """Fates of what policies found, filled group by group."""

    window: Window
    fates: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, group: CaseGroup) -> None:
        """Cases that a policy opened in the window; a suspicion that went by itself was never put to anybody."""
        if not group.policy or group.by_person:
            return
        opened: Column = group.opened
        if group.phase == Phase.DISMISSED and group.fate != Fate.REFUTED:
            opened = [at for at, out in zip(opened, group.out, strict=True) if out is not None]
        self.fates[group.policy, group.fate] += self.window.count(opened)

    def scores(self) -> tuple[PolicyScore, ...]:
        """By name."""
        return tuple(
            PolicyScore(policy, **{fate.value: self.fates[policy, fate.value] for fate in Fate})
            for policy in sorted({policy for (policy, _), count in self.fates.items() if count})
        )
