"""People's standing words: waivers, pauses and planned work, from the command line and from annotations."""

from __future__ import annotations

from quarantine.core.decision import Request
from quarantine.core.draft import Draft


def decide(draft: Draft, request: Request) -> None:
    """Answer a request that begins or ends a standing word."""
