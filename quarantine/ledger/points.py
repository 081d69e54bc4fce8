"""The points of a trace as one short text, in place of a list of pairs that would be as long as all the rest.

`z1:` and, in base64, what zlib makes of three lines: the unit of time (`ms`, or `us` where a time is no whole
millisecond); the first time since 1970, the first distance, and by how much each further distance differs from the one
before it; the values, as the shortest text that reads back as the same number. 240 points of a temperature take less
than 1 KB.

Another build of zlib may make another text of the same points. Only the text that was stored is ever hashed, never one
that is made again; and whatever zlib can read is read.
"""

from __future__ import annotations

import binascii
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise

from quarantine.core.record.trace import Points

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PREFIX = "z1:"
_LEVEL, _WINDOW, _MEMORY = 9, 13, 5  # zlib's; with the usual window, clearing it takes ten times as long as the rest
_LONGEST = 16 * 1024**2  # bytes, unpacked: a few damaged ones may ask for all of the memory
_UNITS = {"ms": 1000, "us": 1}  # in microseconds


def pack(points: Points) -> str:
    """Raises ValueError for a time without a zone."""
    try:
        since = [at - _EPOCH for at, _ in points]
    except TypeError as error:
        naive = next(at for at, _ in points if at.tzinfo is None)
        raise ValueError(f"{naive} has no time zone, so the trail cannot say when it was") from error
    times, unit = [(s.days * 86_400 + s.seconds) * 1_000_000 + s.microseconds for s in since], "us"
    if not any(time % 1000 for time in times):
        times, unit = [time // 1000 for time in times], "ms"
    lines = (unit, ",".join(map(str, _packed(times))), ",".join([_number(v) for _, v in points]))
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    data = stream.compress("\n".join(lines).encode("ascii")) + stream.flush()
    return _PREFIX + b64encode(data).decode("ascii")


def unpack(text: object) -> Points:
    """The points that `pack` was given. Raises ValueError, and OverflowError for times that no clock will show."""
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        raise ValueError(f"{text!r:.80} are no points that this version can read")
    unit, times, values = _inflated(text.removeprefix(_PREFIX)).split("\n")
    if unit not in _UNITS:
        raise ValueError(f"{unit!r:.80} is no unit of time")
    if not times and not values:
        return ()
    each = (_EPOCH + time * _UNITS[unit] * _MICROSECOND for time in _unpacked([int(n) for n in times.split(",")]))
    return tuple(zip(each, map(float, values.split(",")), strict=True))


def _packed(times: Sequence[int]) -> list[int]:
    distances = [b - a for a, b in pairwise(times)]
    return [*times[:1], *distances[:1], *(b - a for a, b in pairwise(distances))]


def _unpacked(numbers: Sequence[int]) -> Iterator[int]:
    return accumulate([*numbers[:1], *accumulate(numbers[1:])])


def _number(value: float) -> str:
    number = float(value)
    return repr(number).removesuffix(".0") if math.isfinite(number) else str(number)


def _inflated(text: str) -> str:
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(b64decode(text, validate=True), _LONGEST)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError(f"they cannot be unpacked ({error})") from error
    if not stream.eof or stream.unused_data:
        raise ValueError("they cannot be unpacked (they are cut off, or something stands behind them)")
    return data.decode("ascii")
