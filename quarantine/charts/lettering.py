"""Text in pictures: names and reasons come from outside, have any length, and must be read in what room there is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import matplotlib as mpl
from matplotlib.font_manager import FontProperties, get_font
from matplotlib.ft2font import LoadFlags

HINTING = "none"  # hinted letters are as wide as whole dots: a line comes out longer than it was measured
_FINE = 600  # dots per inch
_GONE = "�"  # in place of what the font has no shape for


@cache
def font(size: float, *, bold: bool = False) -> FontProperties:
    """The one that the library brings along, whatever this machine has."""
    return FontProperties(fname=_file(bold=bold), size=size)


def plain(text: str) -> str:
    """One line that the font can show: no control characters, no marks that turn its direction."""
    shapes = _shapes()
    shown = (c if c.isspace() or (c.isprintable() and ord(c) in shapes) else _GONE for c in text)
    return " ".join("".join(shown).split())


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Inches."""
    face = get_font(_file(bold=bold))
    face.set_size(size, _FINE)
    face.set_text(text, 0.0, LoadFlags.NO_HINTING)
    return face.get_width_height()[0] / 64 / _FINE  # the library counts in 64ths of a dot


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """In `room` inches: what does not fit is left out of the middle, since names differ at their ends."""
    text = plain(text)
    if width(text, size, bold=bold) <= room:
        return text
    few, many = 0, len(text)  # of the characters that are kept
    while few < many:
        middle = (few + many + 1) // 2
        if width(_without_middle(text, middle), size, bold=bold) <= room:
            few = middle
        else:
            many = middle - 1
    return _without_middle(text, few)


def wrapped(text: str, room: float, size: float, most: int) -> list[str]:
    """At most so many lines of `room` inches; what is more is cut with an ellipsis."""
    lines: list[str] = []
    left = plain(text)
    while left and len(lines) < most - 1:
        line, left = _first_line(left, room, size)
        lines.append(line)
    if left:
        line, rest = _first_line(left, room, size)
        lines.append(line if not rest else f"{_first_line(left, room - width('…', size), size)[0]}…")
    return lines


def _first_line(text: str, room: float, size: float) -> tuple[str, str]:
    """What fits, cut between words; within one where it is wider than the line."""
    if width(text, size) <= room:
        return text, ""
    few, many = 1, len(text)
    while few < many:
        middle = (few + many + 1) // 2
        if width(text[:middle], size) <= room:
            few = middle
        else:
            many = middle - 1
    space = text.rfind(" ", 0, few + 1)
    cut = space if space > few // 2 else few
    return text[:cut].rstrip(), text[cut:].lstrip()


def _without_middle(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    return f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"


@cache
def _file(*, bold: bool) -> str:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return str(Path(mpl.get_data_path(), "fonts", "ttf", name))


@cache
def _shapes() -> frozenset[int]:
    """What both faces can show."""
    plain_face, bold = (set(get_font(_file(bold=b)).get_charmap()) for b in (False, True))
    return frozenset(plain_face & bold)
