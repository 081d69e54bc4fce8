"""For how long a far side asks to be left alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# Where a far side says "too many" without saying for how long: GitHub's documentation asks for "at least one minute"
# after a secondary limit, PagerDuty's for a back-off "of a few minutes".
LIMITED = timedelta(minutes=1)
_LONGEST_WAIT = 86_400.0  # seconds that a far side may ask us to stay away


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Of Retry-After (seconds or a date), else of X-RateLimit-Reset (a time) where nothing remains; a day at most."""
    said = headers.get("Retry-After", "").strip()
    if said.isascii() and said.isdigit():
        return _span(float(said))
    if said:
        try:
            when = parsedate_to_datetime(said)
        except ValueError:
            return None
        return _span(((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds())
    reset = headers.get("X-RateLimit-Reset", "").strip()
    remaining = headers.get("X-RateLimit-Remaining", "").strip()
    if remaining == "0" and reset.isascii() and reset.isdigit():  # GitHub: seconds since 1970
        return _span(float(reset) - now.timestamp())
    with suppress(ValueError):  # Jira: ISO 8601, in its answers of 429
        when = datetime.fromisoformat(reset)
        if remaining in ("", "0") and when.tzinfo is not None:
            return _span((when - now).total_seconds())
    return None


def _span(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0.0), _LONGEST_WAIT))
