"""Text as a document of Atlassian's format (ADF): nodes, so nothing in it is markup, a link or a mention.

The format forbids empty text nodes, and line breaks in those of a paragraph: Jira answers INVALID_INPUT.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from quarantine.adapters.tickets.markdown import clean
from quarantine.core.marks import shorten

# Jira takes 32,767 characters in a text field. Whether it counts those of the text or of the document is not said, so
# the document is kept below it.
LARGEST = 32_000
_STAYS = "\u00a0"  # no-break space
_UPDATE = "[quarantine:update:{}]"


def document(text: str, *last: str) -> dict[str, object]:
    """`text` in paragraphs, whose lines keep their indents. `last`: lines that are never cut off."""
    cut = clean(text).replace("\v", "\n").replace("\f", "\n")
    while True:
        content = [*_blocks(cut), *(_paragraph([line]) for line in last)] or [_paragraph(["-"])]
        made: dict[str, object] = {"type": "doc", "version": 1, "content": content}
        size = len(json.dumps(made))
        if size <= LARGEST:
            return made
        cut = shorten(cut, len(cut) * LARGEST // size - 16)


def mark(update: str) -> str:
    """The line by which the comment of an update is known again."""
    return _UPDATE.format(update)


def last_line(node: object) -> str:
    """The text of a document's last block. Whatever somebody quotes above it does not count."""
    match node:
        case {"type": "doc", "content": [*_, last]}:
            return "".join(_texts(last))
    return ""


def _blocks(text: str) -> Iterator[dict[str, object]]:
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            lines.append(_indented(line.rstrip().expandtabs(4)))
        elif lines:
            yield _paragraph(lines)
            lines = []


def _paragraph(lines: list[str]) -> dict[str, object]:
    content: list[dict[str, object]] = []
    for line in lines:
        if content:
            content.append({"type": "hardBreak"})
        content.append({"type": "text", "text": line})
    return {"type": "paragraph", "content": content}


def _indented(line: str) -> str:
    """With spaces in front that stay. (A block of code would keep them too, and would not break long lines.)"""
    words = line.lstrip(" ")
    return _STAYS * (len(line) - len(words)) + words


def _texts(node: object) -> Iterator[str]:
    match node:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"content": list(content)}:
            for child in content:
                yield from _texts(child)
