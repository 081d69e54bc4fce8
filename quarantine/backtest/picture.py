"""The timeline of a backtest as SVG: a row for each machine, bars for its time out of service. Needs no library.

Readable without colour: severities differ in their stripes as well, and what is held is an outline only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape

from quarantine.backtest.compare import Difference
from quarantine.backtest.result import Gap, Held, Outage, Result
from quarantine.core.model import Severity

MOST_ROWS = 60  # machines; beyond, the picture says how many are not shown
_WIDTH, _ROW, _BAR = 1120, 22, 14  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 190, 24, 64, 66
_TEXT, _FAINT, _GRID = "#1f2933", "#616e7c", "#e1e5ea"
_FILL = {Severity.FATAL: "#8f1d2c", Severity.CRITICAL: "#d1603d", Severity.WARNING: "#e3b23c"}
_STEPS = [timedelta(minutes=m) for m in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)] + [
    timedelta(days=d) for d in (1, 2, 7, 14, 28, 91, 182, 365)
]
_LABEL_PX = 62  # what the text under one tick needs
_CHAR_PX = 6.7  # of the labels' font, a little more than the average
_HELD = f'fill="none" stroke="{_FAINT}" stroke-dasharray="3 2"'
_BESIDE = 'font-size="11" paint-order="stroke" stroke="#ffffff" stroke-width="3"'  # readable over whatever is there


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    outages: tuple[Outage, ...]
    held: tuple[Held, ...] = ()
    faded: bool = False  # of the older version


@dataclass(frozen=True, slots=True)
class _Scale:
    start: datetime
    end: datetime

    def x(self, at: datetime) -> float:
        """Pixels from the left edge; outside the span it is the nearer end."""
        share = (at - self.start) / max(self.end - self.start, timedelta(seconds=1))
        return _LEFT + min(1.0, max(0.0, share)) * (_WIDTH - _LEFT - _RIGHT)


def timeline(result: Result) -> str:
    """One version: who was out and what was held."""
    rows = _rows(result)
    title = f"{len(result.by_node())} of {result.nodes} machines would have been taken out"
    return _drawn(result, rows, title, "")


def timelines(difference: Difference) -> str:
    """Two versions: for each machine that differs the newer one's row above the older one's, which is pale."""
    head, base = difference.head.by_node(), difference.base.by_node()
    differ: list[_Row] = []
    alike: list[_Row] = []
    for node in sorted(head.keys() | base.keys()):
        after, before = head.get(node, ()), base.get(node, ())
        if [(o.start, o.end, o.policy) for o in after] == [(o.start, o.end, o.policy) for o in before]:
            alike.append(_Row(node, after))
        else:
            differ += [_Row(node, after), _Row("before", before, faded=True)]
    added, spared, moved = len(difference.added), len(difference.spared), len(difference.moved)
    title = f"newly out: {added}; no longer: {spared}; at another time or by another policy: {moved}"
    return _drawn(difference.head, [*differ, *alike], title, "pale: the version before")


def _rows(result: Result) -> list[_Row]:
    out = result.by_node()
    held: dict[str, list[Held]] = {}
    for hold in result.held:
        if hold.node is not None and not hold.stray:
            held.setdefault(hold.node, []).append(hold)
    names = sorted(out, key=lambda n: (out[n][0].start, n))
    names += sorted(held.keys() - out.keys(), key=lambda n: (held[n][0].start, n))
    return [_Row(name, out.get(name, ()), tuple(held.get(name, ()))) for name in names]


def _drawn(result: Result, rows: Sequence[_Row], title: str, note: str) -> str:
    shown = list(rows[:MOST_ROWS])
    scale = _Scale(result.span.start, result.span.end)
    body = max(1, len(shown)) * _ROW
    height = _TOP + body + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="ui-sans-serif, Helvetica, Arial, sans-serif" font-size="12" fill="{_TEXT}">',
        f"<title>{escape(title)}</title>",
        _PATTERNS,
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="26" font-size="16" font-weight="600">{escape(title)}</text>',
        f'<text x="16" y="45" fill="{_FAINT}">{escape(_subtitle(result, note))}</text>',
        *_axis(scale, body),
        *_gaps(scale, _shaded(result), body),
    ]
    for number, row in enumerate(shown):
        parts += _row(scale, row, _TOP + number * _ROW)
    if not shown:
        parts.append(f'<text x="{_LEFT + 12}" y="{_TOP + 15}" fill="{_FAINT}">nothing was found</text>')
    parts += _legend(_TOP + body + 46, result, more=len(rows) - len(shown), faded=any(row.faded for row in shown))
    return "\n".join((*parts, "</svg>", ""))


def _subtitle(result: Result, note: str) -> str:
    span = result.span
    hours, share = result.gpu_hours_out(), result.gpu_hours()
    out = f"{hours:,.0f} GPU-hours out" + (f" ({hours / share:.2%})" if share else "")
    said = f"{span.start:%Y-%m-%d %H:%M} to {span.end:%Y-%m-%d %H:%M} UTC · {out} · {', '.join(result.policies)}"
    said = f"{note} · {said}" if note else said
    return said if len(said) <= 150 else f"{said[:149]}…"


def _axis(scale: _Scale, body: int) -> Iterator[str]:
    room = (_WIDTH - _LEFT - _RIGHT) / _LABEL_PX
    whole = scale.end - scale.start
    step = next((s for s in _STEPS if whole / s <= room), _STEPS[-1])
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    at = epoch + -(-(scale.start - epoch) // step) * step
    while at <= scale.end:
        x = scale.x(at)
        yield f'<line x1="{x:.1f}" y1="{_TOP - 4}" x2="{x:.1f}" y2="{_TOP + body}" stroke="{_GRID}"/>'
        day = step >= timedelta(days=1) or at.hour == at.minute == 0
        text = f"{at:%d %b}" if day else f"{at:%H:%M}"
        yield f'<text x="{x:.1f}" y="{_TOP + body + 16}" text-anchor="middle" fill="{_FAINT}">{text}</text>'
        at += step


def _gaps(scale: _Scale, gaps: Sequence[Gap], body: int) -> Iterator[str]:
    for gap in gaps:
        x, width = scale.x(gap.start), max(1.5, scale.x(gap.end) - scale.x(gap.start))
        yield (
            f'<rect x="{x:.1f}" y="{_TOP}" width="{width:.1f}" height="{body}" fill="url(#gap)">'
            f"<title>{escape(f'{gap.policy}: not answered')}</title></rect>"
        )


def _shaded(result: Result) -> list[Gap]:
    """A policy that never saw anything is no gap in the picture, or all of it would be one."""
    whole = result.span.grid.count * result.span.step
    dark = {policy for policy in result.policies if result.unanswered(policy) >= whole}
    return [gap for gap in result.gaps if gap.policy not in dark or len(dark) == len(result.policies)]


def _row(scale: _Scale, row: _Row, y: int) -> Iterator[str]:
    middle = y + _ROW / 2 + 4
    label = row.label if len(row.label) <= 26 else f"{row.label[:12]}…{row.label[-13:]}"
    yield (
        f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end" fill="{_FAINT if row.faded else _TEXT}">'
        f"{escape(label)}</text>"
    )
    yield f'<line x1="{_LEFT}" y1="{y + _ROW}" x2="{_WIDTH - _RIGHT}" y2="{y + _ROW}" stroke="{_GRID}"/>'
    top = y + (_ROW - _BAR) / 2
    for hold in row.held:
        x, x2 = scale.x(hold.start), scale.x(hold.end or scale.end)
        told = escape(f"held ({hold.held_by}): {hold.reason}")
        yield (
            f'<rect x="{x:.1f}" y="{top + 3}" width="{max(3.0, x2 - x):.1f}" height="{_BAR - 6}" {_HELD}>'
            f"<title>{told}</title></rect>"
        )
    for number, outage in enumerate(row.outages):
        after = row.outages[number + 1].start if number + 1 < len(row.outages) else scale.end
        yield from _bar(scale, outage, top, after, faded=row.faded)


def _bar(scale: _Scale, outage: Outage, top: float, free_until: datetime, *, faded: bool) -> Iterator[str]:
    x, x2 = scale.x(outage.start), scale.x(outage.end or scale.end)
    width = max(3.0, x2 - x)
    opacity = ' opacity="0.35"' if faded else ""
    shape = f'x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BAR}" rx="2"'
    told = f"{outage.policy}: {outage.reason} ({outage.start:%Y-%m-%d %H:%M} UTC)"
    yield f'<g{opacity}><rect {shape} fill="{_FILL[outage.severity]}"><title>{escape(told)}</title></rect>'
    yield f'<rect {shape} fill="url(#{outage.severity.value})" pointer-events="none"/></g>'
    words = f"{outage.policy} · {outage.start:%d %b %H:%M}"
    need = len(words) * _CHAR_PX + 10
    if need <= width:
        yield (
            f'<rect x="{x + 4:.1f}" y="{top + 1:.1f}" width="{need - 4:.1f}" height="{_BAR - 2}" rx="2" fill="#ffffff" '
            f'opacity="{0.5 if faded else 0.88}"/><text x="{x + 7:.1f}" y="{top + 11:.1f}" font-size="11">'
            f"{escape(words)}</text>"
        )
    elif scale.x(free_until) - x2 >= need:
        yield f'<text x="{x2 + 5:.1f}" y="{top + 11:.1f}" {_BESIDE}>{escape(words)}</text>'
    elif x - _LEFT >= need and free_until == scale.end:
        yield f'<text x="{x - 5:.1f}" y="{top + 11:.1f}" text-anchor="end" {_BESIDE}>{escape(words)}</text>'


def _legend(y: int, result: Result, *, more: int, faded: bool) -> Iterator[str]:
    x = float(_LEFT)
    for severity in (Severity.FATAL, Severity.CRITICAL, Severity.WARNING):
        shape = f'x="{x}" y="{y - 11}" width="26" height="{_BAR}" rx="2"'
        yield f'<rect {shape} fill="{_FILL[severity]}"/><rect {shape} fill="url(#{severity.value})"/>'
        yield f'<text x="{x + 32}" y="{y}">{severity.value}</text>'
        x += 32 + 8 * len(severity.value) + 18
    if any(h.node is not None and not h.stray for h in result.held) and not faded:
        yield f'<rect x="{x}" y="{y - 8}" width="26" height="{_BAR - 6}" {_HELD}/>'
        yield f'<text x="{x + 32}" y="{y}">found, and held back</text>'
        x += 190
    if _shaded(result):
        yield f'<rect x="{x}" y="{y - 11}" width="26" height="{_BAR}" fill="url(#gap)" stroke="{_GRID}"/>'
        yield f'<text x="{x + 32}" y="{y}">a policy saw nothing</text>'
        x += 220
    if more > 0:
        yield f'<text x="{_WIDTH - _RIGHT}" y="{y}" text-anchor="end" fill="{_FAINT}">{more} more rows not shown</text>'


_PATTERNS = f"""<defs>
<pattern id="fatal" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 0L6 6M6 0L0 6" stroke="#ffffff" stroke-opacity="0.35"/></pattern>
<pattern id="critical" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M-1 7L7 -1" stroke="#ffffff" stroke-opacity="0.45"/></pattern>
<pattern id="warning" width="6" height="6" patternUnits="userSpaceOnUse"/>
<pattern id="gap" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="#f3f4f6"/><path d="M0 4H8" stroke="{_FAINT}" stroke-opacity="0.35"/></pattern>
</defs>"""  # noqa: E501
