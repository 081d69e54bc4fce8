"""When what happened to a machine: one row for each case, from which every report is made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from quarantine.core.case import Case, Phase
from quarantine.core.decision import Decision
from quarantine.core.model import Severity
from quarantine.core.record.subjects import machine_key


class Fate(StrEnum):
    """What the trail says about a case's cause."""

    CONFIRMED = "confirmed"  # the machine was swapped or left the fleet, or a person had reported it
    REFUTED = "refuted"  # a person, or the provider, found no fault
    RETURNED = "returned"  # it was put back; whether something was found and repaired is not in the trail
    OPEN = "open"  # nobody has said yet


@dataclass(frozen=True, slots=True)
class Milestones:
    """A case by its times (aware, UTC). None: it has not happened, or not yet."""

    case: str
    node: str
    machine: str  # `subjects.machine_key` of the machine that the case was opened for
    pool: str
    provider: str
    policy: str  # of the finding that it was taken out for, or opened for; empty: a person's, or a gate's
    signal: str
    device: str  # kind:name
    severity: Severity | None
    by_person: bool
    gate: bool
    phase: Phase
    opened_at: datetime
    found_at: datetime  # since when, by its evidence, that was seen what it was opened for
    out_at: datetime | None = None  # it was decided to take it out
    marked_at: datetime | None = None  # the taint was set
    drained_at: datetime | None = None
    ticket_at: datetime | None = None  # the provider was first told
    asked_at: datetime | None = None  # the provider was asked for another machine
    acknowledged_at: datetime | None = None  # the provider said that it had seen that
    swapped_at: datetime | None = None
    back_at: datetime | None = None  # our marks were taken off, or the machine left the fleet
    ended_at: datetime | None = None
    fate: Fate = Fate.OPEN
    same_returned: bool = False  # what came in exchange was what was sent away, or had a part of it that was bad


def follow(before: Milestones | None, decision: Decision, case: Case) -> Milestones:
    """The milestones after a decision, of which `case` is the case as folded. `before`: None for the first one."""
    raise NotImplementedError((before, decision, case, replace, machine_key))
