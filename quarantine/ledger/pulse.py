"""When the ledger was last written, and whether it can be: what is to be seen of a controller from beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from quarantine.ledger.schema import clusters
from quarantine.ledger.text import unescape
from quarantine.ledger.url import is_sqlite

LATE = timedelta(minutes=5)
LATE_CYCLES = 4  # where cycles are far apart


@dataclass(frozen=True, slots=True)
class Pulse:
    """The writer's last sign of life. Every cycle writes, whether it decides anything or not."""

    holder: str  # who has the term
    at: datetime
    read_only: bool  # the server takes no writes, from nobody

    def is_late(self, now: datetime, interval: timedelta) -> bool:
        """Whether a controller whose cycles begin so far apart would have written since."""
        return now - self.at > max(LATE, LATE_CYCLES * interval)


def pulse(connection: Connection, cluster: str) -> Pulse | None:
    """None where nobody has ever written for this cluster."""
    found = connection.execute(
        select(clusters.c.holder, clusters.c.updated_at).where(clusters.c.cluster == cluster)
    ).one_or_none()
    if found is None:
        return None
    refuses = False
    if not is_sqlite(connection.engine.url):
        refuses = connection.execute(select(func.current_setting("transaction_read_only"))).scalar_one() == "on"
    return Pulse(unescape(found.holder), found.updated_at, refuses)
