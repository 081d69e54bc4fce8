"""Probation: after a remedy, a swap or positive evidence under load, until the machine is released or is bad again."""

from __future__ import annotations

from quarantine.core.draft import Draft


def probations(draft: Draft) -> None:
    """Begin, end, or send back. What ends comes before what begins: its budget is there in the same plan."""
