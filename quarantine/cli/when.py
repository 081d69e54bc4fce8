"""Moments as people write them: `2026-11-01`, `2026-11-01T12:00:00Z`, `now`, `-30d`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from quarantine.core.errors import UsageError
from quarantine.core.units import parse_duration

_AGO = re.compile(
    r"-?(?=\d)(?:(?P<weeks>\d{1,9})w)?(?:(?P<days>\d{1,9})d)?(?:(?P<hours>\d{1,9})h)?(?:(?P<minutes>\d{1,9})m)?"
    r"(?:(?P<seconds>\d{1,9})s)?"
)
_YEARS = re.compile(r"-?\d+\s*(?:y|mo|years?|months?)", re.IGNORECASE)


def moment(text: str, option: str, now: datetime) -> datetime:
    """The moment that `text` means, aware, UTC. A date or time without a zone is UTC. Raises UsageError."""
    if text == "now":
        return now
    if text.startswith("-"):
        try:
            return now - parse_duration(text[1:])
        except ValueError as error:
            raise UsageError(f"{option} {text}: {error}") from None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no time: write for instance 2026-11-01, 2026-11-01T12:00:00Z, -30d or now"
        ) from None
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"{option} {text!r} lies beyond the times that there are") from None


def past(text: str, option: str, now: datetime) -> datetime:
    """As `moment`, but `30d` is as long ago as `-30d`, and it may be years ago. Raises UsageError."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        try:
            return now - timedelta(**{unit: int(n) for unit, n in ago.groupdict().items() if n})
        except OverflowError:
            raise UsageError(f"{option} {text!r} lies beyond the times that there are") from None
    if _YEARS.fullmatch(text):
        raise UsageError(f"{option} {text!r}: a month or a year has no fixed length; write it in days, such as 365d")
    return moment(text, option, now)


def begun(text: str, option: str, now: datetime) -> datetime:
    """As `past`, and has begun: of what is still to come nothing is recorded. Raises UsageError."""
    found = past(text, option, now)
    if found > now:
        raise UsageError(f"{option} {text}: that is in the future; it is {now:%Y-%m-%dT%H:%M:%SZ} now")
    return found


def ending(for_: str | None, until: str | None, now: datetime) -> datetime | None:
    """When what is said with `--for 4h` or `--until TIME` ends; None where neither is. Raises UsageError."""
    if for_ is not None and until is not None:
        raise UsageError("give --for or --until, not both")
    if for_ is not None:
        try:
            return now + parse_duration(for_)
        except ValueError as error:
            raise UsageError(f"--for {for_}: {error}") from None
    if until is None:
        return None
    try:
        end = moment(until, "--until", now)
    except UsageError as error:
        if "lies beyond" in str(error):
            raise
        raise UsageError(
            f"--until {until!r} is no time: write for instance 2026-11-29T18:00:00Z, or --for 4h"
        ) from None
    if end <= now:
        raise UsageError(f"--until {until}: that has passed; it is {now:%Y-%m-%dT%H:%M:%SZ} now")
    return end
