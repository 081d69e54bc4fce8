"""What a suite of failures found: a row for each world that was broken and made well again, and all of them as text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

HEADS = (
    "world",
    "what",
    "dependency",
    "failure",
    "cycles",
    "of",
    "healthy out",
    "let go blind",
    "lost",
    "twice",
    "over budget",
    "stale",
    "",
    "note",
)
NUMBERS = range(4, 12)  # these columns are flush right


@dataclass(frozen=True, slots=True)
class Row:
    """One world: what was done to it, and how often each thing that must never happen did."""

    world: str  # the kind of world: simulated time, live
    what: str  # the name or the seed by which it can be had again
    dependency: str
    failure: str
    cycles_to_converge: int | None  # after all was well again; None: it did not
    allowed: int  # cycles that are stated for it
    healthy_quarantined: int
    released_on_absence: int
    lost: int
    doubled: int
    over_budget: int
    stale: int
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing happened that must not, and all was well again in time."""
        return self.cycles_to_converge is not None and self.cycles_to_converge <= self.allowed and not self.broken

    @property
    def broken(self) -> int:
        """How often something happened that must never."""
        safety = self.healthy_quarantined + self.released_on_absence + self.over_budget + self.stale
        return safety + self.lost + self.doubled


def table(rows: Iterable[Row]) -> str:
    """As text, aligned: a line for each row, below one of heads."""
    cells = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(HEADS))]
    return "\n".join(_line(line, widths) for line in cells)


def print_table(rows: Iterable[Row], to: TextIO | None = None) -> None:
    """Write it, and under it how many rows are as they must be."""
    found = list(rows)
    bad = sum(not row.ok for row in found)
    said = f"{len(found)} worlds: {len(found) - bad} as they must be, {bad} not"
    print(table(found), "", said, sep="\n", file=to or sys.stdout)


def _cells(row: Row) -> tuple[str, ...]:
    cycles = "never" if row.cycles_to_converge is None else str(row.cycles_to_converge)
    counts = (row.healthy_quarantined, row.released_on_absence, row.lost, row.doubled, row.over_budget, row.stale)
    named = (row.world, row.what, row.dependency, row.failure, cycles, str(row.allowed))
    return (*named, *(str(count) for count in counts), "ok" if row.ok else "FAILED", row.note)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = enumerate(zip(cells, widths, strict=True))
    return "  ".join(cell.rjust(width) if n in NUMBERS else cell.ljust(width) for n, (cell, width) in pairs).rstrip()
