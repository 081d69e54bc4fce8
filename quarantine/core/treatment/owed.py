"""What a case's policies ask for, together: of several findings, the strongest response wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quarantine.core.draft import Draft
from quarantine.core.response import Drain, LadderStep, Release


@dataclass(frozen=True, slots=True)
class Owed:
    """What is to be done about one case's machine."""

    drain: Drain  # the least patient
    steps: tuple[LadderStep, ...]  # the ladder of the most severe finding that has one
    release: Release  # by hand where any policy says so; else the longest probation
    evidence: str = ""  # the procedure that goes before everything; empty: none
    notify: bool = False
    repeat: bool = False  # out so often that only the last rung of the ladder is left


def owed(draft: Draft) -> Mapping[str, Owed]:
    """By case id: of the marked cases about which something is to be done now."""
    return {}
