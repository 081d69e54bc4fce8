"""What a call of Slack's Web API carries, read as Slack reads it, and how it says no."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

_TRUE = frozenset({"1", "true"})

Reply = dict[str, Any]


class Refusal(Exception):
    """Slack's `ok: false`, with its code. `retry_after` seconds: it is said by status 429 and a header."""

    def __init__(self, code: str, *, retry_after: int | None = None, **more: Any) -> None:
        super().__init__(code)
        self.body: Reply = {"ok": False, "error": code, **more}
        self.retry_after = retry_after


def invalid_arguments(*problems: str) -> Refusal:
    """Slack's word for arguments whose shape is wrong."""
    return Refusal("invalid_arguments", response_metadata={"messages": [f"[ERROR] {problem}" for problem in problems]})


def from_json(value: Any, code: str) -> Any:
    """Form-encoded calls carry structures as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refusal(code) from None


def flag(args: Mapping[str, Any], name: str) -> bool:
    """A boolean argument, as Slack takes them: form-encoded ones are text."""
    return str(args.get(name, "")).lower() in _TRUE


def limit_of(args: Mapping[str, Any]) -> int:
    """How many items a page may have."""
    text = str(args.get("limit", 100))
    if not text.isdecimal() or not 1 <= int(text) <= 999:
        raise Refusal("invalid_limit")
    return int(text)


def ts_of(args: Mapping[str, Any], name: str, default: str) -> int:
    """A moment given as a message's ts, in microseconds."""
    try:
        return number(str(args.get(name) or default))
    except ValueError:
        raise Refusal(f"invalid_ts_{name}") from None


def cursor_ts(cursor: str) -> int:
    """Where the next page begins."""
    try:
        kind, _, ts = base64.b64decode(cursor, validate=True).decode().partition(":")
        if kind == "next_ts":
            return number(ts)
    except ValueError:
        pass
    raise Refusal("invalid_cursor")


def number(ts: str) -> int:
    """Microseconds; floats would not tell neighbouring messages apart."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(fraction.ljust(6, "0")[:6] or 0)
