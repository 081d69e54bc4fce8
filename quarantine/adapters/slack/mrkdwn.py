"""Text from outside, made harmless in Slack: no mention, no link, no markup, and never longer than Slack takes.

Slack's markup cannot be escaped fully: only `&`, `<` and `>` can. So names and values stand in code spans, and prose
stands in `plain_text` objects, which Slack shows as they are. Lengths are counted after escaping, as Slack does, and a
character outside the basic plane counts twice.
"""

from __future__ import annotations

import re
from typing import Any

TEXT_LIMIT = 3000
FIELD_LIMIT = 2000
HEADER_LIMIT = 150

# Control characters, line separators, lone surrogates, and direction marks that make a line read as another one.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SPACE = re.compile(r"\s+")
_SUMMONS = re.compile(r"(?<=@)(?=channel|here|everyone|group)", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_JOINER = "\u2060"  # invisible, no width
_BACKTICK = "\u02cb"  # a modifier letter that looks like one: within a code span a real one cannot be written
NONE = "–"
_LINK = re.compile(r"https?://[!#-;=?-\[\]_a-z~]+")  # no space, quote, bracket or bar that would end the link
_LONGEST_LINK = 300


def one_line(text: str) -> str:
    """Text on one line, without control characters; each becomes U+FFFD."""
    return _UNSAFE.sub("�", _SPACE.sub(" ", text)).strip()


def escape(text: str, limit: int) -> str:
    """Text that neither mentions nor links, of at most `limit` characters once escaped; an ellipsis tells of a cut."""
    pieces = [_ENTITIES.get(c, c) for c in _SUMMONS.sub(_JOINER, one_line(text))]
    if length("".join(pieces)) <= limit:
        return "".join(pieces)
    kept, room = "", limit - 1
    for piece in pieces:
        room -= length(piece)
        if room < 0:
            break
        kept += piece
    return kept + "…"


def code(text: str, limit: int) -> str:
    """A code span of at most `limit` characters that nothing breaks out of; a dash where the text is empty."""
    content = escape(text.replace("`", _BACKTICK), limit - 2)
    return f"`{content}`" if content else NONE


def length(text: str) -> int:
    """As Slack counts, on the safe side: in UTF-16 units."""
    return len(text) + sum(c > "\uffff" for c in text)


def link(url: str, label: str = "open") -> str:
    """` <url|label>`, a link as Slack writes them; empty where it is no URL of the web, or long. `label`: our word."""
    escaped = url.replace("&", "&amp;")
    return f" <{escaped}|{label}>" if len(escaped) <= _LONGEST_LINK and _LINK.fullmatch(url) else ""


def plain(text: str, limit: int) -> dict[str, Any]:
    """A text object that Slack shows as it is."""
    return {"type": "plain_text", "text": escape(text, limit) or NONE, "emoji": False}


def mrkdwn(text: str, limit: int) -> dict[str, Any]:
    """A text object of our own markup, its outside parts escaped already. `verbatim`: Slack adds no links.

    Raises ValueError where it is too long: cutting it here could cut an entity or a code span in two.
    """
    if length(text) > limit:
        raise ValueError(f"{length(text)} characters of markup where {limit} fit")
    return {"type": "mrkdwn", "text": text, "verbatim": True}
