"""What people say by annotations of a Node object under our prefix: it stays in service, or work is planned, until…

They count for as long as they stand, and nothing of them is kept once they are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from quarantine.core.marks import shorten
from quarantine.core.model import Node

WAIVED, MAINTENANCE = "waived-until", "maintenance-until"
_REASON = "waived-reason"
_LONGEST = 200  # characters of what is repeated of an annotation


@dataclass(frozen=True, slots=True)
class Sign:
    """An annotation that says until when."""

    until: datetime
    reason: str = ""


def waived(node: Node, prefix: str, now: datetime) -> Sign | None:
    """The person's word, by annotation, that the node stays in service; None where there is none, or no more."""
    return _standing(node, prefix, WAIVED, now)


def worked_on(nodes: Mapping[str, Node], prefix: str, now: datetime) -> dict[str, str]:
    """The nodes whose annotation says that work is planned on them, each with what says so."""
    told = ((name, node) for name, node in nodes.items() if node.annotations)
    found = ((name, _standing(node, prefix, MAINTENANCE, now)) for name, node in told)
    key = f"{prefix}/{MAINTENANCE}"
    return {name: f"its annotation {key} says until {in_utc(sign.until)}" for name, sign in found if sign is not None}


def unreadable(node: Node, prefix: str) -> Iterator[tuple[str, str]]:
    """The annotations that say no time, each by its name under the prefix, with why and what to do, as one sentence."""
    for name in (WAIVED, MAINTENANCE):
        said = node.annotations.get(f"{prefix}/{name}")
        if said is not None and _time(said) is None:
            what = f"the annotation {prefix}/{name} of {node.name} is {shorten(said, _LONGEST)!r}, which is no time"
            yield name, f"{what} with its zone, so it is ignored: write for instance 2026-11-29T18:00:00Z"


def in_utc(at: datetime) -> str:
    """For people: `2026-11-29 18:00 UTC`."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _standing(node: Node, prefix: str, name: str, now: datetime) -> Sign | None:
    said = node.annotations.get(f"{prefix}/{name}")
    until = _time(said) if said is not None else None
    if until is None or until <= now:
        return None
    return Sign(until, shorten(node.annotations.get(f"{prefix}/{_REASON}", "").strip(), _LONGEST))


def _time(said: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(said.strip())
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # the year 1 in another zone
        return None
