"""One thing that is wrong with what people wrote, beyond its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quarantine.core.compatible import Where


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Where in the document it is, in one sentence, and what to do.

    `missing`: the document that it names and that there is not, of the kind `wants`.
    """

    path: Where
    sentence: str
    hint: str = ""
    missing: str = ""
    wants: Literal["Signal", "Procedure"] = "Signal"
