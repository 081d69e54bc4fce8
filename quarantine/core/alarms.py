"""What must wake a person, as it stands: reconciled with the pager in each cycle, never counted up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Urgency(StrEnum):
    """How bad an alarm is, in the words of PagerDuty."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that stands and that a person has to see. The same key is the same alarm, whoever raises it again."""

    key: str  # at most 255 characters
    urgency: Urgency
    summary: str  # one line, raw: the adapter escapes and cuts it
    since: datetime
    source: str  # the cluster's name
    details: tuple[tuple[str, str], ...] = ()  # name, value; raw
