"""The ladder of remedies: which rung comes next for a machine, by what was tried before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from quarantine.core.case import Case, Effect, Rung, Step
from quarantine.core.decision import State
from quarantine.core.marks import same_machine
from quarantine.core.response import LadderStep
from quarantine.core.treatment.place import swapped_whole_at

MEMORY = timedelta(days=28)  # what was tried longer before the machine was taken out counts no more


def next_rung(state: State, case: Case, steps: Sequence[LadderStep], *, last_only: bool = False) -> int:
    """The number of the rung that comes next, from 0; `len(steps)` where every one was tried.

    In a case it is the one after the last that was taken. A case in which none was taken yet begins after the last
    that was tried on this machine for the same signal, at the last one at most. `last_only`: the others are skipped.
    """
    before = taken(case)
    after = climbed(before, steps)
    if not before:
        after = min(climbed(_tried_before(state, case), steps), max(0, len(steps) - 1))
    return max(after, len(steps) - 1) if last_only and steps else after


def climbed(rungs: Iterable[Rung], steps: Sequence[LadderStep]) -> int:
    """How many rungs of this ladder lie behind somebody who took these, whatever the ladder was then.

    A step that is not in it, or not so late in it, was of another ladder and counts for nothing.
    """
    behind = 0
    for rung in rungs:
        rest = range(behind, len(steps))
        found = next((n for n in rest if (steps[n].do, steps[n].by or "") == (rung.step, rung.procedure)), None)
        behind = behind if found is None else found + 1
    return behind


def taken(case: Case) -> tuple[Rung, ...]:
    """The steps that were taken about the machine that stands in a case. Nothing was tried on another one that came.

    A ticket that an older version filed is a step: it is not filed again.
    """
    whole, rungs = swapped_whole_at(case), _all_taken(case)
    return rungs if whole is None else tuple(rung for rung in rungs if rung.at >= whole)


def out_since(case: Case) -> datetime:
    """Since when the machine that stands in a case is out: another one that came is since it came."""
    whole = swapped_whole_at(case)
    return case.taken_out_at if whole is None else max(whole, case.taken_out_at)


def answered(case: Case, rung: Rung) -> bool:
    """Whether the machine was repaired or exchanged after this step: it is no more what is waited for."""
    return case.renewed_at is not None and case.renewed_at >= rung.at


def _all_taken(case: Case) -> tuple[Rung, ...]:
    if Effect.TICKET in case.effects and not any(rung.step is Step.REPORT for rung in case.rungs):
        return (Rung(Step.REPORT, 0, case.taken_out_at), *case.rungs)
    return case.rungs


def _tried_before(state: State, case: Case) -> list[Rung]:
    signals = {finding.evidence.signal for finding in case.findings}
    rungs = [
        rung
        for other in state.cases.values()
        if not other.open and signals & {finding.evidence.signal for finding in other.findings}
        for rung in _on_same_machine(other, case)
        if rung.at > case.taken_out_at - MEMORY
    ]
    return sorted(rungs, key=lambda rung: rung.at)


def _on_same_machine(other: Case, case: Case) -> list[Rung]:
    """What was tried in another case on this case's hardware: before or after a swap, if there was one."""
    swapped = (other.swapped_at or other.renewed_at) if other.sent_away is not None else None
    if swapped is None:
        return list(other.rungs) if same_machine(case.machine, other.machine) else []
    assert other.sent_away is not None  # noqa: S101
    if same_machine(case.machine, other.machine):
        return [rung for rung in other.rungs if rung.at >= swapped]
    return [rung for rung in other.rungs if rung.at < swapped] if same_machine(case.machine, other.sent_away) else []
