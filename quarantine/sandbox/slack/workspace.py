"""The stand-in's state and its Web API methods, without HTTP: channels, messages, and who may do what."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from quarantine.sandbox.slack.blockkit import (
    MAX_BLOCKS_TEXT,
    MAX_TEXT,
    metadata_problem,
    pings_of,
    problems_of,
    text_of,
    units,
)

ALL_SCOPES = frozenset({"chat:write", "channels:history", "groups:history"})
_TRUE = frozenset({"1", "true"})

Reply = dict[str, Any]


class Refusal(Exception):
    """Slack's `ok: false`, with its code."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.body: Reply = {"ok": False, "error": code, **more}


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was taken. `pings` are the mentions in it that would have called somebody."""

    channel: str
    ts: str
    text: str
    blocks: list[dict[str, Any]]
    metadata: dict[str, Any] | None
    thread_ts: str | None
    pings: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)  # unfurl_links, parse and their like, as sent
    edited: bool = False


@dataclass
class Workspace:
    """One workspace with one app installed. Safe to use from several threads."""

    token: str
    channels: Collection[str]  # ids
    now: Callable[[], datetime]
    scopes: Collection[str] = ALL_SCOPES
    not_in: Collection[str] = ()  # channels that the bot has not been invited to
    archived: Collection[str] = ()

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._last = 0

    @property
    def messages(self) -> list[Message]:
        """All messages, oldest first."""
        with self._lock:
            return list(self._messages)

    def clear(self) -> None:
        """Forget the messages; times go on increasing, as after a deletion."""
        with self._lock:
            self._messages.clear()

    def call(self, method: str, token: str | None, args: Mapping[str, Any]) -> Reply:
        """One method; raises Refusal."""
        implemented = {
            "auth.test": (None, self._auth_test),
            "chat.postMessage": ("chat:write", self._post),
            "chat.update": ("chat:write", self._update),
            "conversations.history": ("channels:history", self._history),
        }
        if method not in implemented:
            raise Refusal("unknown_method", req_method=method)
        if not token:
            raise Refusal("not_authed")
        if token != self.token:
            raise Refusal("invalid_auth")
        scope, run = implemented[method]
        if scope and scope not in self.scopes:
            raise Refusal("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))
        with self._lock:
            return {"ok": True, **run(args)}

    def _auth_test(self, _args: Mapping[str, Any]) -> Reply:
        return {"url": "https://sandbox.slack.example/", "team": "sandbox", "user": "quarantine", "bot_id": "B0SANDBOX"}

    def _post(self, args: Mapping[str, Any]) -> Reply:
        channel = self._writable(args)
        text, blocks, metadata = _content(args)
        if not text.strip() and not blocks:
            raise Refusal("no_text")
        message = Message(
            channel=channel,
            ts=self._next_ts(),
            text=text,
            blocks=blocks,
            metadata=metadata,
            thread_ts=args.get("thread_ts"),
            pings=pings_of(text, blocks),
            options={k: v for k, v in args.items() if k not in ("channel", "text", "blocks", "metadata", "token")},
        )
        self._messages.append(message)
        return {"channel": channel, "ts": message.ts, "message": _shown(message, with_metadata=True)}

    def _update(self, args: Mapping[str, Any]) -> Reply:
        channel = self._writable(args)
        text, blocks, metadata = _content(args)
        wanted = (channel, args.get("ts"))
        place = next((n for n, m in enumerate(self._messages) if (m.channel, m.ts) == wanted), None)
        if place is None:
            raise Refusal("message_not_found")
        message = self._messages[place]
        changed = replace(
            message,
            text=text or message.text,
            blocks=blocks if "blocks" in args else message.blocks,
            metadata=metadata if "metadata" in args else message.metadata,
            pings=pings_of(text, blocks),
            edited=True,
        )
        self._messages[place] = changed
        return {"channel": channel, "ts": changed.ts, "text": changed.text}

    def _history(self, args: Mapping[str, Any]) -> Reply:
        channel = self._known(args)
        if channel in self.not_in:
            raise Refusal("not_in_channel")
        oldest, latest = _ts(args, "oldest", "0"), _ts(args, "latest", "99999999999")
        inclusive = _flag(args, "inclusive")
        limit = _limit(args)
        shown = [
            m
            for m in reversed(self._messages)
            if m.channel == channel
            and m.thread_ts in (None, m.ts)
            and (oldest < _number(m.ts) < latest or (inclusive and _number(m.ts) in (oldest, latest)))
        ]
        if args.get("cursor"):
            before = _cursor_ts(args["cursor"])
            shown = [m for m in shown if _number(m.ts) < before]
        page, more = shown[:limit], len(shown) > limit
        cursor = base64.b64encode(f"next_ts:{page[-1].ts}".encode()).decode() if more else ""
        with_metadata = _flag(args, "include_all_metadata")
        return {
            "messages": [_shown(m, with_metadata=with_metadata) for m in page],
            "has_more": more,
            "pin_count": 0,
            "response_metadata": {"next_cursor": cursor},
        }

    def _known(self, args: Mapping[str, Any]) -> str:
        channel = args.get("channel")
        if not isinstance(channel, str) or channel not in self.channels:
            raise Refusal("channel_not_found")
        return channel

    def _writable(self, args: Mapping[str, Any]) -> str:
        channel = self._known(args)
        if channel in self.archived:
            raise Refusal("is_archived")
        if channel in self.not_in:
            raise Refusal("not_in_channel")
        return channel

    def _next_ts(self) -> str:
        """Unix time in microseconds, unique and increasing in the workspace."""
        self._last = max(self._last + 1, round(self.now().timestamp() * 1_000_000))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"


def _content(args: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]], dict[str, Any] | None]:
    text = args.get("text") or ""
    if units(text) > MAX_TEXT:
        raise Refusal("msg_too_long")
    blocks = _json(args.get("blocks") or [], "invalid_blocks_format")
    if problems := problems_of(blocks):
        told = {"messages": [f"[ERROR] {problem}" for problem in problems]}
        raise Refusal("invalid_blocks", errors=problems, response_metadata=told)
    if sum(units(t) for _, t in text_of(blocks)) > MAX_BLOCKS_TEXT:
        raise Refusal("msg_blocks_too_long")
    metadata = _json(args["metadata"], "invalid_metadata_format") if args.get("metadata") is not None else None
    if metadata is not None and (problem := metadata_problem(metadata)):
        raise Refusal(problem)
    return text, blocks, metadata


def _json(value: Any, code: str) -> Any:
    """Form-encoded calls carry structures as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refusal(code) from None


def _shown(message: Message, *, with_metadata: bool) -> Reply:
    shown: Reply = {
        "type": "message",
        "user": "U0QUARANTINE",
        "bot_id": "B0SANDBOX",
        "ts": message.ts,
        "text": message.text,
        "blocks": message.blocks,
    }
    if message.thread_ts:
        shown["thread_ts"] = message.thread_ts
    if with_metadata and message.metadata is not None:
        shown["metadata"] = message.metadata
    return shown


def _flag(args: Mapping[str, Any], name: str) -> bool:
    return str(args.get(name, "")).lower() in _TRUE


def _limit(args: Mapping[str, Any]) -> int:
    text = str(args.get("limit", 100))
    if not text.isdecimal() or not 1 <= int(text) <= 999:
        raise Refusal("invalid_limit")
    return int(text)


def _ts(args: Mapping[str, Any], name: str, default: str) -> int:
    try:
        return _number(str(args.get(name) or default))
    except ValueError:
        raise Refusal(f"invalid_ts_{name}") from None


def _cursor_ts(cursor: str) -> int:
    try:
        kind, _, ts = base64.b64decode(cursor, validate=True).decode().partition(":")
        if kind == "next_ts":
            return _number(ts)
    except ValueError:
        pass
    raise Refusal("invalid_cursor")


def _number(ts: str) -> int:
    """Microseconds; floats would not tell neighbouring messages apart."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(fraction.ljust(6, "0")[:6] or 0)
