"""docs/providers.md: the bounds that it gives are those of the code."""

from __future__ import annotations

from pathlib import Path

from quarantine.execute.run import LONGEST_SPEECH
from quarantine.observe.tickets import AT_ONCE, PATIENCE

PAGE = " ".join((Path(__file__).parents[2] / "docs/providers.md").read_text(encoding="utf-8").split())


def test_how_long_a_cycle_waits_for_ticket_systems() -> None:
    assert f"A cycle waits {PATIENCE.seconds} seconds for one answer and {AT_ONCE.seconds} for all of them." in PAGE
    assert f"none is begun later than {LONGEST_SPEECH.seconds} seconds after the first" in PAGE
