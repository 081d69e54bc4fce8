"""Answers as Markdown, to be pasted into a ticket or a pull request: tables, lists and headings, safe to render.

What comes from outside is escaped by the rules of the tickets' own Markdown. Give plain text; it is escaped here,
unless it is `Markdown` already (a code span, say).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from quarantine.adapters.tickets.markdown import Markdown, code, escape

__all__ = ["Markdown", "bullets", "code", "escape", "heading", "listed", "table", "written"]

_BARE_PIPE = re.compile(r"(?<!\\)\|")  # ends a cell, even within a code span


def written(value: object) -> str:
    """Text as Markdown; None is empty."""
    return value if isinstance(value, Markdown) else "" if value is None else str(escape(str(value)))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a table, with the empty one that must stand behind it; nothing where there is no row."""
    found = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    if not found:
        return []
    return ["| " + " | ".join(map(_cell, heads)) + " |", "|" + " --- |" * len(heads), *found, ""]


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
