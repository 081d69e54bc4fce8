"""Slack's rules about interactive elements and the blocks that hold them, as far as documented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarantine.sandbox.slack.textobjects import (
    Check,
    Problems,
    one_of,
    plain,
    shape_problems,
    string,
    text,
    typed,
)

MAX_BUTTON_VALUE = 2000
MAX_ACTION_ID = 255

_CONFIRM: Mapping[str, Check] = {
    "title": plain(100),
    "text": text(300),
    "confirm": plain(30),
    "deny": plain(30),
    "style": one_of("primary", "danger"),
}
_OPTION: Mapping[str, Check] = {"text": text(75), "value": string(150), "description": text(75)}
_SLACK_FILE: Mapping[str, Check] = {"id": string(255), "url": string(3000)}


def _confirm(item: Any, at: str) -> Problems:
    if not isinstance(item, dict):
        yield f"must be an object [json-pointer:{at}]"
        return
    yield from shape_problems(item, at, _CONFIRM, ("title", "text", "confirm", "deny"))


def _option(item: Any, at: str) -> Problems:
    if not isinstance(item, dict):
        yield f"must be an object [json-pointer:{at}]"
        return
    yield from shape_problems(item, at, _OPTION, ("text", "value"))


def _options(limit: int) -> Check:
    def check(items: Any, at: str) -> Problems:
        if not isinstance(items, list) or not 1 <= len(items) <= limit:
            yield f"must be an array of 1 to {limit} items [json-pointer:{at}]"
            return
        for n, item in enumerate(items):
            yield from _option(item, f"{at}/{n}")

    return check


def _slack_file(item: Any, at: str) -> Problems:
    if not isinstance(item, dict) or len(item) != 1:
        yield f"must have exactly one of id and url [json-pointer:{at}]"
        return
    yield from shape_problems(item, at, _SLACK_FILE, ())


_ACTION_ID: Mapping[str, Check] = {"action_id": string(MAX_ACTION_ID), "confirm": _confirm}
_SHAPES: Mapping[str, tuple[Mapping[str, Check], tuple[str, ...]]] = {
    "button": (
        {
            **_ACTION_ID,
            "text": plain(75),
            "value": string(MAX_BUTTON_VALUE, least=0),
            "url": string(3000),
            "style": one_of("primary", "danger"),
            "accessibility_label": string(75),
        },
        ("text",),
    ),
    "static_select": (
        {
            **_ACTION_ID,
            "options": _options(100),
            "initial_option": _option,
            "placeholder": plain(150),
            "focus_on_load": typed(bool),
        },
        ("options",),
    ),
    "radio_buttons": (
        {**_ACTION_ID, "options": _options(10), "initial_option": _option, "focus_on_load": typed(bool)},
        ("options",),
    ),
    "plain_text_input": (
        {
            "action_id": string(MAX_ACTION_ID),
            "initial_value": string(3000, least=0),
            "multiline": typed(bool),
            "min_length": typed(int),
            "max_length": typed(int),
            "placeholder": plain(150),
            "focus_on_load": typed(bool),
        },
        (),
    ),
    "image": (
        {"image_url": string(3000), "slack_file": _slack_file, "alt_text": string(2000)},
        ("alt_text",),
    ),
}
_IN_ACTIONS = ("button", "static_select", "radio_buttons")
_IN_INPUT = ("plain_text_input", "static_select", "radio_buttons")
_IN_SECTION = ("button", "static_select", "radio_buttons", "image")


def accessory_problems(item: Any, at: str) -> Problems:
    """Of the element beside a section's text."""
    yield from _element(item, at, _IN_SECTION)


def actions_problems(block: dict[str, Any], at: str) -> Problems:
    """Of an `actions` block: 1 to 25 elements, each with its own action id."""
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= 25:
        yield f"must be an array of 1 to 25 items [json-pointer:{at}/elements]"
        return
    for n, element in enumerate(elements):
        yield from _element(element, f"{at}/elements/{n}", _IN_ACTIONS)
    ids = [e["action_id"] for e in elements if isinstance(e, dict) and "action_id" in e]
    if len(ids) != len({str(i) for i in ids}):
        yield f"action_id must be unique [json-pointer:{at}/elements]"


def input_problems(block: dict[str, Any], at: str) -> Problems:
    """Of an `input` block."""
    shape: Mapping[str, Check] = {
        "label": plain(2000),
        "element": lambda item, where: _element(item, where, _IN_INPUT),
        "hint": plain(2000),
        "optional": typed(bool),
        "dispatch_action": typed(bool),
        "block_id": string(255),
    }
    yield from shape_problems(block, at, shape, ("label", "element"))


def image_problems(block: dict[str, Any], at: str) -> Problems:
    """Of an `image` block: a URL that everybody may read, or a file of the workspace."""
    shape, required = _SHAPES["image"]
    yield from shape_problems(block, at, {**shape, "title": plain(2000), "block_id": string(255)}, required)
    if ("image_url" in block) == ("slack_file" in block):
        yield f"must have exactly one of image_url and slack_file [json-pointer:{at}]"


def _element(item: Any, at: str, kinds: tuple[str, ...]) -> Problems:
    kind = item.get("type") if isinstance(item, dict) else None
    if kind not in kinds:
        yield f"unsupported type: {kind} [json-pointer:{at}/type]"
        return
    shape, required = _SHAPES[kind]
    yield from shape_problems(item, at, shape, required)
