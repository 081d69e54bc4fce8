"""Repeat offenders: what the trail says of a machine before this case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case, Effect, EffectStatus, Phase
from quarantine.core.decision import State
from quarantine.core.marks import same_machine
from quarantine.core.model import Machine
from quarantine.core.response import Repeat
from quarantine.core.state import FINDING_MEMORY

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Score:
    """The published signs of a machine that is not worth repairing again, of the 28 days before a case."""

    out: int = 0  # times that it was out of service
    findings: int = 0  # times that something was found bad on it; what it shared with others at once is not counted
    signals: int = 0  # different ones
    xids: int = 0  # of the findings
    tickets: int = 0  # cases for which its provider was told

    def __str__(self) -> str:
        """For people; empty where there is nothing to say."""
        if not (self.out or self.findings):
            return ""
        told = [
            f"out of service {_times(self.out)} in the {FINDING_MEMORY.days} days before",
            f"{_number(self.findings, 'finding')} by {_number(self.signals, 'signal')}"
            + (f", {self.xids} of them XIDs" if self.xids else ""),
            _number(self.tickets, "ticket"),
        ]
        return "; ".join(told)


def score(state: State, case: Case) -> Score:
    """What is remembered of the machine that the case is about now, before the case was opened."""
    since = case.opened_at - FINDING_MEMORY
    earlier = list(_earlier(state, case, since))
    found = [
        (finding.evidence.signal or finding.policy, began)
        for other in earlier
        for finding in other.findings
        for began, _ in finding.spells
        if began > since and began not in finding.shared
    ]
    return Score(
        out=sum(1 for other in earlier if _was_out(other)),
        findings=len(found),
        signals=len({signal for signal, _ in found}),
        xids=sum(1 for signal, _ in found if "xid" in _WORD.findall(signal.lower())),
        tickets=sum(1 for other in earlier if _was_told(other)),
    )


def earlier(state: State, case: Case) -> list[Case]:
    """The cases about this machine that were opened in the 28 days before this one, oldest first."""
    found = _earlier(state, case, case.opened_at - FINDING_MEMORY)
    return sorted(found, key=lambda other: (other.opened_at, other.id))


def too_often(state: State, case: Case, rule: Repeat, now: datetime) -> bool:
    """Whether the machine was quarantined so often before this case that a policy gives up on it.

    Counted back from when it was taken out (from `now` where it is in service still), so that what was decided then
    holds for as long as it is out. A gate's proof is no quarantine, unless something was found; nor is one that a
    person dismissed.
    """
    before = _earlier(state, case, (case.out_since or now) - rule.within)
    counted = (c for c in before if _was_out(c) and (c.findings or c.by_person) and c.phase is not Phase.DISMISSED)
    return sum(1 for _ in counted) >= rule.times


def _earlier(state: State, case: Case, since: datetime) -> Iterator[Case]:
    """Cases about the same machine: of one whose machine was exchanged, the one that was sent away is meant."""
    for other in state.cases.values():
        if other.id != case.id and since < other.opened_at < case.opened_at and _about(other, case.machine):
            yield other


def _about(case: Case, machine: Machine) -> bool:
    return same_machine(machine, case.sent_away or case.machine)


def _was_out(case: Case) -> bool:
    """Whether its machine was ever marked for it."""
    mark = case.effects.get(Effect.MARK)
    return case.cordoned_by_us is not None or (mark is not None and mark.status is EffectStatus.DONE)


def _was_told(case: Case) -> bool:
    filed = (case.effects.get(effect) for effect in (Effect.TICKET, Effect.REPLACE))
    return any(state is not None and state.status is EffectStatus.DONE for state in filed)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
