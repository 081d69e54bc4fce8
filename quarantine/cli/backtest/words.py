"""What a backtest says, in sentences and rows; tables and comments show the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from quarantine.backtest.compare import Difference, compare
from quarantine.backtest.result import Held, Outage, Result
from quarantine.core.units import format_duration

if TYPE_CHECKING:
    from quarantine.backtest.precision import Record

OUTAGE = ("machine", "out at (UTC)", "for", "policy", "device", "GPU-hours")
SPARED = (*OUTAGE, "and now")
HELD = ("machine or policy", "held by", "from (UTC)", "for", "why")
SCORE = ("policy", "confirmed", "refuted", "put back", "open", "no case", "precision")
MOVED = ("machine", "before (UTC)", "now (UTC)", "policy")


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to tell."""

    head: Result
    base: Result | None = None
    record: Record | None = None

    @property
    def difference(self) -> Difference | None:
        """From the base, where there is one."""
        return None if self.base is None else compare(self.base, self.head)


def headline(report: Report) -> str:
    """The result in a sentence, and whether that is all there is to know."""
    doubt = any(True for _ in unseen(report.head))
    return _found(report) + (" Not everything could be seen: what is not known stands below." if doubt else "")


def _found(report: Report) -> str:
    result, difference = report.head, report.difference
    if difference is not None:
        if difference.nothing:
            return f"No difference: both versions take out the same {_count(difference.same, 'machine')}."
        delta = difference.gpu_hours
        hours = f"{abs(delta):,.0f} GPU-hours {'more' if delta >= 0 else 'less'} out of service"
        return (
            f"{len(difference.added)} newly taken out, {len(difference.spared)} no longer, {len(difference.moved)} at "
            f"another time or by another policy, {difference.same} as before; {hours}."
        )
    out = len(result.by_node())
    held = len({hold.node for hold in result.held if hold.node and not hold.stray} - result.by_node().keys())
    return (
        f"{out} of {result.nodes} machines would have been taken out, {result.gpu_hours_out():,.0f} GPU-hours in all"
        + (f" ({result.gpu_hours_out() / result.gpu_hours():.2%})" if result.gpu_hours() and not result.gaps else "")
        + (f"; {_count(held, 'machine')} more {'was' if held == 1 else 'were'} found and held back" if held else "")
        + "."
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def period(result: Result) -> str:
    """The time that was looked at."""
    span = result.span
    return f"{span.start:%Y-%m-%d %H:%M} to {span.end:%Y-%m-%d %H:%M} UTC, looked at every {format_duration(span.step)}"


def _lasted(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    days, hours = divmod(minutes // 60, 24)
    return f"{days}d {hours}h" if days else f"{hours}h {minutes % 60:02d}m"


def _for(outage: Outage, result: Result) -> str:
    return _lasted(outage.lasted(result.span.end)) + ("" if outage.end else ", to the end")


def unseen(result: Result) -> Iterator[str]:
    """What nothing can be said about, one sentence each."""
    same: dict[tuple[str, str], list[str]] = {}
    for gap in result.gaps:
        when = f"{gap.start:%m-%d %H:%M} to {gap.end:%m-%d %H:%M} UTC"
        same.setdefault((when, gap.detail), []).append(gap.policy)
    for (when, detail), policies in same.items():
        yield f"{', '.join(policies)} saw nothing from {when}: {detail}"
    yield from _never_seen(result)
    yield from _partly_seen(result)
    if strays := [hold for hold in result.held if hold.stray]:
        names = sorted({hold.node or "(unnamed)" for hold in strays})
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        yield f"bad, and no machine of the inventory: {', '.join(names[:5])}{more}"


def _never_seen(result: Result) -> Iterator[str]:
    """A policy that saw nothing at all is a gap already; here are those that saw some machines and not others."""
    same: dict[tuple[str, ...], list[str]] = {}
    for policy, nodes in result.unseen.items():
        if nodes and result.unanswered(policy) < result.span.grid.count * result.span.step:
            same.setdefault(nodes, []).append(policy)
    for nodes, policies in same.items():
        named = ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")
        yield f"{_count(len(nodes), 'machine')} never seen by {', '.join(policies)}: {named}"


def _partly_seen(result: Result) -> Iterator[str]:
    """Machines whose exporter came, went or was away: what they showed meanwhile is not known."""
    whole = result.span.grid.count * result.span.step
    same: dict[tuple[str, ...], list[str]] = {}
    for policy, seen in result.partly.items():
        if result.unanswered(policy) == timedelta(0):  # else that is said already
            told = tuple(f"{node} ({_lasted(lasted)})" for node, lasted in seen.items())
            if told:
                same.setdefault(told, []).append(policy)
    for told, policies in same.items():
        named = ", ".join(told[:5]) + (f" and {len(told) - 5} more" if len(told) > 5 else "")
        yield f"seen by {', '.join(policies)} for a part of the {_lasted(whole)} only: {named}"


def outage_rows(outages: Iterable[Outage], result: Result) -> Iterator[tuple[str, ...]]:
    """As `OUTAGE` has it."""
    for outage in outages:
        also = f" (also {', '.join(outage.also)})" if outage.also else ""
        when = f"{outage.start:%Y-%m-%d %H:%M}"
        hours = f"{outage.gpus * outage.lasted(result.span.end).total_seconds() / 3600:,.0f}"
        yield (outage.node, when, _for(outage, result), outage.policy + also, str(outage.device), hours)


def spared_rows(difference: Difference) -> Iterator[tuple[str, ...]]:
    """As `SPARED` has it: not found any more, or found and held back, are two things."""
    for outage, row in zip(difference.spared, outage_rows(difference.spared, difference.base), strict=True):
        held = sorted({str(h.held_by) for h in difference.head.held if h.node == outage.node and not h.stray})
        yield (*row, f"held back ({', '.join(held)})" if held else "not found")


def held_rows(held: Iterable[Held], result: Result) -> Iterator[tuple[str, ...]]:
    """As `HELD` has it."""
    for hold in held:
        lasted = _lasted((hold.end or result.span.end) - hold.start) + ("" if hold.end else ", to the end")
        yield (
            hold.node or f"policy {hold.policy}",
            str(hold.held_by),
            f"{hold.start:%Y-%m-%d %H:%M}",
            lasted,
            hold.reason,
        )


def score_rows(record: Record) -> Iterator[tuple[str, ...]]:
    """As `SCORE` has it: never a share of nothing."""
    for score in record.scores:
        decided = score.confirmed + score.refuted
        share = "nothing to go by" if score.precision is None else f"{score.confirmed} of {decided}"
        counts = (score.confirmed, score.refuted, score.returned, score.open, score.unknown)
        yield (score.policy, *map(str, counts), share)


def missed(record: Record) -> str:
    """Which confirmed faults no policy finds, in one sentence."""
    names = sorted({case.node for case in record.missed})
    if not names:
        return f"No confirmed fault of the trail's {_count(record.cases, 'case')} was missed."
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"Confirmed faults that none of these policies finds: {', '.join(names[:10])}{more}."


def moved_rows(difference: Difference) -> Iterator[tuple[str, ...]]:
    """As `MOVED` has it."""
    for pair in difference.moved:
        before, after = pair.before, pair.after
        shift = pair.sooner
        moved = f" ({_lasted(abs(shift))} {'sooner' if shift > timedelta(0) else 'later'})" if shift else ""
        policy = after.policy if before.policy == after.policy else f"{before.policy} → {after.policy}"
        yield (after.node, f"{before.start:%Y-%m-%d %H:%M}", f"{after.start:%Y-%m-%d %H:%M}{moved}", policy)
