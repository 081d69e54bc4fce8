"""A short stretch of a signal around the moment of a finding, kept so that a chart can be drawn without Prometheus."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Trace:
    """Points of one device's signal in the evidence's unit, oldest first, all of one query.

    `query` is PromQL as sent; `raw` says whether the points are samples as they were scraped, or values of the signal's
    expression at even steps (a rate has no samples of its own). `bound` is the number that the trigger compares with,
    where it is one number; `since` is where the trigger's window begins. Without points, `note` says why.
    """

    query: str
    points: tuple[tuple[datetime, float], ...] = ()
    raw: bool = False
    bound: float | None = None
    above: bool = True  # bad is above the bound; else below
    since: datetime | None = None
    note: str = ""
