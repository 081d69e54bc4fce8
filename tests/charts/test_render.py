"""Pictures: whatever the trail holds can be drawn, the same each time, and nothing of it runs out of the page."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from xml.etree import ElementTree

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from quarantine import charts
from quarantine.charts import Format, lettering, render, scale
from quarantine.charts.page import MARGIN, ROOM, WIDTH
from quarantine.core.errors import UsageError
from quarantine.core.record.chart import Bound, ChartData, Panel, chart
from quarantine.core.record.marked import Mark
from quarantine.core.record.trace import Trace
from tests.core.record.lives import warming, whole
from tests.core.world import MINUTE, NOW

SVG = "{http://www.w3.org/2000/svg}"
WHITE = 250  # of 255: lighter than this is paper


def taken_out(trace: Trace | None = None, **changes: object) -> ChartData:
    rows = whole(trace)
    made = chart("node-3", rows, rows[0][1].case or "")
    assert made is not None
    return replace(made, **changes)  # type: ignore[arg-type]


def panel(*values: float, bounds: tuple[Bound, ...] = (Bound(78.0, above=True),), **changes: object) -> Panel:
    """A panel of these values, one each minute."""
    points = tuple((NOW + n * MINUTE, value) for n, value in enumerate(values))
    end = NOW + max(1, len(values)) * MINUTE
    base = Panel(
        1, "GPU 3", "said", "decision #1", "°C", NOW, NOW, end, (points,) if points else (), True, None, bounds
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def picture(made: ChartData) -> Image.Image:
    """In grey."""
    return Image.open(BytesIO(render(made, Format.PNG))).convert("L")


def inked(image: Image.Image, box: tuple[int, int, int, int]) -> bool:
    """Whether anything is drawn there."""
    return image.crop(box).getextrema()[0] < WHITE  # type: ignore[operator]


# --- What it looks like -----------------------------------------------------------------------------------------------


def test_a_png_is_as_wide_as_a_ticket_and_keeps_its_margins() -> None:
    image = picture(taken_out(warming()))
    assert image.width == 960
    assert inked(image, (0, 0, image.width, image.height))
    edge = 20
    for box in ((0, 0, edge, image.height), (image.width - edge, 0, image.width, image.height)):
        assert not inked(image, box)


def test_an_svg_is_one_and_says_its_title() -> None:
    root = ElementTree.fromstring(render(taken_out(warming()), Format.SVG))  # noqa: S314  (our own)
    assert root.tag == f"{SVG}svg"
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert "node-3: taken out 2026-11-29 12:00 UTC" in titles


def test_bound_and_signal_differ_in_grey_by_their_shapes() -> None:
    """Where the bound is, there is ink and paper by turns; a colour alone would be lost on a black printer."""
    flat = replace(taken_out(), panels=(panel(60.0, 60.0, 60.0, bounds=(Bound(78.0, above=True),)),), marks=())
    image = picture(flat)
    rows = [[image.getpixel((x, y)) < 150 for x in range(320, 900)] for y in range(image.height)]  # type: ignore[operator]
    dashed = [row for row in rows if 0.5 < sum(row) / len(row) < 0.85]
    solid = [row for row in rows if sum(row) / len(row) > 0.9]
    assert dashed, "the bound"
    assert solid, "the signal, or the axis"


@pytest.mark.parametrize("form", list(Format))
def test_the_same_chart_is_the_same_file(form: Format) -> None:
    made = taken_out(warming())
    assert render(made, form) == render(made, form)


def test_the_machines_own_settings_of_the_library_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    made = taken_out(warming())
    before = render(made, Format.PNG)
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(mpl.rcParams, "text.parse_math", True)
    assert render(made, Format.PNG) == before
    assert mpl.rcParams["lines.linewidth"] == 9.0, "and they are as they were"


def test_threads_may_draw_at_once() -> None:
    made = taken_out(warming())
    wanted, found = render(made, Format.PNG), list[bytes]()
    threads = [threading.Thread(target=lambda: found.append(render(made, Format.PNG))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 3


# --- Whatever the trail holds -----------------------------------------------------------------------------------------

HOSTILE = "n" * 120 + "-$x$_\x1b[2J<b>&\u202e漢字🔥\n" + "z" * 120


@pytest.mark.parametrize("form", list(Format))
def test_names_from_outside_are_text_and_stay_on_the_page(form: Format) -> None:
    shown = panel(80.0, 84.0, title=HOSTILE, said=HOSTILE, note=HOSTILE, tie=HOSTILE, unit="$\\frac{a}{b}$" * 9)
    marks = (Mark(NOW, 1, HOSTILE, 1), Mark(NOW + MINUTE, 2, HOSTILE, 2))
    made = ChartData(HOSTILE, HOSTILE, "taken out", HOSTILE, HOSTILE, (shown,), 3, marks, 0)
    content = render(made, form)
    if form is Format.SVG:
        ElementTree.fromstring(content)  # noqa: S314  (our own)
        assert b"\x1b" not in content
    else:
        image = picture(made)
        assert not inked(image, (image.width - 20, 0, image.width, image.height))


@pytest.mark.parametrize(
    "shown",
    [
        panel(),
        panel(bounds=()),
        panel(78.0),
        panel(0.0, 0.0, bounds=(Bound(0.0, above=False),)),
        panel(1e12, 1e12 + 1, bounds=()),
        panel(-1e12, 5e11),
        panel(1e100, -1e100),
        panel(5e-324, 0.0, bounds=()),
        panel(*(math.sin(n / 99) for n in range(10_000))),
        panel(80.0, start=NOW - timedelta(days=4000)),
        panel(80.0, since=NOW, at=NOW, end=NOW + timedelta(seconds=1)),
    ],
    ids=[
        "nothing",
        "no numbers",
        "one",
        "zeros",
        "large",
        "negative",
        "huge",
        "tiny",
        "10,000",
        "11 years",
        "a moment",
    ],
)
def test_any_numbers_can_be_drawn(shown: Panel) -> None:
    image = picture(replace(taken_out(), panels=(shown,)))
    assert image.width == 960
    assert not inked(image, (0, 0, 20, image.height)), "its numbers stay on the page"


def test_four_panels_and_the_number_of_the_rest() -> None:
    made = replace(taken_out(), panels=(panel(80.0, 81.0),) * 4, more=3)
    assert picture(made).height > picture(replace(made, panels=made.panels[:1])).height


VALUES = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)


BOUNDS = st.builds(Bound, VALUES, st.booleans(), st.booleans())


# Not shrunk: a picture costs too much for that.
@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(VALUES, max_size=8), st.lists(BOUNDS, max_size=2), st.text())
def test_any_chart_can_be_drawn(values: list[float], bounds: list[Bound], text: str) -> None:
    shown = panel(*values, bounds=tuple(bounds), title=text, unit=text, since=NOW - MINUTE)
    made = ChartData(text, text, text, text, text, (shown,), 0, (Mark(NOW, 1, text, 1),), 0)
    assert render(made, Format.PNG).startswith(b"\x89PNG")


# --- Letters and numbers ----------------------------------------------------------------------------------------------


@given(st.text(max_size=300), st.floats(0.5, ROOM), st.booleans())
def test_what_is_fitted_fits(text: str, room: float, bold: bool) -> None:
    found = lettering.fitted(text, room, 10.0, bold=bold)
    assert lettering.width(found, 10.0, bold=bold) <= room or found == "…"
    assert "\n" not in found
    assert found.isprintable()


def test_names_keep_both_their_ends() -> None:
    found = lettering.fitted("gpu-node-" + "x" * 300 + "-0042", 2.0, 10.0)
    assert found.startswith("gpu-node-")
    assert found.endswith("-0042")
    assert "…" in found


@given(st.text(max_size=400))
def test_what_is_wrapped_fits_and_loses_nothing_before_its_end(text: str) -> None:
    lines = lettering.wrapped(text, 2.0, 10.0, 2)
    assert len(lines) <= 2
    assert all(lettering.width(line, 10.0) <= 2.0 + 1e-9 for line in lines)
    told = "".join("".join(lines).removesuffix("…").split())
    assert "".join(lettering.plain(text).split()).startswith(told)


@given(st.floats(-1e100, 1e100), st.floats(1e-3, 1e6))
def test_ticks_are_told_apart(low: float, span: float) -> None:
    ends = scale.room_for((low, low + span))
    ticks, base = scale.values(*ends)
    told = [text for _, text in ticks]
    assert len(set(told)) == len(told)
    assert all(ends[0] <= value <= ends[1] for value, _ in ticks)
    assert not base or all(text.startswith("+") for text in told)


@given(st.integers(0, 4 * 10**9), st.integers(1, 4 * 10**8))
def test_times_are_few_round_and_in_order(seconds: int, span: int) -> None:
    start = NOW - timedelta(seconds=seconds % 10**9)
    times = scale.times(start, start + timedelta(seconds=span))
    assert len(times) <= scale.MOST_TIMES + 1
    assert [at for at, _ in times] == sorted(at for at, _ in times)
    assert all(start <= at <= start + timedelta(seconds=span) for at, _ in times)


def test_the_page_has_room_for_two_columns() -> None:
    assert MARGIN * 2 + ROOM == WIDTH


# --- Without the library ----------------------------------------------------------------------------------------------


def test_without_the_library_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'quarantine\[charts\]'"):
        charts.require()


def test_the_library_is_loaded_by_the_first_picture_only() -> None:
    code = "import sys, quarantine.cli.main, quarantine.charts; print('matplotlib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
