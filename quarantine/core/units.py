"""Durations and shares as people write them in policies: `5m`, `1h30m`, `500ms`; `10%`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s?%")
_THRESHOLD = re.compile(r"[a-z][a-z0-9.-]{0,62}")
LONGEST = timedelta(days=366)
_MOST = 1e9  # devices, or samples: no fleet has more, and no column of the ledger takes more


def parse_duration(value: object) -> timedelta:
    """`1h30m` → timedelta. Refuses bare numbers (seconds or minutes?), zero, and more than a year."""
    if isinstance(value, timedelta):
        parsed = value
    else:
        found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
        if found is None:
            raise ValueError(f"{value!r} is no duration: write a number with its unit, such as 30s, 5m or 1h30m")
        parts = zip(found.groups(), ("d", "h", "m", "s", "ms"), strict=True)
        parsed = timedelta(milliseconds=sum(int(n) * _UNITS[unit] for n, unit in parts if n))
    if not timedelta(0) < parsed <= LONGEST:
        raise ValueError(f"{value!r} is outside what a duration may be: more than 0 and at most 366d")
    return parsed


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` and PromQL both read as `value` (to the millisecond)."""
    left = round(value / timedelta(milliseconds=1))
    text = ""
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNITS[unit])
        if count:
            text += f"{count}{unit}"
    return text or "0s"


def parse_share(value: object) -> float:
    """`10%` → 0.1. A bare number is refused: 0.5 might mean half or half a percent."""
    found = _SHARE.fullmatch(value) if isinstance(value, str) else None
    if found is None or float(found[1]) > 100:
        raise ValueError(f"{value!r} is no share: write a percentage from 0% to 100%, such as 10%")
    return float(found[1]) / 100


def format_share(value: float) -> str:
    """0.1 → `10%`."""
    return f"{value * 100:.6f}".rstrip("0").rstrip(".") + "%"


def format_number(value: float) -> str:
    """A measured value for people: six significant digits, no exponent for everyday sizes."""
    return f"{value:.6g}" if abs(value) < 1e15 else f"{value:.3e}"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$", "examples": ["5m"]}),
]
Share = Annotated[
    float,
    BeforeValidator(parse_share),
    PlainSerializer(format_share, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?%$", "examples": ["10%"]}),
]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _named(value: object, info: ValidationInfo) -> object:
    """A threshold's name → its number, from the context's `thresholds` (the Defaults document's)."""
    if not isinstance(value, str) or not _THRESHOLD.fullmatch(value):
        return value
    known = (info.context or {}).get("thresholds", {})
    if value not in known:
        names = ", ".join(sorted(known)) or "none: a Defaults document names them"
        raise ValueError(f"no threshold is called {value!r} (known: {names})")
    return known[value]


Bound = Annotated[
    float,
    BeforeValidator(_named),
    Field(strict=True, allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^[a-z][a-z0-9.-]*$"}]}),
]
Count = Annotated[int, Field(strict=True, ge=1)]


def counted(value: float) -> int | None:
    """How many a measurement says there are. None for what is no number of things: NaN, an infinity, less than nothing.

    Whoever took that for zero would miss devices that are there.
    """
    return int(value) if 0 <= value <= _MOST else None
