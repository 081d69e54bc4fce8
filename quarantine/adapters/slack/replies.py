"""Replies in a message's thread: the story of its cases, with how far it was told in each reply's metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarantine.adapters.slack.mrkdwn import TEXT_LIMIT, escape, length
from quarantine.core.cards import Reply

EVENT = "quarantine_story"
CASE = "case/"  # begins the name under which a case stands in the metadata

MOST_LINES = 10  # of a reply
MOST_CASES = 40  # that a reply can tell of: what its metadata can hold
_LINE = 270
_FALLBACK = 1000


def render_reply(reply: Reply) -> tuple[str, list[dict[str, Any]]]:
    """The fallback text, and the blocks: plain text, since reasons quote names, markup and what people wrote."""
    lines = [f"• {escape(line, _LINE)}" for line in reply.lines[:MOST_LINES]]
    left_out = reply.left_out + max(0, len(reply.lines) - MOST_LINES)
    if left_out:
        lines.append(f"… and {left_out} more: see quarantine explain")
    text = "\n".join(lines)
    if length(text) > TEXT_LIMIT:
        raise ValueError(f"a reply of {length(text)} characters, and {TEXT_LIMIT} fit")
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}]
    return escape(" ".join(reply.lines[:MOST_LINES]), _FALLBACK), blocks


def metadata_of(reply: Reply, cluster: str) -> dict[str, Any]:
    """What says of a reply up to where it told the story of which case."""
    told = {f"{CASE}{case}": mark for case, mark in reply.told.items()}
    return {"event_type": EVENT, "event_payload": {"cluster": cluster, **told}}


def told_in(message: Any, cluster: str) -> Mapping[str, str]:
    """By case, up to where a message tells its story; empty where it is no reply of ours."""
    metadata = message.get("metadata") if isinstance(message, Mapping) else None
    payload = metadata.get("event_payload") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("event_type") != EVENT or not isinstance(payload, Mapping):
        return {}
    if payload.get("cluster") != cluster:
        return {}
    return {
        str(name).removeprefix(CASE): mark
        for name, mark in payload.items()
        if str(name).startswith(CASE) and isinstance(mark, str)
    }


def attached_in(message: Any) -> frozenset[str]:
    """The names of the files that a message brought: by the file's own word, and by the comment that it came with."""
    files = message.get("files") if isinstance(message, Mapping) else None
    if not isinstance(files, list) or not files:
        return frozenset()
    named = {file.get(key) for file in files if isinstance(file, Mapping) for key in ("name", "title")}
    named.add(str(message.get("text", "")).partition(":")[0])
    return frozenset(name for name in named if isinstance(name, str) and name)
