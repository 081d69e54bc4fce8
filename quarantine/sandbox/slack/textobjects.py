"""Slack's rules about text objects and plain strings, and how a shape is checked key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

TEXT_KEYS = {"plain_text": {"type", "text", "emoji"}, "mrkdwn": {"type", "text", "verbatim"}}

Problems = Iterator[str]
Check = Callable[[Any, str], Problems]


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(c > "\uffff" for c in text)


def text_problems(item: Any, at: str, limit: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> Problems:
    """What is wrong with one text object."""
    kind = item.get("type") if isinstance(item, dict) else None
    if kind not in kinds:
        yield f"must be an object of type {' or '.join(kinds)} [json-pointer:{at}]"
        return
    for key in sorted(set(item) - TEXT_KEYS[kind]):
        yield f"invalid additional property: {key} [json-pointer:{at}]"
    yield from string_problems(item.get("text"), f"{at}/text", limit)


def string_problems(text: Any, at: str, limit: int, least: int = 1) -> Problems:
    """What is wrong with a string of at most `limit` characters."""
    if not isinstance(text, str):
        yield f"must be a string [json-pointer:{at}]"
    elif units(text) < least:
        yield f"must be more than {least - 1} characters [json-pointer:{at}]"
    elif units(text) > limit:
        yield f"must be less than {limit + 1} characters [json-pointer:{at}]"


def plain(limit: int) -> Check:
    """A check of a `plain_text` object."""
    return lambda item, at: text_problems(item, at, limit, ("plain_text",))


def text(limit: int) -> Check:
    """A check of a text object of either kind."""
    return lambda item, at: text_problems(item, at, limit)


def string(limit: int, least: int = 1) -> Check:
    """A check of a string."""
    return lambda item, at: string_problems(item, at, limit, least)


def one_of(*values: str) -> Check:
    """A check of an enumeration."""

    def check(item: Any, at: str) -> Problems:
        if item not in values:
            yield f"must be one of {', '.join(values)} [json-pointer:{at}]"

    return check


def typed(kind: type) -> Check:
    """A check of a JSON type alone; a boolean is no number."""

    def check(item: Any, at: str) -> Problems:
        if not isinstance(item, kind) or (kind is int and isinstance(item, bool)):
            yield f"must be a {kind.__name__} [json-pointer:{at}]"

    return check


def shape_problems(item: Mapping[str, Any], at: str, shape: Mapping[str, Check], required: tuple[str, ...]) -> Problems:
    """What is wrong with an object of a known type; `type` itself is not looked at."""
    for key in sorted(set(item) - set(shape) - {"type"}):
        yield f"invalid additional property: {key} [json-pointer:{at}]"
    for key in required:
        if key not in item:
            yield f"missing required field: {key} [json-pointer:{at}]"
    for key, check in shape.items():
        if key in item:
            yield from check(item[key], f"{at}/{key}")
