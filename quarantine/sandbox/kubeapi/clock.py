"""Time as the API server writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def real_time() -> datetime:
    """The outermost clock: used where the caller injects none."""
    return datetime.now(UTC)  # noqa: TID251 - the emulator's own default clock; tests inject another


def timestamp(at: datetime) -> str:
    """`metav1.Time`: whole seconds, UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> datetime:
    """Read either of the two formats."""
    return datetime.fromisoformat(text)


def age(since: datetime | None, now: datetime) -> str:
    """As the AGE column has it: `45s`, `12m`, `5h`, `3d`."""
    if since is None:
        return "<unknown>"
    seconds = int((now - since).total_seconds())
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    for limit, text in (
        (seconds < 120, f"{seconds}s"),
        (minutes < 10, f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"),
        (hours < 3, f"{minutes}m"),
        (hours < 8, f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"),
        (hours < 48, f"{hours}h"),
        (days < 8, f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"),
    ):
        if limit:
            return text
    return f"{days}d" if days < 730 else f"{days // 365}y"
