"""Where the ticks of an axis stand, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from matplotlib.ticker import MaxNLocator

MOST_TIMES, MOST_VALUES = 7, 5
LONGEST = 8  # characters beside the axis
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
_DAYS = (1, 2, 7, 14, 28, 91, 182, 365, 730, 3650)


def times(start: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """Round moments from `start` to `end`, UTC; a day's beginning is told by its date."""
    whole = (end - start).total_seconds()
    steps = (*_STEPS, *(days * _DAY for days in _DAYS))
    step = next((s for s in steps if whole / s <= MOST_TIMES), max(steps[-1], round(whole / MOST_TIMES)))
    first = -(-(start - _EPOCH) // timedelta(seconds=step))
    last = (end - _EPOCH) // timedelta(seconds=step)
    found = [_EPOCH + number * timedelta(seconds=step) for number in range(first, last + 1)]
    return [(at, _clock(at, step)) for at in found]


def _clock(at: datetime, step: int) -> str:
    if step >= _DAY:
        return f"{at:%Y-%m-%d}" if step >= 28 * _DAY else f"{at:%m-%d}"
    if at.hour == at.minute == at.second == 0:
        return f"{at:%m-%d}"
    return f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"


def values(low: float, high: float) -> tuple[list[tuple[float, str]], str]:
    """Round numbers from `low` to `high`, told with as few digits as tell them.

    Where those are too many they are told as distances from a base, which is the second part; else that is empty.
    """
    found = [float(v) for v in MaxNLocator(MOST_VALUES).tick_values(low, high) if low <= v <= high]
    told, base = _told(found), ""
    if any(len(text) > LONGEST for text in told):
        base, told = told[0], [f"+{text}" for text in _told([value - found[0] for value in found])]
    return list(zip(found, told, strict=True)), base


def _told(found: Sequence[float]) -> list[str]:
    """With so many digits that none is off by more than the eye sees."""
    off = (max(found) - min(found)) / 500
    for digits in range(1, 18):
        told = [_number(value, digits) for value in found]
        if len(set(told)) == len(told) and all(abs(float(t) - v) <= off for t, v in zip(told, found, strict=True)):
            return told
    return [repr(value) for value in found]


def _number(value: float, digits: int) -> str:
    """Without an exponent where it is of everyday size, and without a minus before a zero."""
    short = float(f"{value:.{digits}g}") + 0.0
    return f"{short:.{max(digits, 6)}g}"


def room_for(shown: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis on which all of these can be seen, with free room above for what is written there."""
    low, high = min(shown), max(shown)
    span = high - low
    if span <= max(abs(low), abs(high)) * 1e-12:  # one value, or as good as one
        span = max(abs(high) * 0.1, 1.0)
    return low - span * 0.15, high + span * 0.35
