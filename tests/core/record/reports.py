"""Cases, holds and pools for the tests of reports: as the core knows them, and as a report is given them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quarantine.core.case import HeldBy, Phase
from quarantine.core.decision import Census
from quarantine.core.draft import NODE, case_key
from quarantine.core.model import Severity
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.report import (
    CaseGroup,
    Counted,
    HoldGroup,
    MachineSum,
    Material,
    Part,
    Report,
    Wanted,
    report,
)
from quarantine.core.record.report.material import OF_CASE, OF_ELSE, OF_NODE, ms_of
from quarantine.core.record.spans import HoldSpan
from tests.core.record.lives import out_hours

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
SINCE = datetime(2026, 11, 1, tzinfo=UTC)
UNTIL = SINCE + 30 * DAY
WANTED = Wanted()


def at(days: float = 0.0, **more: float) -> datetime:
    """A moment of the report's time, to the millisecond, in which reports reckon."""
    return SINCE + timedelta(milliseconds=round((timedelta(days=days, **more)) / timedelta(milliseconds=1)))


def case(number: int = 1, opened_at: datetime = SINCE + DAY, **fields: Any) -> Milestones:
    """A case that a policy opened; nothing more has happened unless `fields` say so."""
    known: dict[str, Any] = {
        "case": f"q-{number}",
        "node": f"node-{number}",
        "machine": f"system-uuid:{number}",
        "pool": "h100",
        "provider": "acme",
        "policy": "gpu-hot",
        "signal": "gpu.temperature",
        "device": "gpu:GPU-1",
        "severity": Severity.CRITICAL,
        "by_person": False,
        "gate": False,
        "phase": Phase.SUSPECTED,
        "opened_at": opened_at,
        "found_at": opened_at - 5 * MINUTE,
    }
    return Milestones(**{**known, **fields})


def out(number: int = 1, opened_at: datetime = SINCE + DAY, **fields: Any) -> Milestones:
    """A case whose machine was taken out a minute later, and marked ten seconds after that."""
    taken = opened_at + MINUTE
    known = {"phase": Phase.QUARANTINED, "out_at": taken, "marked_at": taken + timedelta(seconds=10)}
    return case(number, opened_at, **{**known, **fields})


def hold(seq: int, since: datetime, until: datetime | None, **fields: Any) -> HoldSpan:
    """By the budget, of the case of that number."""
    known: dict[str, Any] = {
        "key": case_key(f"q-{seq}"),
        "held_by": HeldBy.BUDGET,
        "policy": "gpu-hot",
        "node": f"node-{seq}",
    }
    return HoldSpan(seq=seq, since=since, until=until, **{**known, **fields})


def size(nodes: int, since: datetime = SINCE - 90 * DAY, *, pool: str = "h100", gpus: int | None = None) -> Counted:
    """A pool of machines of eight GPUs."""
    return Counted(pool, Census(nodes, 8 * nodes if gpus is None else gpus, since))


def made(
    cases: Sequence[Milestones] = (),
    holds: Sequence[HoldSpan] = (),
    sizes: Sequence[Counted] = (),
    *,
    since: datetime = SINCE,
    until: datetime = UNTIL,
    wanted: Wanted = WANTED,
) -> Report:
    """The report of one cluster."""
    return report(Material(since, until, (part(cases, holds, sizes, since=since, until=until),)), wanted)


def part(
    cases: Sequence[Milestones],
    holds: Sequence[HoldSpan] = (),
    sizes: Sequence[Counted] = (),
    *,
    cluster: str = "training-a",
    since: datetime = SINCE,
    until: datetime = UNTIL,
) -> Part:
    """What the ledger would give of this, each row a group of its own."""
    known = {case_key(one.case): one for one in cases}
    return Part(
        cluster,
        [case_group(one) for one in cases],
        [machine_sum(one, since, until) for one in cases if lasts(one, since, until)],
        [hold_group(span, known.get(span.key)) for span in holds],
        sizes,
    )


def case_group(one: Milestones) -> CaseGroup:
    """The group that one case is."""
    times = ("opened", "found", "out", "marked", "ticket", "asked", "acknowledged", "swapped", "back", "ended")
    columns: Mapping[str, Any] = {name: [_ms(getattr(one, f"{name}_at"))] for name in times}
    words = ("pool", "provider", "policy", "signal", "severity", "by_person", "gate", "phase", "fate", "same_returned")
    return CaseGroup(**{name: getattr(one, name) for name in words}, **columns)


def machine_sum(one: Milestones, since: datetime, until: datetime) -> MachineSum:
    """What one case says of its machine."""
    opened, taken, told = (within(moment, since, until) for moment in (one.opened_at, one.out_at, one.ticket_at))
    return MachineSum(
        one.machine,
        one.node,
        one.pool,
        one.provider,
        one.fate is Fate.REFUTED,
        opened,
        taken,
        told,
        round(out_hours(one, since, until) * 3_600_000),
        ms_of(one.opened_at),
    )


def hold_group(span: HoldSpan, of: Milestones | None) -> HoldGroup:
    """The group that one hold is."""
    about = OF_CASE if span.key.startswith(case_key("")) else OF_NODE if span.key.startswith(NODE) else OF_ELSE
    taken = None if of is None else _ms(of.out_at)
    return HoldGroup(
        about, span.held_by.value, span.policy, [span.node], [ms_of(span.since)], [_ms(span.until)], [taken]
    )


def lasts(one: Milestones, since: datetime, until: datetime) -> bool:
    """Whether a case was open, or its machine out, at some time of these."""
    ends = [end for end in (one.ended_at, one.back_at) if end is not None]
    open_still = one.ended_at is None or (one.marked_at is not None and one.back_at is None)
    return one.opened_at < until and (open_still or max(ends) >= since)


def within(moment: datetime | None, since: datetime, until: datetime) -> bool:
    """Whether it happened in this time."""
    return moment is not None and since <= moment < until


def counted(moments: Iterable[datetime | None], since: datetime = SINCE, until: datetime = UNTIL) -> int:
    """How many happened in this time."""
    return sum(within(moment, since, until) for moment in moments)


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else ms_of(moment)
