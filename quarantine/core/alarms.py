"""What must wake a person, as it stands: reconciled with the pager in each cycle, never counted up."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from quarantine.core.case import HeldBy
from quarantine.core.decision import Hold, State


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


MOST_TOLD = 20  # of what an alarm gathers, one by one; `quarantine status` has them all
_LONGEST_KEY = 255

# How long it must have stood: a pace that frees a place within minutes is no exhausted budget.
_PATIENCE: Mapping[HeldBy, timedelta] = {HeldBy.BUDGET: timedelta(minutes=15)}
# A group that fails together is an alarm of its own; everything else is gathered into one for its kind, or its pool.
_WAKES: Mapping[HeldBy, tuple[Urgency, str]] = {
    HeldBy.CORRELATED: (Urgency.CRITICAL, "machines that share something fail together"),
    HeldBy.RESTORED: (Urgency.ERROR, "the ledger is older than the marks on the nodes, so nothing is done"),
    HeldBy.SIGHT: (Urgency.ERROR, "nodes or marks of most cases are gone at once, so nothing is done"),
    HeldBy.BUDGET: (Urgency.ERROR, "the budget is exhausted, and machines found bad stay in service"),
    HeldBy.BREAKER: (Urgency.ERROR, "a policy finds too much bad to be believed"),
    HeldBy.PROVIDER: (Urgency.WARNING, "a provider has not done what was asked"),
    HeldBy.OVERDUE: (Urgency.WARNING, "cases wait for a person"),
    HeldBy.GIVEN_UP: (Urgency.WARNING, "something could not be done for a case, and is not tried again"),
}


def alarms(state: State, cluster: str, now: datetime) -> tuple[Alarm, ...]:
    """What has to wake a person as things stand, in a stable order."""
    found: dict[tuple[str, HeldBy], list[Hold]] = {}
    for hold in sorted(state.holds.values(), key=lambda hold: (hold.since, hold.key)):
        group = group_of(hold.key, hold.held_by, _pool(state, hold))
        if group is not None and now >= hold.since + _PATIENCE.get(hold.held_by, timedelta(0)):
            found.setdefault((group, hold.held_by), []).append(hold)
    return tuple(_alarm(cluster, group, holds) for (group, _), holds in sorted(found.items()))


def key_of(cluster: str, group: str) -> str:
    """The key of the alarm of a group: it tells clusters apart, and is never cut alike."""
    key = f"quarantine/{cluster}/{group}"
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[: _LONGEST_KEY - 17]}~{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def over(cluster: str, ended: Iterable[tuple[str, HeldBy, str]], now: datetime) -> tuple[Alarm, ...]:
    """What is to be cleared for holds that ended, each by its key, what held and the pool; once for each alarm."""
    groups = {group: by for key, by, pool in ended if (group := group_of(key, by, pool)) is not None}
    return tuple(Alarm(key_of(cluster, group), _WAKES[by][0], "over", now, cluster) for group, by in groups.items())


def group_of(key: str, held_by: HeldBy, pool: str) -> str | None:
    """What a hold is gathered under; None where it wakes nobody, or is told with what it is a part of."""
    if held_by not in _WAKES:
        return None
    if held_by is HeldBy.BUDGET:
        return f"budget/{pool}"
    if key.startswith(("case/", "node/")) and held_by in (HeldBy.CORRELATED, HeldBy.BREAKER):
        return None
    return key if held_by is HeldBy.CORRELATED else str(held_by)


def _pool(state: State, hold: Hold) -> str:
    case = state.cases.get(hold.key.partition("/")[2])
    return case.pool if case is not None else ""


def _alarm(cluster: str, group: str, holds: Sequence[Hold]) -> Alarm:
    urgency, what = _WAKES[holds[0].held_by]
    pool = f" (pool {group.partition('/')[2]})" if group.startswith("budget/") else ""
    many = f", {len(holds)} times" if len(holds) > 1 else ""
    details = [(hold.key, hold.reason) for hold in holds[:MOST_TOLD]]
    if len(holds) > MOST_TOLD:
        details.append(("and more", f"{len(holds) - MOST_TOLD}: see quarantine status"))
    summary = f"{cluster}: {what}{pool}{many}"
    return Alarm(key_of(cluster, group), urgency, summary, holds[0].since, cluster, tuple(details))
