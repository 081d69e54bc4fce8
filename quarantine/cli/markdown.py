"""Answers as Markdown, to be pasted into a ticket or a pull request: tables, lists and headings, safe to render.

What comes from outside is escaped by the rules of the tickets' own Markdown, but for one thing: what a viewer would
take for a link or a mention stands in a code span here, without an invisible character in it, since people copy ids out
of an answer. Give plain text; it is escaped here, unless it is `Markdown` already (a code span, say).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from quarantine.adapters.tickets import markdown as tickets
from quarantine.adapters.tickets.markdown import Markdown, code, one_line

__all__ = ["Markdown", "bullets", "code", "escape", "heading", "listed", "table", "written"]

_BARE_PIPE = re.compile(r"(?<!\\)\|")  # ends a cell, even within a code span
# A word that a viewer would link or take for a mention, or that has an underline, which no ordinary word has: an id.
_ID = re.compile(r"[@#]\w|://|\bwww\.|\w_\w", re.IGNORECASE)
_WORD = re.compile(r"([(\[{\"'<]*)(.*?)([)\]}\"'>.,;:!?]*)", re.DOTALL)  # what stands around it is no part of it


def escape(text: str) -> Markdown:
    """Prose from outside, on one line, that renders as itself, and from which its ids are copied as they are."""
    found: list[str] = []
    plain: list[str] = []
    for word in one_line(text).split(" "):
        if _ID.search(word):
            found += [_prose(plain), _id(word)]
            plain = []
        else:
            plain.append(word)
    return Markdown(" ".join(part for part in (*found, _prose(plain)) if part))


def _prose(words: Sequence[str]) -> str:
    return tickets.escape(" ".join(words))


def _id(word: str) -> str:
    around = _WORD.fullmatch(word)
    before, inner, behind = around.groups() if around is not None else ("", word, "")
    return f"{tickets.escape(before)}{code(inner)}{tickets.escape(behind)}"


def written(value: object) -> str:
    """Text as Markdown; None is empty."""
    return value if isinstance(value, Markdown) else "" if value is None else str(escape(str(value)))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: int | None = None) -> list[str]:
    """Lines of a table, with the empty one that must stand behind it; nothing where there is no row.

    Columns from `numbers` on are of numbers: they end at one line.
    """
    found = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    if not found:
        return []
    words = len(heads) if numbers is None else numbers
    ruled = " --- |" * words + " ---: |" * (len(heads) - words)
    return ["| " + " | ".join(map(_cell, heads)) + " |", f"|{ruled}", *found, ""]


def heading(text: object, level: int = 3) -> list[str]:
    """A heading with the empty line behind it. It begins no document of its own, so it is no first level."""
    return [f"{'#' * level} {written(text)}", ""]


def bullets(items: Iterable[object], depth: int = 0) -> list[str]:
    """Items of a list; the empty line behind the whole list is the caller's."""
    return [f"{'  ' * depth}- {written(item)}" for item in items]


def listed(title: object, items: Sequence[object]) -> list[str]:
    """A title and a list beneath it; nothing where there is no item."""
    return [written(title), "", *bullets(items), ""] if items else []


def _cell(value: object) -> str:
    return _BARE_PIPE.sub(r"\\|", written(value))
