"""What records are made of in the end, as canonical JSON and back: texts, numbers, times (see `codec`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

__all__ = ["BASIC", "Coder", "parse_time", "quoted", "typed"]

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Coder:
    """How values of one type become JSON's own types, and come back. `unpack` raises ValueError.

    `write` gives the canonical text of what `pack` gives, and takes half the time: each decision is written once, and
    its case with it.
    """

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]
    write: Callable[[Any], str]


def parse_time(text: str) -> datetime:
    """A time as stored. Raises ValueError."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return parsed.astimezone(UTC)


def typed(kind: type) -> Callable[[Any], Any]:
    """Unpacks what is of this type already."""

    def unpack(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{value!r:.80} is no {kind.__name__}")
        return value

    return unpack


def _pack_text(value: str) -> str:
    if value.isascii() or not _PAIR.search(value):
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _write_text(value: str) -> str:
    return quoted(value if value.isascii() else _pack_text(value))


def _pack_float(value: float) -> float | str:
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _write_float(value: float) -> str:
    number = float(value)
    return float.__repr__(number) if math.isfinite(number) else f'"{_pack_float(number)}"'


def _unpack_float(value: Any) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{value!r:.80} is no number")


def _pack_time(value: datetime) -> str:
    if value.tzinfo is None:
        raise ValueError(f"{value} has no time zone, so the trail cannot say when it was")
    utc = value if value.tzinfo is UTC else value.astimezone(UTC)
    return utc.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


def _write_time(value: datetime) -> str:
    return f'"{_pack_time(value)}"'


def _unpack_time(value: Any) -> datetime:
    return parse_time(typed(str)(value))


BASIC: Mapping[Any, Coder] = {
    str: Coder(_pack_text, typed(str), _write_text),
    bool: Coder(bool, typed(bool), lambda value: "true" if value else "false"),
    int: Coder(int, typed(int), lambda value: int.__repr__(int(value))),
    float: Coder(_pack_float, _unpack_float, _write_float),
    datetime: Coder(_pack_time, _unpack_time, _write_time),
}
