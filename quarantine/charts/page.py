"""A picture from its top to its bottom: a page of a fixed width on which text and plots take their places."""

from __future__ import annotations

from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from quarantine.charts.lettering import font

WIDTH = 8.0  # inches
MARGIN = 0.3
PLOT_LEFT, PLOT_RIGHT = 1.0, 0.3  # what a plot leaves free at its sides
ROOM = WIDTH - 2 * MARGIN

INK, FAINT, GRID = "#1f2933", "#52606d", "#d9dee4"


@dataclass(frozen=True, slots=True)
class _Text:
    x: float  # inches from the left
    top: float  # inches from the page's top
    text: str
    size: float
    bold: bool
    faint: bool


@dataclass(slots=True)
class Page:
    """What is on it is collected first, since its height follows from it."""

    height: float = MARGIN  # inches so far
    _texts: list[_Text] = field(default_factory=list)
    _plots: list[tuple[float, float]] = field(default_factory=list)

    def line(self, text: str, size: float, *, bold: bool = False, faint: bool = False) -> None:
        """A line of text across the page."""
        self.put(MARGIN, text, size, bold=bold, faint=faint)
        self.feed(size)

    def put(self, x: float, text: str, size: float, *, bold: bool = False, faint: bool = False) -> None:
        """Text from `x` inches on; the next one may stand beside it."""
        self._texts.append(_Text(x, self.height, text, size, bold, faint))

    def feed(self, size: float) -> None:
        """Down by a line of this size."""
        self.height += size / 72 * 1.45

    def space(self, inches: float) -> None:
        """Nothing."""
        self.height += inches

    def plot(self, inches: float) -> int:
        """Room for a plot with its axis; the number by which `made` gives it back."""
        self._plots.append((self.height, inches))
        self.height += inches
        return len(self._plots) - 1

    def made(self) -> tuple[Figure, list[Axes]]:
        """The page with its texts, and its plots, which are empty."""
        height = self.height + MARGIN
        figure = Figure(figsize=(WIDTH, height), facecolor="#ffffff")
        for text in self._texts:
            figure.text(
                text.x / WIDTH,
                1 - text.top / height,
                text.text,
                va="top",
                color=FAINT if text.faint else INK,
                fontproperties=font(text.size, bold=text.bold),
                parse_math=False,
            )
        across = (WIDTH - PLOT_LEFT - PLOT_RIGHT) / WIDTH
        plots = [
            figure.add_axes((PLOT_LEFT / WIDTH, 1 - (top + inches) / height, across, inches / height))
            for top, inches in self._plots
        ]
        return figure, plots
