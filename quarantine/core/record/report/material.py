"""What a report is made from: cases and holds in groups that are alike in words, their times column by column.

A year of a large fleet has a hundred thousand cases. Summed up one by one they take seconds; columns of whole numbers
take a tenth of that. So here alone times are **milliseconds since the epoch, UTC**, and words are plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from quarantine.core.decision import Census

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
OF_CASE, OF_NODE, OF_ELSE = "case", "node", ""  # what a hold is about: a case, a node without one, anything else
Column = Sequence[int | None]  # of times; None: it has not happened, or not yet


class CaseGroup(NamedTuple):
    """Cases as `Milestones` has them, of one cluster: the same words, and columns that are all equally long.

    Several groups may have the same words. The order of the fields is that of the ledger's query.
    """

    pool: str
    provider: str
    policy: str
    signal: str
    severity: str | None
    by_person: bool
    gate: bool
    phase: str
    fate: str
    same_returned: bool
    # columns
    opened: Sequence[int]
    found: Sequence[int]
    out: Column
    marked: Column
    ticket: Column
    asked: Column
    acknowledged: Column
    swapped: Column
    back: Column
    ended: Column


class HoldGroup(NamedTuple):
    """Holds as `HoldSpan` has them, as `CaseGroup`. `out`: when it was decided to take the held case's machine out."""

    about: str  # OF_CASE, OF_NODE or OF_ELSE
    held_by: str
    policy: str
    # columns
    node: Sequence[str]
    since: Sequence[int]
    until: Column
    out: Column


CASE_WORDS, CASE_TIMES = CaseGroup._fields[:10], CaseGroup._fields[10:]


class MachineSum(NamedTuple):
    """What happened to a machine under one node name, in one pool: counts of the report's window. Several may add up.

    The order of the fields is that of the ledger's query.
    """

    machine: str  # `subjects.machine_key`
    node: str
    pool: str
    provider: str
    refuted: bool  # whether that is what became of these cases
    opened: int
    out: int
    told: int
    out_ms: int  # out of service, as far as it lies in the window
    last: int  # when the last of these cases was opened


@dataclass(frozen=True, slots=True)
class Counted:
    """A pool's size from `census.at` on, until the next one of that pool."""

    pool: str
    census: Census


@dataclass(frozen=True, slots=True)
class Part:
    """What one cluster's trail has: whatever overlaps the report's time, and of cases and holds also what does not.

    It is gone through once, in any order, and may be streamed. `sizes` are those within the time, and of each pool the
    last one before it.
    """

    cluster: str
    cases: Iterable[CaseGroup]
    machines: Iterable[MachineSum]
    holds: Iterable[HoldGroup]
    sizes: Iterable[Counted]


@dataclass(frozen=True, slots=True)
class Material:
    """What a report from `since` until before `until` (aware) is made from, cluster by cluster."""

    since: datetime
    until: datetime
    parts: Iterable[Part]


def ms_of(at: datetime) -> int:
    """Milliseconds since the epoch, rounded."""
    return round((at - _EPOCH) / MS)
