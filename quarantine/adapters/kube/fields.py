"""Reading Kubernetes' JSON, in which every field may be missing or of another type, and its times."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def mapping(value: object) -> Mapping[str, Any]:
    """An object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> Iterable[Mapping[str, Any]]:
    """The objects in a list; none where it is no list."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else ()


def text_at(of: Mapping[str, Any], key: str) -> str:
    """A text; empty where it is none."""
    value = of.get(key)
    return value if isinstance(value, str) else ""


def texts(value: object, under: str = "", also: frozenset[str] = frozenset()) -> dict[str, str]:
    """Labels or annotations whose keys begin with `under`, and those of `also`; each text once in memory."""
    return {
        sys.intern(key): sys.intern(text)
        for key, text in mapping(value).items()
        if isinstance(text, str) and (key.startswith(under) or key in also)
    }


def condition(conditions: object, kind: str) -> Mapping[str, Any]:
    """The condition of this type; empty where there is none."""
    return next((c for c in entries(conditions) if c.get("type") == kind), {})


def stamp(at: datetime) -> str:
    """A time as the API server writes it: RFC 3339 in UTC, whole seconds."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment(value: object) -> datetime | None:
    """A time of RFC 3339, in UTC; None for anything else."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
