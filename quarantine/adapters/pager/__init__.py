"""What wakes people, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from quarantine.adapters.pager import alertmanager, pagerduty
from quarantine.core.errors import UsageError
from quarantine.ports import Pager

_KINDS: Mapping[str, Callable[[Mapping[str, object], Callable[[], datetime]], Pager]] = {
    "alertmanager": alertmanager.connect,
    "pagerduty": pagerduty.connect,
}


def connect(kind: str, options: Mapping[str, object], now: Callable[[], datetime]) -> Pager:
    """The pager of these options; nothing is asked of it yet. `now`: aware, UTC.

    Raises UsageError where there is no such kind, and pydantic's ValidationError where the options are wrong.
    """
    if kind not in _KINDS:
        raise UsageError(f"there is no pager of the kind {kind!r}; there are {', '.join(sorted(_KINDS))}")
    return _KINDS[kind](options, now)
