"""How long each step took, from the finding to the machine's return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quarantine.core.record.report.causes import POLICY, by_of
from quarantine.core.record.report.material import CaseGroup, Column
from quarantine.core.record.report.measure import Spread, Window, spread

# From which time of a case to which other, by the name that JSON has. The second one must lie in the window.
STEPS: Mapping[str, tuple[str, str]] = {
    "found_to_out": ("found", "out"),
    "out_to_marked": ("out", "marked"),
    "out_to_ticket": ("out", "ticket"),
    "asked_to_acknowledged": ("asked", "acknowledged"),
    "asked_to_swapped": ("asked", "swapped"),
    "swapped_to_back": ("swapped", "back"),
    "out_to_back": ("out", "back"),
}


@dataclass(slots=True)
class TimeTally:
    """Lengths (ms) of each step, filled group by group."""

    window: Window
    lengths: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in STEPS})

    def add(self, group: CaseGroup) -> None:
        """What ended in the window. What a person or a gate opened was found when it was opened: that tells nothing."""
        for name, (first, last) in STEPS.items():
            if name != "found_to_out" or by_of(group) == POLICY:
                self.lengths[name] += lengths(self.window, getattr(group, first), getattr(group, last))

    def times(self) -> Mapping[str, Spread | None]:
        """By the names of `STEPS`; None for what did not happen."""
        return {name: spread(found) for name, found in self.lengths.items()}


def lengths(window: Window, begun: Column, ended: Column) -> list[int]:
    """How long (ms) each stretch was that ended in the window. What ends before it begins is no stretch."""
    since, until = window.since, window.until
    return [
        end - start
        for start, end in zip(begun, ended, strict=True)
        if end is not None and since <= end < until and start is not None and start <= end
    ]
