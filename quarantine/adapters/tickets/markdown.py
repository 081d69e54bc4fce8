"""Text from outside, made harmless in Markdown (CommonMark and GitHub's).

Node names, labels, queries and reasons come from machines and people we do not control: none may become a link, a
mention, HTML or a heading. In the templates every substituted value is escaped unless one of the filters here has
made it a code span or a code block, out of which nothing can break.
"""

from __future__ import annotations

import re

# Control characters (C0, C1, DEL), line separators, lone surrogates, and the bidirectional marks that make a line read
# as another one. Ordinary white space is left to the callers.
_UNSAFE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SPACE = re.compile(r"\s+")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ACTIVE = re.compile(r"[\\`*_\[\]|~$!#{}]")
_LINE_START = re.compile(r"^(?:[-+=:]|\d{1,9}[.)])")
# What viewers turn into mentions and links after the markup was read, so that no escape of the markup helps: `@team`,
# `#12`, `http://`, `www.`. A word joiner (invisible, no width) inside keeps them text.
_SUMMONS = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=\bwww)(?=\.)", re.IGNORECASE)
_JOINER = "\u2060"
_RUNS = re.compile(r"`+")
_NONE = "–"
_LANGUAGE = re.compile(r"[A-Za-z0-9_+-]*")


class Markdown(str):
    """Text that is Markdown already: not escaped again."""

    __slots__ = ()


def clean(text: str) -> str:
    """Text without control characters, lone surrogates and direction marks; each becomes U+FFFD. Newlines stay."""
    return _UNSAFE.sub("�", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """Cleaned, and on one line."""
    return _SPACE.sub(" ", clean(_SPACE.sub(" ", text))).strip()


def inert(text: str) -> str:
    """The text, which looks as before, and in which no viewer finds a link or a mention by itself."""
    return _SUMMONS.sub(_JOINER, text)


def escape(text: str) -> Markdown:
    """Prose from outside, on one line, that renders as itself: no markup, no HTML, no link, no mention."""
    safe = inert(one_line(text))
    safe = "".join(_ENTITIES.get(c, c) for c in safe)
    safe = _ACTIVE.sub(lambda found: "\\" + found[0], safe)
    return Markdown(_LINE_START.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", safe))


def code(text: str) -> Markdown:
    """A code span with exactly this text, on one line; a dash where it is empty."""
    content = one_line(text)
    if not content:
        return Markdown(_NONE)
    fence = "`" * (_longest_run(content) + 1)
    pad = " " if content.startswith("`") or content.endswith("`") else ""
    return Markdown(f"{fence}{pad}{content}{pad}{fence}")


def code_block(text: str, language: str = "") -> Markdown:
    """A fenced block with exactly these lines. It must start at the beginning of a line of the template.

    Raises ValueError where `language` is no name of one: it is not escaped.
    """
    if not _LANGUAGE.fullmatch(language):
        raise ValueError("the language of a code block must be a word")
    content = clean(text).strip("\n")
    fence = "`" * max(3, _longest_run(content) + 1)
    return Markdown(f"{fence}{language}\n{content}\n{fence}")


def finalize(value: object) -> str:
    """What Jinja puts in place of `{{ value }}`: escaped, unless it is Markdown already."""
    return value if isinstance(value, Markdown) else escape(str(value))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _RUNS.findall(text)), default=0)
