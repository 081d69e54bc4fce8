"""The set as a table, for the terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from quarantine.core.units import format_duration
from tests.scenarios.play import Played

PAGE = """\
# The scenario set

*Made by `scripts/scenarios --write`; do not edit it by hand.*

Situations from the field, each with the right outcome: `tests/scenarios/*.yaml`. Every one is played in accelerated
time on a real Prometheus, whose history is written before, with the real controller: it observes, plans, records and
acts on the emulated Kubernetes API, cycle by cycle, once a minute. The policies are the shipped ones, and enforce.
`fault`: a machine must be out by a given time. `trap`: it looks like a fault and is none. `life`: what becomes of a
machine that is out.

{totals}

![Time from the fault to the taint]({picture})

From the fault to the taint, of {count} machines: {spread}. Most of it is the time for which a policy wants a fault to
last.

| scenario | | what must come of it | seen |
|---|---|---|---|
{rows}
"""


def totals(played: Sequence[Played]) -> str:
    """One sentence."""
    healthy = sum(len(p.healthy_out) for p in played)
    missed = sum(len(p.missed) for p in played)
    bad = sum(bool(p.problems) for p in played)
    machines = sum(p.scenario.machines.count for p in played)
    found = sum(len(p.delays) for p in played)
    return (
        f"{len(played)} scenarios with {machines} machines: {found} of {found + missed} faulty ones were taken out in "
        f"time, {missed} were missed, and {healthy} healthy ones were taken out; {bad} scenarios came out otherwise "
        "than they should."
    )


def delays(played: Sequence[Played]) -> list[timedelta]:
    """From the fault to the taint, of every machine that was taken out in time; shortest first."""
    return sorted(delay for p in played for delay in p.delays.values())


def spread(found: Sequence[timedelta]) -> str:
    """The distribution in words."""
    if not found:
        return "none was taken out"
    ninth = found[min(len(found) - 1, -(-9 * len(found) // 10) - 1)]
    named = {"min": found[0], "median": found[len(found) // 2], "p90": ninth, "max": found[-1]}
    return ", ".join(f"{name} {_short(value)}" for name, value in named.items())


def _short(delay: timedelta) -> str:
    return format_duration(delay) if delay else "0s"


def lines(played: Sequence[Played]) -> Iterator[str]:
    """For a terminal."""
    width = max((len(p.file) for p in played), default=0)
    for p in played:
        mark = "ok " if not p.problems else "BAD"
        out = ", ".join(f"{node} after {_short(delay)}" for node, delay in sorted(p.delays.items()))
        yield f"{mark} {p.file:{width}} {p.seconds:5.1f}s  {out or 'nothing taken out'}"
        yield from (f"      {problem}" for problem in p.problems)
    yield ""
    yield totals(played)
    yield f"from the fault to the taint: {spread(delays(played))}"


def page(played: Sequence[Played], picture: str) -> str:
    """docs/scenarios.md."""
    found = delays(played)
    rows = "\n".join(
        f"| {p.scenario.title} | {p.scenario.kind} | {_wanted(p)} | {_seen(p)} |"
        for p in sorted(played, key=lambda p: (p.scenario.kind, p.file))
    )
    return PAGE.format(totals=totals(played), picture=picture, count=len(found), spread=spread(found), rows=rows)


def _wanted(p: Played) -> str:
    due = {
        f"{f.machine} out by {format_duration(f.out_by)}" for f in p.scenario.faults if isinstance(f.out_by, timedelta)
    }
    ends = [
        f"{node} {phases[max(phases)] or 'without a case'} at {format_duration(max(phases))}"
        for node, phases in p.scenario.outcome.phases.items()
    ]
    held = [f"held by {by}" for by in p.scenario.outcome.held]
    return "; ".join((*sorted(due), *(["nothing taken out"] if not due else []), *ends, *held))


def _seen(p: Played) -> str:
    if p.problems:
        return "**otherwise**: " + "; ".join(p.problems)
    return ", ".join(f"{node} after {_short(delay)}" for node, delay in sorted(p.delays.items())) or "so"


def picture(found: Sequence[timedelta]) -> str:
    """The distribution as an SVG: one bar for each minute."""
    minutes = [int(delay / timedelta(minutes=1)) for delay in found]
    most, last = max(map(minutes.count, minutes), default=1), max(minutes, default=0)
    left, base, bar, unit = 40, 150, 24, 110 / most
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + max((last + 1) * bar, 300) + 40}" height="200" '
        'font-family="sans-serif" font-size="11">',
        "<title>Minutes from the fault to the taint</title>",
    ]
    for minute in range(last + 1):
        count, x = minutes.count(minute), left + minute * bar
        if count:
            top, width, height = base - count * unit, bar - 4, count * unit
            parts.append(f'<rect x="{x}" y="{top:.1f}" width="{width}" height="{height:.1f}" fill="#4477aa"/>')
            parts.append(f'<text x="{x + 7}" y="{top - 4:.1f}">{count}</text>')
        parts.append(f'<text x="{x + 5}" y="{base + 16}">{minute}</text>')
    said = "minutes from the fault to the taint, and how many machines"
    parts.append(f'<text x="{left}" y="{base + 38}">{said}</text>')
    return "\n".join((*parts, "</svg>")) + "\n"
