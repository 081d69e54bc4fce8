"""The life of a case: every phase, what may follow it, how long it may last and who must act when it lasts longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from quarantine.core.case import Phase


@dataclass(frozen=True, slots=True)
class Rule:
    """A phase's exits and its deadline; `None`: it has ended, and nothing follows."""

    exits: frozenset[Phase]
    deadline: timedelta | None
    overdue: str  # what a person is told when the deadline passes


def _rule(deadline: timedelta | None, overdue: str, *exits: Phase) -> Rule:
    return Rule(frozenset(exits), deadline, overdue)


_P = Phase
_ALWAYS = (_P.RELEASED, _P.DISMISSED, _P.RETIRED)
_CHANGED = (_P.SWAPPED, _P.PROBATION, *_ALWAYS)  # another machine came, or a person says that it is repaired
_WORKED_ON = (_P.REMEDY, _P.SWAP_REQUESTED, *_CHANGED)
_DAY = timedelta(days=1)

TRANSITIONS: Mapping[Phase, Rule] = {
    _P.SUSPECTED: _rule(14 * _DAY, "it is dismissed unless still bad", _P.QUARANTINED, _P.DISMISSED, _P.RETIRED),
    _P.QUARANTINED: _rule(
        7 * _DAY,
        "nobody has repaired, replaced or released the machine",
        _P.DRAINING,
        _P.DRAINED,
        *_WORKED_ON,
    ),
    _P.DRAINING: _rule(_DAY, "pods do not leave the machine", _P.QUARANTINED, _P.DRAINED, *_CHANGED),
    _P.DRAINED: _rule(_DAY, "no remedy was begun", *_WORKED_ON),
    _P.REMEDY: _rule(_DAY, "the remedy has not ended", _P.DRAINED, _P.SWAP_REQUESTED, *_CHANGED),
    _P.SWAP_REQUESTED: _rule(7 * _DAY, "the provider has not replaced the machine", *_CHANGED),
    _P.SWAPPED: _rule(_DAY, "the new machine was not taken over", _P.PROBATION, *_ALWAYS),
    _P.PROBATION: _rule(3 * _DAY, "the machine has not proven itself", _P.QUARANTINED, _P.SWAPPED, *_ALWAYS),
    _P.RELEASED: _rule(None, ""),
    _P.DISMISSED: _rule(None, ""),
    _P.RETIRED: _rule(None, ""),
}


def check_transition(before: Phase, after: Phase) -> None:
    """Raise ValueError for a move that is not in the table."""
    if after not in TRANSITIONS[before].exits:
        raise ValueError(f"a case does not go from {before} to {after}")
