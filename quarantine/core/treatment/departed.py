"""What was sent away: the machines and the GPUs that left on account of a case, as far as cases are remembered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import Case, Finding, Step
from quarantine.core.decision import State
from quarantine.core.identity import gpu_of
from quarantine.core.model import Machine
from quarantine.core.treatment.place import sent_away


@dataclass(frozen=True, slots=True)
class Departed:
    """What one case sent away. `machine` None: only a part of it."""

    case: Case
    machine: Machine | None
    gpus: frozenset[str]  # that were found bad, by UUID

    @property
    def told(self) -> str:
        """From where, for people."""
        return f"{self.case.node} (case {self.case.id})"


def departed(state: State, now: datetime) -> tuple[Departed, ...]:
    """Of every case by which something left, or is to leave: its provider was told, and it is not back in service.

    As it was before what is decided at `now`, and in order of their opening: the same is said in each cycle.
    """
    found = [_departed(case, now) for case in _by_age(state.cases.values())]
    return tuple(left for left in found if left is not None)


def bad_gpus(case: Case, now: datetime) -> frozenset[str]:
    """The GPUs that stood as bad before `now`, by UUID; where something was exchanged, those that stood so then.

    A GPU that was sent away as bad stays so whatever is measured on it later, in an exchange's own machine too: whether
    it was repaired is for people to say.
    """
    at = case.swapped_at or now
    bad = (f for f in case.findings if _stood(f, at))
    return frozenset(uuid for f in bad if (uuid := gpu_of(f.device)) is not None)


def told_before(case: Case, now: datetime) -> bool:
    """Whether the provider was told in an earlier cycle: what is seen in the same one is not what it did about it."""
    first = first_told(case)
    return case.told_provider and (first is None or first < now)


def first_told(case: Case) -> datetime | None:
    """When it was first decided to tell the provider; None where that is not recorded."""
    return min((rung.at for rung in case.rungs if rung.step in (Step.REPORT, Step.REPLACE)), default=None)


def _stood(finding: Finding, at: datetime) -> bool:
    """Whether it had begun before this moment, and had not ended before it."""
    return any(began < at and (ended is None or ended >= at) for began, ended in finding.spells)


def _departed(case: Case, now: datetime) -> Departed | None:
    machine = sent_away(case)
    waits = told_before(case, now) and (case.open or case.phase_since >= now)
    if machine is None and case.sent_away is None and not waits:
        return None
    return Departed(case, machine, bad_gpus(case, now))


def _by_age(cases: Iterable[Case]) -> list[Case]:
    return sorted(cases, key=lambda case: (case.opened_at, case.id))
