"""Where time and measurements come from."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from quarantine.core.model import Answer
from quarantine.core.series import Grid, RangeAnswer


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...


class Metrics(Protocol):
    """Prometheus or what speaks its API."""

    def query(self, promql: str, *, at: datetime, timeout: timedelta) -> Answer:
        """An instant query evaluated at `at`. Never raises: no answer is `Failed`. Ends within `timeout`."""
        ...


class RangeMetrics(Protocol):
    """Prometheus' memory: what an expression would have answered, at each step of a stretch of time."""

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta) -> RangeAnswer:
        """What an instant query would have answered at each step of `grid`. Never raises: no answer is `Failed`.

        It is cut into as many requests as the server's limits need, each of which ends within `timeout`. One that
        fails fails them all: half a history is none. Several threads may ask at once.
        """
        ...


class Past(Protocol):
    """What a few devices showed lately, each time in one request: for a record that must not wait."""

    def query_samples(self, promql: str, within: Grid, *, timeout: timedelta) -> RangeAnswer:
        """The samples of a range selector (`x{…}[30m]`) as they were scraped, asked at the end of `within`.

        `within` is a grid of milliseconds as long as the selector's range. Never raises: no answer is `Failed`. Ends
        within `timeout`.
        """
        ...

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta, at_once: bool) -> RangeAnswer:
        """As `RangeMetrics`; `at_once`: in one request, and where that is too much for the server it is `Failed`."""
        ...
