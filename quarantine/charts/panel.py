"""One finding's plot: the signal, its bound, the trigger's window, and the numbers of what was done meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from quarantine.charts import scale
from quarantine.charts.lettering import fitted, font
from quarantine.charts.page import FAINT, GRID, INK, MARGIN, PLOT_LEFT
from quarantine.core.record.chart import Bound, Panel
from quarantine.core.record.marked import Mark
from quarantine.core.units import format_number

_SIGNAL, _BAD, _WINDOW = "#1f4e79", "#b02a1a", "#e6e9ed"
_SMALL = 9.0
_MOST_DOTS = 80  # points; more of them are a line alone
_NEAR = 0.035  # of the width: marks that are closer share a label
_OUT = (MARGIN - PLOT_LEFT) * 72  # points from a plot's left side to the page's margin
_HALO = [withStroke(linewidth=3, foreground="#ffffff")]


def draw(into: Axes, panel: Panel, marks: Sequence[Mark]) -> None:
    """`into` is empty, and gets its limits, its ticks and everything on it."""
    low, high = scale.room_for(panel.values)
    margin = (panel.end - panel.start).total_seconds() * 0.03
    into.set_xlim(-margin, _x(panel, panel.end) + margin)
    into.set_ylim(low, high)
    _frame(into, panel, low, high)
    _window(into, panel)
    for bound in panel.bounds:
        _bound(into, panel, bound)
    _signal(into, panel)
    _moment(into, panel)
    _marks(into, panel, marks)


def _x(panel: Panel, at: datetime) -> float:
    return (at - panel.start).total_seconds()


def _unit(panel: Panel) -> str:
    return fitted(panel.unit, 1.5, _SMALL)


def _frame(into: Axes, panel: Panel, low: float, high: float) -> None:
    times, (values, base) = scale.times(panel.start, panel.end), scale.values(low, high)
    into.set_xticks([_x(panel, at) for at, _ in times], [text for _, text in times])
    into.set_yticks([value for value, _ in values], [text for _, text in values])
    into.tick_params(color=FAINT, labelcolor=INK, length=3)
    for label in (*into.get_xticklabels(), *into.get_yticklabels()):
        label.set_fontproperties(font(_SMALL))
    into.grid(color=GRID, linewidth=0.6)
    into.set_axisbelow(True)
    for side in ("top", "right"):
        into.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        into.spines[side].set_color(FAINT)
    look = {"fontproperties": font(_SMALL), "color": FAINT, "parse_math": False, "annotation_clip": False}
    day = f"{panel.start:%Y-%m-%d}, UTC"
    into.annotate(day, (0, 0), (_OUT, -17), xycoords="axes fraction", textcoords="offset points", va="top", **look)  # type: ignore[arg-type]
    unit = f"{_unit(panel)}{f' over {base}' if base else ''}"
    into.annotate(unit, (0, 1), (_OUT, 4), xycoords="axes fraction", textcoords="offset points", va="bottom", **look)  # type: ignore[arg-type]


def _window(into: Axes, panel: Panel) -> None:
    if panel.since is None:
        return
    start, end = _x(panel, panel.since), _x(panel, panel.at)
    into.axvspan(start, end, facecolor=_WINDOW, edgecolor=FAINT, linewidth=0.6, linestyle=":", zorder=0.5)
    (left, right), low = into.get_xlim(), into.get_ylim()[0]
    if end - left > (right - left) / 3:
        _label(into, "the trigger's window", end, low, (-4, 4), ha="right", color=FAINT)
    else:
        _label(into, "the trigger's window", start, low, (4, 4), color=FAINT)


def _bound(into: Axes, panel: Panel, bound: Bound) -> None:
    into.axhline(bound.value, color=_BAD, linestyle=(0, (6, 3)), linewidth=1.6, zorder=2)
    side = "from" if bound.reached else "above" if bound.above else "below"
    text = f"bad {side} {format_number(bound.value)} {_unit(panel)}"
    offset = (2, 3) if bound.above else (2, -12)
    _label(into, text, into.get_xlim()[0], bound.value, offset, color=_BAD)


def _signal(into: Axes, panel: Panel) -> None:
    few = sum(len(run) for run in panel.runs) <= _MOST_DOTS
    for run in panel.runs:
        xs, ys = [_x(panel, at) for at, _ in run], [value for _, value in run]
        into.plot(xs, ys, color=_SIGNAL, linewidth=1.4, zorder=3)
        if few or len(run) == 1:
            beyond = [any(bound.is_beyond(y) for bound in panel.bounds) for y in ys]
            face = [_SIGNAL if bad else "#ffffff" for bad in beyond]
            into.scatter(xs, ys, s=14, c=face, edgecolors=_SIGNAL, linewidths=1.0, zorder=4)


def _moment(into: Axes, panel: Panel) -> None:
    """What the trigger saw when it was found bad."""
    if panel.value is None:
        return
    x = _x(panel, panel.at)
    into.plot([x], [panel.value], marker="D", markersize=7, color=INK, zorder=6)
    text = f"{format_number(panel.value)} {_unit(panel)}"
    _label(into, text, x, panel.value, (-8, 6), ha="right", color=INK, bold=True)


def _label(
    into: Axes,
    text: str,
    x: float,
    y: float,
    offset: tuple[float, float],
    *,
    ha: str = "left",
    color: str = INK,
    bold: bool = False,
) -> None:
    into.annotate(
        text,
        (x, y),
        offset,
        textcoords="offset points",
        ha=ha,
        color=color,
        fontproperties=font(_SMALL, bold=bold),
        path_effects=_HALO,
        parse_math=False,
        annotation_clip=False,
        zorder=7,
    )


def _marks(into: Axes, panel: Panel, marks: Sequence[Mark]) -> None:
    shown = [mark for mark in marks if panel.start <= mark.at <= panel.end]
    wide = into.get_xlim()[1] - into.get_xlim()[0]
    for x, text in _together([(_x(panel, mark.at), mark.number) for mark in shown], wide * _NEAR):
        into.axvline(x, color=INK, linestyle=":", linewidth=1.1, zorder=2.5)
        into.annotate(
            text,
            (x, 1),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="center",
            color=INK,
            fontproperties=font(_SMALL, bold=True),
            bbox={"boxstyle": "round,pad=0.25", "facecolor": "#ffffff", "edgecolor": INK, "linewidth": 0.9},
            annotation_clip=False,
            zorder=8,
        )


def _together(marks: Sequence[tuple[float, int]], near: float) -> Iterator[tuple[float, str]]:
    """Those that would be drawn over one another, as one: `2–4` for the numbers from 2 to 4."""
    groups: list[list[tuple[float, int]]] = []
    for x, number in sorted(marks):
        if groups and x - groups[-1][0][0] <= near:
            groups[-1].append((x, number))
        else:
            groups.append([(x, number)])
    for group in groups:
        first, last = group[0][1], group[-1][1]
        yield group[0][0], f"{first}" if first == last else f"{first}{', ' if last == first + 1 else '–'}{last}"
