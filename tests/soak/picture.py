"""The soak as a chart: what the process held, cycle by cycle, with the line that was laid through its memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.soak.measure import Reading, slope
from tests.soak.verdict import after_warm_up

_DPI, _SIZE = 120, (9.6, 9.0)  # inches
_HEADROOM = 1.25  # above what is drawn, for the legend
_DARK, _ACCENT, _PALE = "#222222", "#b5472f", "#8a8a8a"


def draw(readings: Sequence[Reading], warm: int, file: Path) -> None:
    """Write the picture as PNG. Needs matplotlib."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
    axes = figure.subplots(4, 1, sharex=True)
    cycles = [one.cycle for one in readings]
    _memory(axes[0], readings, warm)
    axes[1].plot(cycles, [one.objects / 1000 for one in readings], color=_DARK)
    axes[1].set_ylabel("live objects, thousands")
    axes[2].plot(cycles, [one.threads for one in readings], color=_DARK, label="threads")
    axes[2].plot(cycles, [one.descriptors for one in readings], color=_ACCENT, dashes=(4, 2), label="descriptors")
    axes[2].plot(cycles, [one.sockets for one in readings], color=_PALE, dashes=(1, 1), label="sockets")
    axes[2].set_ylabel("held")
    axes[3].plot(cycles, [one.rows.get("decisions", 0) for one in readings], color=_DARK, label="decisions")
    axes[3].plot(cycles, [one.remembered for one in readings], color=_ACCENT, dashes=(4, 2), label="cases remembered")
    axes[3].set_ylabel("rows, and cases")
    axes[3].set_xlabel("cycles")
    for one in axes[1:]:
        one.set_ylim(bottom=0, top=_HEADROOM * one.get_ylim()[1])
    for one in (axes[2], axes[3]):
        one.legend(loc="upper left", frameon=False, ncols=3)
    for one in axes:
        one.axvline(warm, color=_PALE, linewidth=0.8)
        one.grid(axis="y", color="#e5e5e5", linewidth=0.6)
        one.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)


def _memory(axes: Any, readings: Sequence[Reading], warm: int) -> None:
    steady = after_warm_up(readings, warm)
    line = slope(steady, "rss")
    mean: Callable[[str], float] = lambda what: sum(getattr(one, what) for one in steady) / len(steady)  # noqa: E731
    at, height = mean("cycle"), mean("rss")
    ends = [steady[0].cycle, steady[-1].cycle]
    axes.plot([one.cycle for one in readings], [one.rss / 1024 for one in readings], color=_DARK)
    axes.plot(ends, [(height + line.per_1000 / 1000 * (x - at)) / 1024 for x in ends], color=_ACCENT, dashes=(4, 2))
    axes.set_ylabel("memory, MiB")
    axes.set_title(
        f"Memory after the warm-up: {line.per_1000:+.0f} ± {line.margin:.0f} KiB in 1,000 cycles",
        loc="left",
        fontsize=11,
    )
