"""How long something was held back, and by what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from quarantine.core.case import HeldBy


@dataclass(frozen=True, slots=True)
class HoldSpan:
    """A hold from the decision that recorded it (`seq`) to the one that changed or lifted it, or to its case's move.

    `key` is the hold's key, or `case/<id>` where it is a case that is held: then `node` is set. `until` None: it
    stands.
    """

    seq: int
    key: str
    held_by: HeldBy
    since: datetime
    until: datetime | None = None
    policy: str = ""
    node: str = ""
    pool: str = ""
    reason: str = ""
