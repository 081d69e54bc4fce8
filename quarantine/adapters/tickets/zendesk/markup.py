"""Text as Zendesk takes it: HTML in which nothing from outside is markup, a link, or a placeholder to be filled in."""

from __future__ import annotations

import re
from html import escape

from quarantine.adapters.tickets.markdown import clean, inert

LONGEST = 60_000  # characters of HTML: comments have at most 64 KiB
_LIQUID = re.compile(r"(?<=\{)(?=[{%])")
_JOINER = "\u2060"  # invisible, of no width
_INDENT = re.compile(r"^ +")


def plain(text: str) -> str:
    """Text without Liquid: Zendesk fills in `{{ticket.…}}` wherever an agent, or this program, writes it."""
    return _LIQUID.sub(_JOINER, clean(text))


def html(text: str) -> str:
    """Several lines of plain text; what is too long is cut off at the end of a line."""
    lines: list[str] = []
    left = LONGEST
    for line in plain(text).split("\n"):
        made = _INDENT.sub(lambda found: "&nbsp;" * len(found[0]), escape(inert(line.rstrip())))
        left -= len(made.encode()) + len("<br>")
        if left < 0:
            lines.append("…")
            break
        lines.append(made)
    return "<br>".join(lines)
