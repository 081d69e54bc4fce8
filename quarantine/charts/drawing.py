"""The picture: for each finding the signal around its moment, and beneath them in words what was done.

Told by shapes before colours, so that it can be read in grey: the bound is dashed, what is beyond it has filled dots,
the trigger's window is shaded, and what was done is numbered.
"""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import matplotlib as mpl
from matplotlib.figure import Figure

from quarantine.charts import panel
from quarantine.charts.lettering import HINTING, fitted, plain, width, wrapped
from quarantine.charts.page import MARGIN, ROOM, Page
from quarantine.core.record.chart import ChartData, Panel

_DPI = 120
_TITLE, _TEXT, _SMALL = 13.0, 10.0, 8.5  # points
_PLOT = {0: 0.0, 1: 2.3, 2: 1.8}  # inches, by how many there are
_MANY = 1.5
_COLUMNS, _NUMBER, _BETWEEN = 2, 0.3, 0.1  # of what was done; inches for a number, and between two columns
# The library's settings are global to the process, and a file of the machine may change them: here they are its own.
_LOCK = threading.Lock()
# Where its cache cannot be written, as in a container, it makes one elsewhere and says so: that concerns nobody.
logging.getLogger("matplotlib").setLevel(logging.ERROR)


def drawn(chart: ChartData, form: str) -> bytes:
    """The chart as a file of this form; without anything that differs from one time to the next."""
    out = io.BytesIO()
    with _LOCK, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "quarantine"
        mpl.rcParams["text.parse_math"] = False
        mpl.rcParams["text.hinting"] = HINTING
        unsaid = {"Software": None} if form == "png" else {"Date": None, "Creator": None, "Title": _heading(chart)}
        _figure(chart).savefig(out, format=form, dpi=_DPI, metadata=unsaid)
    return out.getvalue()


def _heading(chart: ChartData) -> str:
    said = plain(f": {chart.title}")
    return fitted(chart.node, ROOM - width(said, _TITLE, bold=True), _TITLE, bold=True) + said


def _figure(chart: ChartData) -> Figure:
    page = Page()
    page.line(_heading(chart), _TITLE, bold=True)
    for line in wrapped(chart.reason, ROOM, _TEXT, 2):
        page.line(line, _TEXT)
    if chart.measured:
        page.line(fitted(plain(chart.measured), ROOM, _SMALL + 0.5), _SMALL + 0.5, faint=True)
    plots = [(shown, _place(page, shown, len(chart.panels))) for shown in chart.panels]
    _beneath(page, chart)
    figure, axes = page.made()
    for shown, number in plots:
        if number is not None:
            panel.draw(axes[number], shown, chart.marks)
    return figure


def _place(page: Page, shown: Panel, count: int) -> int | None:
    """A panel's words and room for its plot; None where there is nothing to plot."""
    page.space(0.12)
    page.line(fitted(shown.title, ROOM, _TEXT, bold=True), _TEXT, bold=True)
    for text in filter(None, (shown.said, shown.note)):
        page.line(fitted(text, ROOM, _SMALL + 0.5), _SMALL + 0.5, faint=True)
    if not shown.values:
        return None
    page.space(0.28)
    number = page.plot(_PLOT.get(count, _MANY))
    page.space(0.42)
    return number


def _beneath(page: Page, chart: ChartData) -> None:
    page.space(0.06)
    if chart.more:
        page.line(f"{chart.more} more finding{'' if chart.more == 1 else 's'} without a picture", _TEXT)
    cells = list(_told(chart))
    rows = -(-len(cells) // _COLUMNS)  # read downwards, as the numbers go
    for row in range(rows):
        for column, (number, text) in enumerate(cells[row::rows]):
            left = MARGIN + column * ROOM / _COLUMNS
            page.put(left, number, _TEXT, bold=True)
            page.put(left + _NUMBER, text, _TEXT)
        page.feed(_TEXT)
    page.space(0.08)
    for shown in chart.panels:
        page.line(fitted(shown.tie, ROOM, _SMALL), _SMALL, faint=True)
    case = f"case {chart.case} · " if chart.case else ""
    page.line(fitted(f"{case}times in UTC · drawn from the trail", ROOM, _SMALL), _SMALL, faint=True)


def _told(chart: ChartData) -> Iterator[tuple[str, str]]:
    room = ROOM / _COLUMNS - _NUMBER - _BETWEEN
    day = chart.marks[0].at.date() if chart.marks else None
    for before, mark in zip((None, *chart.marks), chart.marks, strict=False):
        if before is not None and mark.number > before.number + 1:
            yield "…", f"{chart.left_out} more"
        when = f"{mark.at:%H:%M:%S}" if mark.at.date() == day else f"{mark.at:%Y-%m-%d %H:%M}"
        yield str(mark.number), fitted(f"{when} {mark.text}", room, _TEXT)
