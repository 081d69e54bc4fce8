"""Charts of cases, drawn from the trail: what was measured, its bound, the trigger's window and what was done.

`render` turns `core.record.chart.ChartData` into PNG or SVG. The library that draws is an extra of this package and is
imported at the first picture: it costs half a second, and most commands draw nothing.
"""

from __future__ import annotations

from enum import StrEnum

from quarantine.core.errors import UsageError
from quarantine.core.record.chart import ChartData

WANTED = "charts need matplotlib, which is not installed here: pip install 'quarantine[charts]'"


class Format(StrEnum):
    """What a picture is written as; also the suffix of its file."""

    PNG = "png"
    SVG = "svg"


def render(chart: ChartData, form: Format) -> bytes:
    """The picture, the same bytes for the same chart and the same release of the library; 960 pixels wide as PNG.

    Threads may draw at once; they take turns. Raises UsageError where the library is not installed.
    """
    require()
    from quarantine.charts.drawing import drawn

    return drawn(chart, form.value)


def require() -> None:
    """Raise UsageError, in a sentence that says what to install, where nothing can be drawn."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError:
        raise UsageError(WANTED) from None
