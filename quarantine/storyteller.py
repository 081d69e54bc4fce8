"""What of cases' stories is still to be told in their threads: the trail after the mark that the thread carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from quarantine.core.cards import Reply
from quarantine.core.case import Case
from quarantine.core.storyline import line
from quarantine.ports import TrailRow

MOST_LINES = 10  # of a reply: the newest; how many are left out is said
MOST_CASES = 40  # that a reply tells of


class Trail(Protocol):
    """Of a ledger, what is needed here. Raises LedgerUnavailable, SchemaMismatch."""

    def decisions(self, *, node: str | None = None, case: str | None = None) -> Iterator[TrailRow]:
        """The trail in order, of a case."""
        ...


@dataclass(frozen=True, slots=True)
class Read:
    """The trails of some cases, by case."""

    rows: Mapping[str, Sequence[TrailRow]]

    @staticmethod
    def of(trail: Trail, cases: Sequence[Case]) -> Read:
        """As it stands now."""
        return Read({case.id: tuple(trail.decisions(case=case.id)) for case in cases})

    def untold(self, cases: Sequence[Case], told: Mapping[str, str], *, shared: bool) -> Reply | None:
        """What is to be told next, and up to where it tells; None where nothing is.

        Of several cases each line names its node. `shared`: others than our own people read it.
        """
        lines: list[tuple[int, str]] = []
        marks: dict[str, str] = {}
        for case in cases:
            found = list(_lines(after(self.rows[case.id], told.get(case.id, "")), shared=shared))
            if found and len(marks) < MOST_CASES:
                prefix = f"{case.node}: " if len(cases) > 1 else ""
                lines += [(row.seq, f"{row.decision.at:%Y-%m-%d %H:%M} UTC {prefix}{text}") for row, text in found]
                marks[case.id] = mark(self.rows[case.id][-1])
        if not lines:
            return None
        lines.sort()  # as they were decided
        kept = tuple(text for _, text in lines[-MOST_LINES:])
        return Reply(kept, marks, left_out=len(lines) - len(kept))


def mark(row: TrailRow) -> str:
    """Names a row for good. A ledger that was restored may give its number to another row, but not its hash."""
    return f"{row.seq}|{row.hash[:12]}|{row.decision.at.isoformat()}"


def after(rows: Sequence[TrailRow], told: str) -> Sequence[TrailRow]:
    """The rows after the one that this mark names; all of them where it is empty, or says nothing.

    Where that row is there no more, what is younger than it: the trail was restored from a backup.
    """
    seq, _, rest = told.partition("|")
    digest, _, at = rest.partition("|")
    for n, row in enumerate(rows):
        if digest and str(row.seq) == seq and row.hash.startswith(digest):
            return rows[n + 1 :]
    try:
        until = datetime.fromisoformat(at)
    except ValueError:
        return rows
    return [row for row in rows if until.tzinfo is not None and row.decision.at > until]


def _lines(rows: Sequence[TrailRow], *, shared: bool) -> Iterator[tuple[TrailRow, str]]:
    """Once each, where two decisions in a row say the same."""
    before = ""
    for row in rows:
        text = line(row.decision, shared=shared)
        if text and text != before:
            yield row, text
            before = text
