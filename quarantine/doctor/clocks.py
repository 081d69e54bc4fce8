"""Clocks that differ."""

from __future__ import annotations

from datetime import timedelta

from quarantine.core.units import format_duration
from quarantine.doctor.finding import Finding, fault, good, warning

ODD = timedelta(seconds=5)
WRONG = timedelta(seconds=30)  # two scrapes: the newest samples are then taken for old ones, or not found


def compared(whose: str, ahead: timedelta, matters: str) -> Finding:
    """`ahead`: by how much theirs is. `matters`: what goes wrong."""
    apart = abs(ahead)
    if apart <= ODD:
        return good(f"the clock of {whose} agrees with ours")
    way = "ahead of" if ahead > timedelta(0) else "behind"
    said = f"the clock of {whose} is {format_duration(timedelta(seconds=round(apart.total_seconds())))} {way} ours"
    return (fault if apart > WRONG else warning)(f"{said}: {matters}", "let NTP set both clocks (chrony, timesyncd)")
