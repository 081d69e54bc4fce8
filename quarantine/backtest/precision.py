"""What became of the machines that a policy picked, and which faults it missed: by the trail's own word."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quarantine.backtest.result import Outage, Result
from quarantine.core.case import Case, Phase
from quarantine.core.decision import Decision, State
from quarantine.core.record.milestones import Fate, fate
from quarantine.core.state import evolve


def cases_of(decisions: Iterable[Decision]) -> tuple[Case, ...]:
    """Every case that a trail tells of, as it stands at its end; in order of their opening."""
    found: dict[str, Case] = {}
    for decision in decisions:
        if decision.case is not None:
            known = {decision.case: found[decision.case]} if decision.case in found else {}
            found[decision.case] = evolve(State(cases=known), decision).cases[decision.case]
    return tuple(sorted(found.values(), key=lambda case: (case.opened_at, case.id)))


@dataclass(frozen=True, slots=True)
class Score:
    """One policy against the trail. Cases are counted, not machines."""

    policy: str
    confirmed: int
    refuted: int
    returned: int
    open: int
    unknown: int  # outages of the backtest on machines without a case in the trail at that time

    @property
    def precision(self) -> float | None:
        """Confirmed of those that were decided either way; None where none was."""
        decided = self.confirmed + self.refuted
        return self.confirmed / decided if decided else None


@dataclass(frozen=True, slots=True)
class Record:
    """All policies, and the confirmed faults on machines that none of them took out."""

    scores: tuple[Score, ...]
    missed: tuple[Case, ...]
    cases: int  # of the trail, in this time


def precision(result: Result, cases: Iterable[Case]) -> Record:
    """Outages are matched with the trail's cases of the same node that overlap them."""
    end = result.span.end
    known = [c for c in cases if c.opened_at <= end and (c.open or c.phase_since >= result.span.start) and _counts(c)]
    fates: dict[str, list[Fate | None]] = {policy: [] for policy in result.policies}
    met: set[str] = set()
    for outage in result.outages:
        matching = [c for c in known if c.node == outage.node and _overlaps(outage, c, result)]
        met.update(c.id for c in matching)
        for policy in (outage.policy, *outage.also):
            fates.setdefault(policy, []).append(fate(matching[-1]) if matching else None)
    scores = tuple(_score(policy, found) for policy, found in fates.items())
    missed = tuple(c for c in known if c.id not in met and fate(c) is Fate.CONFIRMED)
    return Record(scores, missed, len(known))


def _score(policy: str, found: list[Fate | None]) -> Score:
    counted = {fate.value: found.count(fate) for fate in Fate}
    return Score(policy=policy, unknown=found.count(None), **counted)


def _counts(case: Case) -> bool:
    """A suspicion that went by itself was never put to anybody."""
    return case.cordoned_by_us is not None or case.by_person or case.phase is not Phase.DISMISSED


def _overlaps(outage: Outage, case: Case, result: Result) -> bool:
    over = result.span.end if case.open else case.phase_since
    return case.opened_at <= (outage.end or result.span.end) and over >= outage.start
