"""A clock that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime

NOW = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)


class Watch:
    """Stands until a test moves it."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at
