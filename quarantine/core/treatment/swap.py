"""Which machine it is: recorded, followed through reboots, and compared with what was sent away."""

from __future__ import annotations

from quarantine.core.draft import Draft


def identify(draft: Draft) -> None:
    """Record what the machines of open cases are made of, and notice the ones that were exchanged."""
