"""What a chart of a case shows, as plain data: the signal, its bound, the trigger's window and what was done.

Drawn from the trail alone. Nothing here is escaped, and nothing is cut to the width of a picture.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from quarantine.core.case import Evidence, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Device
from quarantine.core.record.marked import Mark, marks
from quarantine.core.record.trace import Trace
from quarantine.core.units import format_duration, format_number

MOST_PANELS = 4
MOST_MARKS = 16  # of what was done; the first and the last ones are kept
LARGEST = 1e100  # what is larger is no measurement, and no axis can show it beside others
GAP = 3  # times the usual distance between two points: what is further apart is not joined, as nothing was seen there
AROUND = timedelta(minutes=5)  # shown at each side of a moment that stands alone

Points = tuple[tuple[datetime, float], ...]

_NUMBER = r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_EVENTS = "at least "
_BOUNDED = (  # as `trigger.threshold_text` writes them
    (re.compile(rf"above {_NUMBER} "), (True,)),
    (re.compile(rf"below {_NUMBER} "), (False,)),
    (re.compile(rf"more than {_NUMBER} "), (True,)),
    (re.compile(rf"{_EVENTS}{_NUMBER} new "), (True,)),
    (re.compile(rf"outside {_NUMBER} to {_NUMBER} "), (False, True)),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A number beyond which a value is bad: above it, or below it. `reached`: at it as well, as of events."""

    value: float
    above: bool
    reached: bool = False

    def is_beyond(self, value: float) -> bool:
        """Whether a value is on the bad side."""
        if self.reached and value == self.value:
            return True
        return value > self.value if self.above else value < self.value


@dataclass(frozen=True, slots=True)
class Panel:
    """One finding: what was measured around its moment, in `unit`, and what it was compared with."""

    seq: int  # of the decision that it is drawn from
    title: str
    said: str  # value and threshold, in words
    tie: str  # which decision by which text of which policy
    unit: str
    at: datetime  # when it was found
    start: datetime
    end: datetime
    runs: tuple[Points, ...] = ()  # pieces without a gap, oldest first
    raw: bool = False  # samples as they were scraped; else values of an expression at even steps
    value: float | None = None  # at `at`, where it is of the same scale as the points
    bounds: tuple[Bound, ...] = ()
    since: datetime | None = None  # where the trigger's window begins
    note: str = ""  # what the points are, or why there are none

    @property
    def values(self) -> tuple[float, ...]:
        """All that a scale must have room for."""
        alone = () if self.value is None else (self.value,)
        return (*(v for run in self.runs for _, v in run), *alone, *(bound.value for bound in self.bounds))


@dataclass(frozen=True, slots=True)
class ChartData:
    """A chart of one case, or of what was found on a node without one."""

    node: str
    case: str  # empty: no case was opened
    title: str  # what became of the node, in a few words
    reason: str  # why it was taken out, or was not
    measured: str  # from when to when it was seen bad and in service; empty: it is not known, or never was
    panels: tuple[Panel, ...]
    more: int  # findings that have no panel
    marks: tuple[Mark, ...]  # what happened, oldest first
    left_out: int  # of the marks; they stood before the last few


def chart(node: str, rows: Iterable[tuple[int, Decision]], case: str = "") -> ChartData | None:
    """The chart of a case by its decisions, with their numbers in the trail; of no case, of the node's findings.

    Decisions of another node or case are passed over. None: there is nothing to tell.
    """
    own = sorted((row for row in rows if (row[1].case or "") == case and (case or row[1].node == node)), key=_seq)
    found, told = _findings(own), marks(own)
    if not found and not told:
        return None
    moments = [mark.at for mark in told]
    panels = tuple(_panel(seq, d, moments) for seq, d in found[:MOST_PANELS])
    kept, left = _few(told)
    return ChartData(
        node, case, _title(own), _reason(own), _measured(own), panels, max(0, len(found) - MOST_PANELS), kept, left
    )


def _seq(row: tuple[int, Decision]) -> int:
    return row[0]


def _findings(rows: Sequence[tuple[int, Decision]]) -> list[tuple[int, Decision]]:
    """For each policy and device the decision that tells most: with points, and carried out; by when it was found.

    Each time that one of them sent the machine back from probation is a finding of its own.
    """
    best: dict[tuple[str | None, Device | None], tuple[int, Decision]] = {}
    again: list[tuple[int, Decision]] = []
    for seq, d in rows:
        if _sends_back(d):
            again.append((seq, d))
        if not _is_finding(d):
            continue
        before = best.get((d.policy, d.device))
        if before is None or _worth(d) > _worth(before[1]):
            best[d.policy, d.device] = (seq, d)
    shown = {_moment(d) for _, d in best.values()}  # what joined and sent it back at once is shown once
    every = [*best.values(), *(row for row in again if _moment(row[1]) not in shown)]
    taken = Action.QUARANTINE
    return sorted(every, key=lambda row: (row[1].kind is not Kind.DECIDED, row[1].action is not taken, row[0]))


def _is_finding(d: Decision) -> bool:
    return d.evidence is not None and d.action in (Action.QUARANTINE, Action.JOIN) and d.policy is not None


def _sends_back(d: Decision) -> bool:
    """Whether it says that a machine is bad again on probation, and what was measured."""
    proves = d.action is Action.PROVE and d.phase is Phase.QUARANTINED and d.kind is Kind.DECIDED
    return proves and d.evidence is not None and d.policy is not None


def _moment(d: Decision) -> tuple[str | None, Device | None, datetime | None]:
    return d.policy, d.device, d.evidence.at if d.evidence is not None else None


def _worth(d: Decision) -> tuple[bool, bool]:
    traced = d.evidence is not None and d.evidence.trace is not None and bool(d.evidence.trace.points)
    return traced, d.kind is Kind.DECIDED


def _title(rows: Sequence[tuple[int, Decision]]) -> str:
    gate = next((d for _, d in rows if d.gate and d.kind is Kind.DECIDED), None)
    if gate is not None:
        return f"held at the gate since {gate.at:%Y-%m-%d %H:%M} UTC"
    out = _taken_out(rows)
    return "not taken out" if out is None else f"taken out {out.at:%Y-%m-%d %H:%M} UTC"


def _taken_out(rows: Sequence[tuple[int, Decision]]) -> Decision | None:
    return next((d for _, d in rows if d.phase is Phase.QUARANTINED and d.kind is Kind.DECIDED), None)


def _measured(rows: Sequence[tuple[int, Decision]]) -> str:
    """How long it was seen bad before it was taken out, as the report measures it; empty where it was not."""
    out = _taken_out(rows)
    found = next((_seen_bad(d.evidence) for _, d in rows if _is_finding(d) and d.evidence is not None), None)
    if out is None or found is None or found >= out.at:
        return ""
    length = format_duration(timedelta(seconds=max(1, round((out.at - found).total_seconds()))))
    return f"found → taken out: {length}, from {found:%Y-%m-%d %H:%M:%S} to {out.at:%Y-%m-%d %H:%M:%S} UTC"


def _seen_bad(evidence: Evidence) -> datetime:
    """The same moment as `Milestones.found_at`: the beginning of the trigger's window, where that is known."""
    since = evidence.trace.since if evidence.trace is not None else None
    return min(since or evidence.at, evidence.at)


def _reason(rows: Sequence[tuple[int, Decision]]) -> str:
    """Of the last word on taking it out."""
    said = [d for _, d in rows if d.action is Action.QUARANTINE and d.kind in (Kind.DECIDED, Kind.HELD)]
    taken = [d for d in said if d.kind is Kind.DECIDED]
    chosen = taken[:1] or said[-1:] or [d for _, d in rows][:1]
    return chosen[0].reason if chosen else ""


# --- A panel ----------------------------------------------------------------------------------------------------------


def _panel(seq: int, d: Decision, moments: Sequence[datetime]) -> Panel:
    assert d.evidence is not None  # noqa: S101  (it is a finding's)
    evidence, trace = d.evidence, d.evidence.trace or Trace("")
    points, dropped = _drawable(trace.points)
    bounds = _bounds(evidence, trace, bool(points))
    comparable = not points or bool(bounds)  # what has a bound is what the trigger compared, and the value is of it
    value = evidence.value if comparable and _is_drawable(evidence.value) else None
    start, end = _span(evidence.at, points, trace.since, moments)
    revision = f", revision {d.policy_revision}" if d.policy_revision else ""
    again = "bad again on probation" if _sends_back(d) else ""
    return Panel(
        seq=seq,
        title=" · ".join(filter(None, (str(d.device or "the node"), evidence.signal, f"policy {d.policy}", again))),
        said=_said(evidence),
        tie=f"decision #{seq} · policy {d.policy} {(d.policy_hash or 'of an unknown text')[:12]}{revision}",
        unit=evidence.unit,
        at=evidence.at,
        start=start,
        end=end,
        runs=_runs(points),
        raw=trace.raw,
        value=value,
        bounds=bounds,
        since=trace.since if trace.since is not None and trace.since < evidence.at else None,
        note=_note(evidence, len(points), dropped),
    )


def _said(evidence: Evidence) -> str:
    value = "" if evidence.value is None else f"{format_number(evidence.value)} {evidence.unit} "
    return f"{value}at {evidence.at:%Y-%m-%d %H:%M:%S} UTC; bad is {evidence.threshold}"


def _is_drawable(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and abs(value) <= LARGEST


def _drawable(points: Points) -> tuple[Points, int]:
    """In order of time, one for each moment, and how many are no numbers."""
    found = {at: value for at, value in points if _is_drawable(value)}
    return tuple(sorted(found.items())), sum(not _is_drawable(value) for _, value in points)


def _note(evidence: Evidence, points: int, dropped: int) -> str:
    trace = evidence.trace
    if trace is None:
        return "no series was kept with this decision: its value alone is shown"
    if not points:
        return trace.note or "the series that was kept has no values"
    one = "" if points == 1 else "s"
    kind = f"sample{one} as scraped" if trace.raw else f"value{one}, computed at even steps"
    without = f"; {dropped} more are no numbers" if dropped else ""
    return f"{points} {kind}{without}{f'; {trace.note}' if trace.note else ''}"


def _bounds(evidence: Evidence, trace: Trace, points: bool) -> tuple[Bound, ...]:
    """Both ends of a range, though a trace names the one that was passed; else the trace's word, or the threshold's."""
    read = bounds_of(evidence.threshold)
    if len(read) == 2:
        return read
    if trace.bound is not None:
        reached = evidence.threshold.startswith(_EVENTS)
        return (Bound(trace.bound, trace.above, reached),) if _is_drawable(trace.bound) else ()
    return () if points else read


def bounds_of(threshold: str) -> tuple[Bound, ...]:
    """The numbers of a threshold in words (`trigger.threshold_text`); none where it has none."""
    for pattern, sides in _BOUNDED:
        if (found := pattern.match(threshold)) is not None:
            reached = threshold.startswith(_EVENTS)
            read = [Bound(float(n), above, reached) for n, above in zip(found.groups(), sides, strict=True)]
            return tuple(read) if all(_is_drawable(bound.value) for bound in read) else ()
    return ()


def _runs(points: Points) -> tuple[Points, ...]:
    """Cut where no point is for much longer than usual: what was not seen is not drawn."""
    if len(points) < 3:
        return (points,) if points else ()
    usual = median((after[0] - before[0]).total_seconds() for before, after in pairwise(points))
    cuts = [0]
    for number, (before, after) in enumerate(pairwise(points), start=1):
        if (after[0] - before[0]).total_seconds() > GAP * usual:
            cuts.append(number)
    return tuple(points[a:b] for a, b in pairwise((*cuts, len(points))))


def _span(
    at: datetime, points: Points, since: datetime | None, moments: Sequence[datetime]
) -> tuple[datetime, datetime]:
    """From the first point to the moment of finding, and beyond by what was done soon after."""
    known = [at, *(moment for moment, _ in points), *([since] if since is not None else [])]
    start, end = min(known), max(known)
    if end - start < timedelta(seconds=1):
        start -= AROUND
        end += AROUND
    near = end + (end - start) / 4
    return start, max((moment for moment in moments if end < moment <= near), default=end)


# --- Few marks --------------------------------------------------------------------------------------------------------


def _few(told: Sequence[Mark]) -> tuple[tuple[Mark, ...], int]:
    """Numbered in order; how many are left out between the first and the last ones."""
    left = max(0, len(told) - MOST_MARKS)
    left = left if left > 1 else 0  # its place would be taken by the words that it is not there
    head = MOST_MARKS * 2 // 3
    numbered = tuple(replace(mark, number=number) for number, mark in enumerate(told, start=1))
    return (*numbered[:head], *numbered[head + left :]), left
