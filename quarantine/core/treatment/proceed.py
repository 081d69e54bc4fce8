"""One step further with each machine that is out: evidence, the ladder of remedies, what became of procedures."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core import asked
from quarantine.core.draft import Draft
from quarantine.core.treatment.owed import Owed


def proceed(draft: Draft, due: Mapping[str, Owed]) -> None:
    """Every marked case, oldest first."""
    asked.swaps(draft)
