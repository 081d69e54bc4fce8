"""The join gate: a machine that is new in its pool is marked until a burn-in has succeeded."""

from __future__ import annotations

from quarantine.core.draft import Draft


def newcomers(draft: Draft) -> None:
    """Open a case in probation for every node that is new in a pool with a gate."""
