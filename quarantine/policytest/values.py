"""The values of a series as tests write them: promtool's notation, lengths of time, and times since the test began."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.core.units import format_duration, parse_duration
from quarantine.sandbox.remotewrite import STALE

MOST = 100_000  # samples that one item may stand for
_NUMBER = r"(?:[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[Nn]a[Nn]|[Ii]nf)"
_DURATION = r"(?:\d+(?:ms|[dhms]))+"
_ITEM = re.compile(
    rf"(?:(?P<blank>_)|(?P<stale>stale)|t(?P<since>[+-]{_DURATION})"
    rf"|(?P<first>[+-]?{_NUMBER})(?P<step>[+-]{_NUMBER}(?=x|\.\.\.))?)"
    rf"(?:x(?P<times>\d{{1,6}})|x(?P<lasts>{_DURATION})|(?P<rest>\.\.\.))?"
)


@dataclass(frozen=True, slots=True)
class Item:
    """A run of samples. `first` None: that many are missing; `count` None: to the end."""

    first: float | None
    step: float
    count: int | None
    since: timedelta | None = None  # in place of `first`: the Unix time so long after the test began


def parse_values(text: str, interval: timedelta) -> tuple[Item, ...]:
    """The runs of a series whose samples are `interval` apart. Raises ValueError: one sentence that quotes the item."""
    words = text.split()
    if not words:
        raise ValueError("there are no values: write for instance 60x10m 84...")
    items = tuple(_item(word, interval) for word in words)
    for word, item in zip(words[:-1], items, strict=False):
        if item.count is None:
            raise ValueError(f"{word!r} goes on to the end, and something stands after it: say how long it lasts")
    return items


def _item(word: str, interval: timedelta) -> Item:
    found = _ITEM.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} is no series value: write for instance 84x10m, 0+5x20, 60..., _x5m or stale")
    if found["stale"] and (found["times"] or found["lasts"] or found["rest"]):
        raise ValueError(f"{word!r}: a stale marker is one sample; write stale alone, and _ for what is missing after")
    count = _count(word, found, interval)
    if found["blank"]:
        return Item(None, 0, count)
    if found["stale"]:
        return Item(STALE, 0, 1)
    if found["since"]:
        sign, duration = found["since"][0], found["since"][1:]
        since = parse_duration(duration)
        return Item(None, 0, count, -since if sign == "-" else since)
    return Item(float(found["first"]), float(found["step"] or 0), count)


def _count(word: str, found: re.Match[str], interval: timedelta) -> int | None:
    if found["rest"]:
        return None
    if found["lasts"]:
        lasts = parse_duration(found["lasts"])
        if lasts % interval:
            raise ValueError(f"{word!r} is no whole number of intervals of {format_duration(interval)}")
        count = lasts // interval
    else:
        # promtool's: `60x3` is the value and three more, `_x3` is three missing samples.
        count = 1 if found["times"] is None else int(found["times"]) + (0 if found["blank"] else 1)
    if count > MOST:
        raise ValueError(f"{word!r} stands for more than {MOST} samples")
    return count


def render(items: Sequence[Item], count: int, start: datetime) -> list[float | None]:
    """`count` samples of a test that begins at `start`; None where one is missing, also after the last item.

    A stale marker is `STALE` itself: its NaN is known by identity.
    """
    out: list[float | None] = []
    for item in items:
        left = count - len(out)
        size = left if item.count is None else min(item.count, left)
        if item.since is not None:
            out += [(start + item.since).timestamp()] * size
        elif item.first is None or not item.step:
            out += [item.first] * size
        else:
            out += [item.first + item.step * n for n in range(size)]
    return out + [None] * (count - len(out))
