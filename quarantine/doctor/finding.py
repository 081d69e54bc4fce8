"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is, the best first."""

    GOOD = "good"
    NOTE = "note"  # worth knowing, or not in use, or not tried
    WARNING = "warning"  # it works, and something is missing
    UNREACHABLE = "unreachable"  # it did not answer: nothing is known of it
    FAULT = "fault"  # it will not work until somebody changes something


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, and where something is to be done about it, what."""

    level: Level
    sentence: str
    advice: str = ""
    check: str = ""  # which check has found it


class Skipped(Exception):
    """A check cannot be made, for a reason that another check tells. The message says which."""


def good(sentence: str) -> Finding:
    """As it should be."""
    return Finding(Level.GOOD, sentence)


def note(sentence: str, advice: str = "") -> Finding:
    """Neither good nor bad."""
    return Finding(Level.NOTE, sentence, advice)


def warning(sentence: str, advice: str) -> Finding:
    """Something is missing."""
    return Finding(Level.WARNING, sentence, advice)


def fault(sentence: str, advice: str = "") -> Finding:
    """It does not work. An error's own sentence says what to do."""
    return Finding(Level.FAULT, sentence, advice)


def unreachable(sentence: str, advice: str = "") -> Finding:
    """It did not answer."""
    return Finding(Level.UNREACHABLE, sentence, advice)
