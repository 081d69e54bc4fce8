"""Slack's rules about blocks, texts and metadata, as far as documented, with its way of naming what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from quarantine.sandbox.slack.elements import accessory_problems, actions_problems, image_problems, input_problems
from quarantine.sandbox.slack.textobjects import (
    TEXT_KEYS,
    Problems,
    plain,
    shape_problems,
    string,
    text_problems,
    typed,
    units,
)

__all__ = [
    "MAX_BLOCKS",
    "MAX_BLOCKS_TEXT",
    "MAX_TEXT",
    "metadata_problem",
    "pings_of",
    "problems_of",
    "text_of",
    "units",
    "view_problems",
]

MAX_BLOCKS = 50
MAX_VIEW_BLOCKS = 100
MAX_TEXT = 40_000
MAX_BLOCKS_TEXT = 13_000  # of all blocks together; undocumented, met in the field as msg_blocks_too_long
MAX_METADATA = 8_000

_BLOCK_KEYS = {
    "header": {"type", "text", "block_id"},
    "section": {"type", "text", "fields", "accessory", "block_id", "expand"},
    "context": {"type", "elements", "block_id"},
    "divider": {"type", "block_id"},
    "actions": {"type", "elements", "block_id"},
    "input": {"type", "label", "element", "hint", "optional", "dispatch_action", "block_id"},
    "image": {"type", "image_url", "slack_file", "alt_text", "title", "block_id"},
}
_PINGS = re.compile(r"<(?:!(?:here|channel|everyone|subteam\^)|@[UW])[^>]*>")


def problems_of(blocks: Any, most: int = MAX_BLOCKS) -> list[str]:
    """What Slack would say under `errors`; empty where it takes them."""
    if not isinstance(blocks, list):
        return ["must be an array [json-pointer:/blocks]"]
    if len(blocks) > most:
        return [f"no more than {most} items allowed [json-pointer:/blocks]"]
    found = [problem for n, block in enumerate(blocks) for problem in _block(block, f"/blocks/{n}")]
    ids = [b["block_id"] for b in blocks if isinstance(b, dict) and "block_id" in b]
    return found or (["block_id must be unique [json-pointer:/blocks]"] if len(ids) != len(set(ids)) else [])


def text_of(blocks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The kind and the text of every text object."""
    for block in blocks:
        for item in (block.get("text"), *block.get("fields", ()), *block.get("elements", ())):
            if isinstance(item, dict) and item.get("type") in TEXT_KEYS:
                yield item["type"], item["text"]


def pings_of(text: str, blocks: list[dict[str, Any]]) -> tuple[str, ...]:
    """The mentions that Slack would act on: of people, groups and whole channels."""
    marked_up = [t for kind, t in text_of(blocks) if kind == "mrkdwn"] if blocks else [text]
    return tuple(found for t in marked_up for found in _PINGS.findall(t))


def metadata_problem(metadata: Any) -> str | None:
    """Slack's error code; None where it takes it."""
    if not isinstance(metadata, dict) or set(metadata) != {"event_type", "event_payload"}:
        return "invalid_metadata_format"
    kind, payload = metadata["event_type"], metadata["event_payload"]
    if not (isinstance(kind, str) and re.fullmatch(r"[A-Za-z0-9_]{1,255}", kind) and isinstance(payload, dict)):
        return "invalid_metadata_schema"
    return "metadata_too_large" if len(json.dumps(metadata)) > MAX_METADATA else None


def view_problems(view: Any) -> list[str]:
    """What Slack would say about a modal; empty where it takes it."""
    if not isinstance(view, dict) or view.get("type") != "modal":
        return ["unsupported type [json-pointer:/view/type]"]
    shape = {
        "title": plain(24),
        "submit": plain(24),
        "close": plain(24),
        "private_metadata": string(3000, least=0),
        "callback_id": string(255, least=0),
        "external_id": string(255, least=0),
        "clear_on_close": typed(bool),
        "notify_on_close": typed(bool),
        "blocks": typed(list),
    }
    found = [*shape_problems(view, "/view", shape, ("title", "blocks"))]
    blocks = view.get("blocks", [])
    found += problems_of(blocks, MAX_VIEW_BLOCKS)
    has_input = isinstance(blocks, list) and any(isinstance(b, dict) and b.get("type") == "input" for b in blocks)
    if has_input and "submit" not in view:
        found.append("missing required field: submit [json-pointer:/view]")
    return found


def _block(block: Any, at: str) -> Problems:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in _BLOCK_KEYS:
        yield f"unsupported type: {kind} [json-pointer:{at}/type]"
        return
    for key in sorted(set(block) - _BLOCK_KEYS[kind]):
        yield f"invalid additional property: {key} [json-pointer:{at}]"
    block_id = block.get("block_id", "x")
    if not isinstance(block_id, str) or not 1 <= len(block_id) <= 255:
        yield f"must be 1 to 255 characters [json-pointer:{at}/block_id]"
    if kind in _CONTENT:
        yield from _CONTENT[kind](block, at)


def _header(block: dict[str, Any], at: str) -> Problems:
    yield from text_problems(block.get("text"), f"{at}/text", 150, kinds=("plain_text",))


def _section(block: dict[str, Any], at: str) -> Problems:
    if "text" not in block and "fields" not in block:
        yield f"missing required field: text or fields [json-pointer:{at}]"
    if "text" in block:
        yield from text_problems(block["text"], f"{at}/text", 3000)
    if "fields" in block:
        yield from _texts(block["fields"], f"{at}/fields", 2000)
    if "accessory" in block:
        yield from accessory_problems(block["accessory"], f"{at}/accessory")


def _context(block: dict[str, Any], at: str) -> Problems:
    yield from _texts(block.get("elements"), f"{at}/elements", 3000)


_CONTENT: dict[str, Callable[[dict[str, Any], str], Problems]] = {
    "header": _header,
    "section": _section,
    "context": _context,
    "actions": actions_problems,
    "input": input_problems,
    "image": image_problems,
}


def _texts(items: Any, at: str, limit: int) -> Problems:
    if not isinstance(items, list) or not items:
        yield f"must be an array of at least 1 item [json-pointer:{at}]"
        return
    if len(items) > 10:
        yield f"no more than 10 items allowed [json-pointer:{at}]"
    for n, item in enumerate(items):
        yield from text_problems(item, f"{at}/{n}", limit)
