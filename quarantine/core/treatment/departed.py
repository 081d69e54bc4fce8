"""What was sent away: the machines and the GPUs that left on account of a case, as far as cases are remembered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quarantine.core.case import Case
from quarantine.core.decision import State
from quarantine.core.identity import gpu_of
from quarantine.core.model import Machine, Verdict
from quarantine.core.treatment.place import began_before_swap, sent_away


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


def departed(state: State) -> tuple[Departed, ...]:
    """Of every case by which something left, or is to leave: its provider was told, and it is not back in service.

    In order of their opening, so that the same is said in each cycle.
    """
    found = [_departed(case) for case in _by_age(state.cases.values())]
    return tuple(left for left in found if left is not None)


def bad_gpus(case: Case) -> frozenset[str]:
    """The GPUs that stand as bad, by UUID: those of the machine that left, where another one took its place."""
    bad = (f for f in case.findings if f.verdict is not Verdict.GOOD and began_before_swap(case, f))
    return frozenset(uuid for f in bad if (uuid := gpu_of(f.device)) is not None)


def _departed(case: Case) -> Departed | None:
    machine = sent_away(case)
    waits = case.open and case.told_provider
    if machine is None and case.sent_away is None and not waits:
        return None
    return Departed(case, machine, bad_gpus(case))


def _by_age(cases: Iterable[Case]) -> list[Case]:
    return sorted(cases, key=lambda case: (case.opened_at, case.id))
