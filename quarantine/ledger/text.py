"""Text of any kind as the columns of both databases can hold it: no NUL, no lone surrogate, bounded where indexed.

Postgres refuses NUL and what is no UTF-8, and a label or a person's reason may hold either. Bodies are ASCII JSON and
need none of this; columns beside them are projections for people and for SQL.
"""

from __future__ import annotations

import hashlib
import re

NAME = 400  # characters of what is indexed: a B-tree entry of Postgres ends at about 2,700 bytes
SENTENCE = 2000  # characters of what is only read

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_ESCAPABLE = re.compile(r"[\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(\\|u[0-9a-f]{4})")
_DIGEST = 16


def escape(text: str) -> str:
    r"""Storable, and reversible: a backslash becomes two, NUL and lone surrogates become `\uXXXX`."""
    return _ESCAPABLE.sub(lambda m: "\\\\" if m[0] == "\\" else f"\\u{ord(m[0]):04x}", text)


def unescape(text: str) -> str:
    """What `escape` was given."""
    return _ESCAPED.sub(lambda m: "\\" if m[1] == "\\" else chr(int(m[1][1:], 16)), text)


def original(stored: str) -> str:
    """What a key stands for; one that somebody else wrote, and that is no form of ours, stands for itself."""
    found = unescape(stored)
    return found if fit(found) == stored else stored


def fit(text: str, limit: int = NAME) -> str:
    """Escaped and at most `limit` characters; what is cut ends in a digest, so that two long names stay two."""
    if len(text) <= limit and text.isascii() and "\\" not in text and "\x00" not in text:
        return text  # nearly always, and called a dozen times for every row that is written or verified
    stored = escape(text)
    if len(stored) <= limit:
        return stored
    digest = hashlib.sha256(stored.encode()).hexdigest()[:_DIGEST]
    return f"{stored[: limit - _DIGEST - 1]}~{digest}"


def stored_as(key: str) -> tuple[str, ...]:
    """Every form in which a key may stand in a table: ours, and where somebody else wrote it, itself (`original`)."""
    ours = fit(key)
    return (ours,) if ours == key or storable(key) != key else (ours, key)


def storable(text: str) -> str:
    """`text` itself, letter for letter, unless a database would refuse it: then escaped."""
    return escape(text) if _UNSTORABLE.search(text) else text
