"""promtool's notation for series (`1+0x10 _ stale 5x3`), so that tests read as Prometheus' own rule tests do.

`a+bxn` and `a-bxn` are n+1 samples, `axn` repeats a so that there are n+1, `_` is one missing sample and `_xn` are n,
`stale` is a stale marker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from quarantine.sandbox.remotewrite import STALE, Series

_NUMBER = r"[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[Nn]a[Nn]|[Ii]nf"
_ITEM = re.compile(
    rf"(?:(?P<blank>_)(?:x(?P<blanks>\d+))?"
    rf"|(?P<stale>stale)"
    rf"|(?P<start>[+-]?(?:{_NUMBER}))(?:(?P<step>[+-](?:{_NUMBER}))?x(?P<times>\d+))?)"
)


def values(text: str) -> list[float | None]:
    """The samples of a series in promtool's notation; None where one is missing. Raises ValueError."""
    out: list[float | None] = []
    for item in text.split():
        found = _ITEM.fullmatch(item)
        if found is None:
            raise ValueError(f"{item!r} in {text!r} is no series value: write for instance 60+1x10, 84x5, _ or stale")
        if found["blank"]:
            out += [None] * int(found["blanks"] or 1)
        elif found["stale"]:
            out.append(STALE)
        else:
            start, step = float(found["start"]), float(found["step"] or 0)
            out += [start + step * n for n in range(int(found["times"] or 0) + 1)]
    return out


def series(labels: Mapping[str, str], text: str, *, start: datetime, interval: timedelta) -> Series:
    """A series in promtool's notation, its first sample at `start`."""
    return Series(
        labels=labels,
        samples=[(start + interval * n, value) for n, value in enumerate(values(text)) if value is not None],
    )
