"""Whether the columns beside a body say what it says: exactly, and for nearly every row quickly.

The quick way only ever accepts. msgspec takes the dozen values out of the text without building the rest of it (a tenth
of the time), and they must be the columns to the letter. It refuses lone surrogates, and what `text.fit` changes is not
equal or is sent on: there the exact way has the last word, which parses with `json` and projects as the writer does.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from quarantine.ledger.atoms import parse_time
from quarantine.ledger.text import NAME, SENTENCE
from quarantine.ledger.trail import projected

NAMES = (
    *("kind", "action", "case_id", "node", "node_uid", "device", "pool", "policy"),
    *("verdict", "held_by", "actor", "reason"),
)
_Name = Annotated[str, Meta(max_length=NAME)]
_Sentence = Annotated[str, Meta(max_length=SENTENCE)]
_Time = Annotated[str, Meta(min_length=27, max_length=27)]  # 2026-11-29T12:00:00.000000Z


class _Machine(Struct, gc=False):
    node_uid: _Name | None = None


class _Device(Struct, gc=False):
    kind: str
    name: str


class _Record(Struct, gc=False):
    """Of a decision's text what has a column."""

    at: _Time
    kind: str
    action: str
    actor: _Name
    reason: _Sentence
    case: _Name | None = None
    node: _Name | None = None
    machine: _Machine | None = None
    device: _Device | None = None
    pool: _Name | None = None
    policy: _Name | None = None
    verdict: str | None = None
    held_by: str | None = None


_READ = Decoder(_Record).decode


def plainly_say(body: str, at: str, columns: tuple[str | None, ...]) -> bool:
    """Whether the columns `NAMES` and the time, as the database writes it, are those of the body, beyond doubt.

    False decides nothing: ask `wrong_column`.
    """
    try:
        read = _READ(body)
    except (DecodeError, RecursionError, UnicodeError):
        return False
    node_uid = None if read.machine is None else read.machine.node_uid
    device = None if read.device is None else f"{read.device.kind}:{read.device.name}"
    said = (read.kind, read.action, read.case, read.node, node_uid, device, read.pool, read.policy)
    if (*said, read.verdict, read.held_by, read.actor, read.reason) != columns:
        return False
    # A column that `text.fit` escapes has a backslash or a NUL, and these are all the ways to write them in JSON.
    if ("\\\\" in body or "\\u0000" in body or "\\u005" in body) and _escapable(columns):
        return False
    if device is not None and len(device) > NAME:
        return False
    stored = f"{read.at[:10]} {read.at[11:26]}"  # of SQLite; Postgres writes no last zeros, and the zone
    return read.at[26] == "Z" and at in (stored, f"{stored.rstrip('0').rstrip('.')}+00")


def wrong_column(body: str, at: datetime | None, columns: tuple[str | None, ...]) -> str | None:
    """The first column that does not say what the body says; `body` where that is no decision at all.

    `at`: None where the column holds no time that a decision can have.
    """
    try:
        data = json.loads(body)
        expected: dict[str, str | datetime | None] = {**projected(data), "at": parse_time(data["at"])}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "body"
    seen: dict[str, str | datetime | None] = {**dict(zip(NAMES, columns, strict=True)), "at": at}
    return next((name for name, value in expected.items() if seen[name] != value), None)


def _escapable(columns: tuple[str | None, ...]) -> bool:
    whole = "".join([text for text in columns if text is not None])
    return "\\" in whole or "\x00" in whole
