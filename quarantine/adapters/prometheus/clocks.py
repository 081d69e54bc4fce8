"""Whether Prometheus' clock is ours: it is asked about a moment by one of them, and answers by the other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from quarantine.adapters.prometheus.problems import Problem
from quarantine.core.model import FailureKind
from quarantine.core.units import format_duration


def compare(date: str, ours: datetime, tolerance: timedelta) -> None:
    """Raises Problem where the clocks are further apart than `tolerance`; zero: however far they are.

    What was so at another time is no evidence: a machine that was cool an hour ago may be hot. `date`: the answer's
    Date header. A server that does not say what time it is (HTTP does not oblige it to) is believed.
    """
    if not tolerance:
        return
    try:
        theirs = parsedate_to_datetime(date)
    except ValueError:
        return
    apart = (theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC)) - ours
    if abs(apart) <= tolerance:
        return
    way = "ahead of" if apart > timedelta(0) else "behind"
    raise Problem(
        FailureKind.MISCONFIGURED,
        f"has a clock that is {_roughly(abs(apart))} {way} ours, so that its answers are not about this moment",
        "let NTP set both clocks (chrony, timesyncd); `quarantine doctor` compares them",
    )


def _roughly(time: timedelta) -> str:
    """In its largest unit: what is said of one fault stays the same from one second to the next."""
    for unit in (timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)):
        if time >= unit:
            return format_duration(time // unit * unit)
    return "less than a minute"
