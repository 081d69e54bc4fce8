"""Emptying machines, gently: when, in which order, how fast, and a gang's machines all at once."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core.draft import Draft
from quarantine.core.treatment.owed import Owed


def drains(draft: Draft, due: Mapping[str, Owed]) -> None:
    """Begin, go on with and end the drains that are due."""
