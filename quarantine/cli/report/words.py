"""A report in sections, each a table with what is to be said of it; for the terminal and for Markdown alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from quarantine.core.model import Severity
from quarantine.core.record.report import Report
from quarantine.core.record.report.causes import GATE, PERSON, UNTOLD, Cause
from quarantine.core.record.report.failures import FailureRate, JobOutlook
from quarantine.core.record.report.job import LONGEST
from quarantine.core.record.report.measure import Spread
from quarantine.core.units import format_duration

_BY = {PERSON: "a person", GATE: "new here, to be proven", UNTOLD: "a mark that was found"}
_STEPS = {
    "found_to_out": "found → taken out",
    "out_to_marked": "taken out → marked",
    "out_to_ticket": "taken out → provider told",
    "asked_to_acknowledged": "asked for another → acknowledged",
    "asked_to_swapped": "asked for another → swapped",
    "swapped_to_back": "swapped → back in service",
    "out_to_back": "taken out → back in service",
}
_NONE = "–"
NOT_TOLD = "not told"
Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A table; columns from `numbers` on are of numbers, and `ids` are copied. `notes` are sentences below it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Row]
    numbers: int
    notes: Sequence[str] = ()
    ids: frozenset[int] = frozenset()


def headline(report: Report) -> str:
    """Of what time, of whom, and how much there is."""
    clusters = ", ".join(report.clusters) or "no cluster"
    span = f"{report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC, {clusters}"
    if report.empty:
        return f"{span}: nothing happened; no case was open, no machine was out of service, nothing was held."
    return f"{span}: {_counted(report.cases, 'case')} on {_counted(report.machines, 'machine')}."


def sections(report: Report) -> Iterator[Section]:
    """Those that have something to say."""
    made = (
        _causes,
        _times,
        _pools,
        _owners,
        _answers,
        _findings,
        _failures,
        _jobs,
        _worst,
        _policies,
        _holds,
    )
    for make in made:
        section = make(report)
        if section.rows or section.notes:
            yield section


# --- Cases ------------------------------------------------------------------------------------------------------------


def _causes(report: Report) -> Section:
    severities = [severity.value for severity in Severity]
    rows = [
        (_cause(c), c.signal, f"{c.opened:,}", f"{c.out:,}", *(_count(c.severities.get(s, 0)) for s in severities))
        for c in report.causes
    ]
    return Section("Taken out, by cause", ("cause", "signal", "cases", "taken out", *severities), rows, 2)


def _cause(cause: Cause) -> str:
    return _BY.get(cause.by, cause.policy)


def _times(report: Report) -> Section:
    rows = [
        (_STEPS[name], f"{s.count:,}", lasted(s.least), lasted(s.median), lasted(s.p90), lasted(s.most))
        for name, s in report.times.items()
        if s is not None
    ]
    return Section("How long it took", ("step", "times", "shortest", "median", "90 % within", "longest"), rows, 1)


def _policies(report: Report) -> Section:
    rows = [
        (
            p.policy,
            f"{p.confirmed + p.refuted + p.returned + p.open:,}",
            *map(_count, (p.confirmed, p.refuted, p.returned, p.open)),
            _NONE if p.precision is None else f"{p.confirmed:,} of {p.confirmed + p.refuted:,}",
        )
        for p in report.policies
    ]
    heads = ("policy", "cases", "confirmed", "refuted", "released", "open", "precision")
    notes = ["What is next for each of them, from observing to acting: quarantine trust."] if rows else []
    return Section("Policies", heads, rows, 1, notes)


def _worst(report: Report) -> Section:
    rows = [
        (
            ", ".join(m.nodes) if len(report.clusters) < 2 else f"{', '.join(m.nodes)} ({', '.join(m.clusters)})",
            m.machine or NOT_TOLD,
            m.pool or _NONE,
            *(f"{n:,}" for n in (m.score, m.opened, m.out, m.told, m.refuted)),
            _hours(m.hours_out),
        )
        for m in report.worst
    ]
    heads = ("node", "machine", "pool", "score", "cases", "out", "told", "refuted", "hours out")
    return Section("Worst machines", heads, rows, 3, ids=frozenset({1}))


# --- Machine-hours and providers --------------------------------------------------------------------------------------


def _pools(report: Report) -> Section:
    rows = [
        (
            *_where(report, p.cluster, p.pool),
            f"{p.outages:,}",
            _count(p.still_out),
            _hours(p.hours),
            _NONE if p.share is None else f"{p.share:.2%}",
            _NONE if p.gpu_hours is None else _hours(p.gpu_hours),
        )
        for p in report.pools
    ]
    heads = (*_heads(report), "outages", "still out", "machine-hours", "of the pool", "GPU-hours")
    return Section("Out of service, by pool", heads, rows, len(_heads(report)))


def _owners(report: Report) -> Section:
    rows = [
        (p.provider or "not named", f"{p.outages:,}", _count(p.still_out), _hours(p.hours)) for p in report.providers
    ]
    return Section("Out of service, by provider", ("provider", "outages", "still out", "machine-hours"), rows, 1)


def _answers(report: Report) -> Section:
    rows = [
        (
            p.provider or "not named",
            f"{p.told:,}",
            f"{p.asked:,}",
            *_middle(p.acknowledged),
            *_middle(p.replaced),
            _count(p.waiting),
            _NONE if p.waiting_longest is None else lasted(p.waiting_longest),
        )
        for p in report.provider_scores
    ]
    heads = ("provider", "told", "asked", "answered", "median", "swapped", "median", "waiting", "longest")
    return Section("Providers: how they answered", heads, rows, 1)


def _findings(report: Report) -> Section:
    rows = [
        (
            p.provider or "not named",
            *map(_count, (p.confirmed, p.refuted, p.unsaid, p.same_returned)),
            _hours(p.hours_owed),
        )
        for p in report.provider_scores
    ]
    heads = ("provider", "confirmed", "no fault found", "not said", "same returned", "machine-hours owed")
    return Section("Providers: what they found, and owe", heads, rows, 1)


# --- Failures ---------------------------------------------------------------------------------------------------------


def _failures(report: Report) -> Section:
    known = [rate for rate in report.failures if rate.rate is not None]
    rows = [(*_where(report, rate.cluster, rate.pool), *_rate(rate)) for rate in known]
    if report.all_failures is not None:
        blank = ("all", "") if len(report.clusters) > 1 else ("all",)
        rows.append((*blank, *_rate(report.all_failures)))
    heads = (*_heads(report), "failures", "confirmed", "node-days", "per 1,000 node-days", "95 % interval")
    notes = [_uncounted(report, rate) for rate in report.failures if rate.uncounted]
    return Section("Failures", heads, rows, len(_heads(report)), notes)


def _rate(rate: FailureRate) -> Row:
    counted = (f"{rate.failures:,}", _count(rate.confirmed), f"{rate.node_days:,.1f}")
    return (*counted, f"{rate.rate:,.2f}", f"{rate.low:,.2f} to {rate.high:,.2f}")


def _uncounted(report: Report, rate: FailureRate) -> str:
    pool = ", ".join(_where(report, rate.cluster, rate.pool))
    return f"{pool}: {_counted(rate.uncounted, 'failure')} while the size of the pool was not known, in no rate."


def _jobs(report: Report) -> Section:
    rows = [(*_where(report, j.cluster, j.pool), *_outlook(j)) for j in report.jobs]
    heads = (*_heads(report), "GPUs", "nodes", "mean time to failure", "95 % interval", "Young", "Daly")
    cost = f"Young, Daly: how long to compute between two checkpoints of {lasted(report.wanted.checkpoint)} each."
    unknown = [rate for rate in report.failures if rate.rate is not None and rate.gpus_per_node is None]
    notes = [
        f"{', '.join(_where(report, r.cluster, r.pool))}: its nodes do not say how many GPUs they have."
        for r in unknown
    ]
    return Section("What that means for a job", heads, rows, len(_heads(report)), [*([cost] if rows else []), *notes])


def _outlook(job: JobOutlook) -> Row:
    most = "" if job.at_most is None else f" to {_mean(job.at_most)}"
    told = ("none failed", _NONE, _NONE) if job.mean is None or job.young is None or job.daly is None else ()
    bounds = f"{_mean(job.at_least)}{most}" if most else f"{_mean(job.at_least)} or more"
    mean, young, daly = told or tuple(_mean(at) for at in (job.mean, job.young, job.daly) if at is not None)
    return (f"{job.gpus:,}", f"{job.nodes:,}", mean, bounds, young, daly)


def _mean(length: timedelta) -> str:
    return "a century or more" if length >= LONGEST else lasted(length)


# --- Holds ------------------------------------------------------------------------------------------------------------


def _holds(report: Report) -> Section:
    rows = [
        (
            h.held_by,
            h.policy or _NONE,
            f"{h.count:,}",
            lasted(h.total),
            lasted(h.lengths.median),
            _count(h.led_to_quarantine),
            _hours(h.in_service),
            _count(h.machines),
        )
        for h in report.holds
    ]
    heads = ("held by", "policy", "holds", "in all", "median", "then out", "in service", "machines")
    notes = ["In service: machine-hours that a suspect stayed in service under the hold."] if rows else []
    return Section("What was held back", heads, rows, 2, notes)


# --- Cells ------------------------------------------------------------------------------------------------------------


def lasted(length: timedelta) -> str:
    """To the second below an hour, to the minute below a day, to the hour beyond: `12m40s`, `7h54m`, `2d3h`."""
    second, hour, day = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
    if length < second:
        return format_duration(length)
    step = second if length < hour else timedelta(minutes=1) if length < day else hour
    return format_duration(round(length / step) * step)


def _where(report: Report, cluster: str, pool: str) -> Row:
    """A pool; with its cluster where there are several."""
    return (cluster, pool or "no pool") if len(report.clusters) > 1 else (pool or "no pool",)


def _heads(report: Report) -> Row:
    return ("cluster", "pool") if len(report.clusters) > 1 else ("pool",)


def _middle(spread: Spread | None) -> Row:
    return (_NONE, _NONE) if spread is None else (f"{spread.count:,}", lasted(spread.median))


def _hours(hours: float) -> str:
    return f"{hours:,.1f}"


def _count(number: int) -> str:
    return f"{number:,}" if number else _NONE


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
