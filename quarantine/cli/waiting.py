"""Whether the controller seems to be at work, in one sentence: for whoever looks at what it has left."""

from __future__ import annotations

from datetime import datetime, timedelta

from quarantine.cli.render import safe
from quarantine.core.units import format_duration
from quarantine.ledger.pulse import Pulse


def waiting(pulse: Pulse | None, now: datetime, interval: timedelta) -> str | None:
    """Why nothing is done, or seems to be; None where all is well. `interval`: from one cycle to the next."""
    if pulse is None:
        return None  # a first cycle will say
    age = now - pulse.at
    since = f"since {pulse.at:%Y-%m-%d %H:%M:%S} UTC"
    if pulse.read_only:
        return f"the ledger is read-only: the controller has done nothing {since}, and goes on once it can be written"
    if not pulse.is_late(now, interval):
        return None
    long = format_duration(timedelta(minutes=age // timedelta(minutes=1)))
    return safe(
        f"no controller has written to the ledger {since}, {long} ago (the last one was {pulse.holder}): it does not "
        "run, or it cannot write and does nothing; its log says why"
    )
