"""The stand-in's state and its Web API methods, without HTTP: channels, messages, and who may do what."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from quarantine.sandbox.slack.arguments import Refusal, Reply, cursor_ts, flag, from_json, limit_of, number, ts_of
from quarantine.sandbox.slack.blockkit import (
    MAX_BLOCKS_TEXT,
    MAX_TEXT,
    metadata_problem,
    pings_of,
    problems_of,
    text_of,
    units,
)

ALL_SCOPES = frozenset(
    {
        *("chat:write", "channels:history", "groups:history", "channels:read"),
        *("users:read", "usergroups:read", "files:write", "commands"),
    }
)
OUR_TEAM = "T0SANDBOX"
OUR_BOT = "U0QUARANTINE"
OUR_APP = "A0SANDBOX"

Method = Callable[[Mapping[str, Any]], Reply]


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
    files: tuple[str, ...] = ()  # ids


@dataclass(frozen=True, slots=True)
class Ephemeral:
    """What one person alone was shown, and no history keeps. `thread_ts` empty: in the channel itself."""

    channel: str
    user: str
    text: str
    blocks: list[dict[str, Any]]
    pings: tuple[str, ...]
    thread_ts: str = ""


@dataclass
class Workspace:
    """One workspace with one app installed. Safe to use from several threads.

    `pace` is how long a channel takes no further message after one (Slack: about a second); None: it takes all.
    """

    token: str
    channels: Collection[str]  # ids
    now: Callable[[], datetime]
    scopes: Collection[str] = ALL_SCOPES
    not_in: Collection[str] = ()  # channels that the bot has not been invited to
    archived: Collection[str] = ()

    pace: timedelta | None = None
    app_token: str = ""  # of the app itself, for Socket Mode; empty: it has none

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._messages: list[Message] = []
        self._ephemerals: list[Ephemeral] = []
        self._posted: dict[str, datetime] = {}  # when each channel took its last message
        self._last = 0
        self._methods: dict[str, tuple[str | None, Method]] = {
            "auth.test": (None, self._auth_test),
            "chat.postMessage": ("chat:write", self._post),
            "chat.update": ("chat:write", self._update),
            "conversations.history": ("channels:history", self._history),
            "conversations.replies": ("channels:history", self._replies),
        }

    @property
    def messages(self) -> list[Message]:
        """All messages, oldest first."""
        with self._lock:
            return list(self._messages)

    @property
    def ephemerals(self) -> list[Ephemeral]:
        """All that was shown to one person alone, oldest first."""
        with self._lock:
            return list(self._ephemerals)

    def clear(self) -> None:
        """Forget the messages; times go on increasing, as after a deletion."""
        with self._lock:
            self._messages.clear()
            self._ephemerals.clear()
            self._posted.clear()

    def put_back(self, messages: Collection[Message]) -> None:
        """Messages of an earlier life of this workspace, oldest first; what is posted from now on follows them."""
        with self._lock:
            self._messages[:0] = messages

    def offer(self, methods: Mapping[str, tuple[str | None, Method]]) -> None:
        """Further methods, each with the scope that it needs. They run one at a time, as all do."""
        self._methods.update(methods)

    def call(self, method: str, token: str | None, args: Mapping[str, Any]) -> Reply:
        """One method; raises Refusal."""
        if method not in self._methods:
            raise Refusal("unknown_method", req_method=method)
        if not token:
            raise Refusal("not_authed")
        of_the_app = method == "apps.connections.open"
        if token != (self.app_token if of_the_app else self.token):
            known = token in (self.token, self.app_token)
            raise Refusal("not_allowed_token_type" if known else "invalid_auth")
        scope, run = self._methods[method]
        if scope and scope not in self.scopes:
            raise Refusal("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))
        with self._lock:
            return {"ok": True, **run(args)}

    def show(self, ephemeral: Ephemeral) -> None:
        """Show something to one person alone."""
        with self._lock:
            self._ephemerals.append(ephemeral)

    def share(self, channel: str, text: str, thread_ts: str | None, files: tuple[str, ...]) -> str:
        """The message by which files come into a channel; its ts."""
        message = Message(channel, self.next_ts(), text, [], None, thread_ts, pings_of(text, []), files=files)
        with self._lock:
            self._messages.append(message)
        return message.ts

    def message(self, channel: str, ts: str) -> Message | None:
        """The message of that name."""
        return next((m for m in self.messages if (m.channel, m.ts) == (channel, ts)), None)

    def _auth_test(self, _args: Mapping[str, Any]) -> Reply:
        return {
            "url": "https://sandbox.slack.example/",
            "team": "sandbox",
            "user": "quarantine",
            "team_id": OUR_TEAM,
            "user_id": OUR_BOT,
            "bot_id": "B0SANDBOX",
            "is_enterprise_install": False,
        }

    def _post(self, args: Mapping[str, Any]) -> Reply:
        channel = self.writable(args)
        text, blocks, metadata = content_of(args)
        if not text.strip() and not blocks:
            raise Refusal("no_text")
        self._paced(channel)
        message = Message(
            channel=channel,
            ts=self.next_ts(),
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
        channel = self.writable(args)
        text, blocks, metadata = content_of(args)
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
        channel = self.known(args)
        if channel in self.not_in:
            raise Refusal("not_in_channel")
        oldest, latest = ts_of(args, "oldest", "0"), ts_of(args, "latest", "99999999999")
        inclusive = flag(args, "inclusive")
        limit = limit_of(args)
        shown = [
            m
            for m in reversed(self._messages)
            if m.channel == channel
            and m.thread_ts in (None, m.ts)
            and (oldest < number(m.ts) < latest or (inclusive and number(m.ts) in (oldest, latest)))
        ]
        if args.get("cursor"):
            before = cursor_ts(args["cursor"])
            shown = [m for m in shown if number(m.ts) < before]
        page, more = shown[:limit], len(shown) > limit
        cursor = base64.b64encode(f"next_ts:{page[-1].ts}".encode()).decode() if more else ""
        with_metadata = flag(args, "include_all_metadata")
        return {
            "messages": [_shown(m, with_metadata=with_metadata) for m in page],
            "has_more": more,
            "pin_count": 0,
            "response_metadata": {"next_cursor": cursor},
        }

    def _replies(self, args: Mapping[str, Any]) -> Reply:
        """The message that begins a thread, and what answers it, oldest first."""
        channel = self.known(args)
        if channel in self.not_in:
            raise Refusal("not_in_channel")
        ts, limit = str(args.get("ts") or ""), limit_of(args)
        found = [m for m in self._messages if m.channel == channel and ts in (m.ts, m.thread_ts)]
        if not any(m.ts == ts for m in found):
            raise Refusal("thread_not_found")
        after = cursor_ts(args["cursor"]) if args.get("cursor") else -1
        left = [m for m in found if number(m.ts) > after]
        page, more = left[:limit], len(left) > limit
        cursor = base64.b64encode(f"next_ts:{page[-1].ts}".encode()).decode() if more else ""
        return {
            "messages": [_shown(m, with_metadata=flag(args, "include_all_metadata")) for m in page],
            "has_more": more,
            "response_metadata": {"next_cursor": cursor},
        }

    def _paced(self, channel: str) -> None:
        last, now = self._posted.get(channel), self.now()
        if self.pace is not None and last is not None and now - last < self.pace:
            raise Refusal("ratelimited", retry_after=max(1, round(self.pace.total_seconds())))
        self._posted[channel] = now

    def known(self, args: Mapping[str, Any]) -> str:
        """The channel that the arguments name."""
        channel = args.get("channel")
        if not isinstance(channel, str) or channel not in self.channels:
            raise Refusal("channel_not_found")
        return channel

    def writable(self, args: Mapping[str, Any]) -> str:
        """The channel that the arguments name, where the bot may write there."""
        channel = self.known(args)
        if channel in self.archived:
            raise Refusal("is_archived")
        if channel in self.not_in:
            raise Refusal("not_in_channel")
        return channel

    def next_ts(self) -> str:
        """Unix time in microseconds, unique and increasing in the workspace."""
        self._last = max(self._last + 1, round(self.now().timestamp() * 1_000_000))
        return f"{self._last // 1_000_000}.{self._last % 1_000_000:06d}"


def content_of(args: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]], dict[str, Any] | None]:
    """A message's text, blocks and metadata, each as Slack takes it."""
    text = args.get("text") or ""
    if units(text) > MAX_TEXT:
        raise Refusal("msg_too_long")
    blocks = from_json(args.get("blocks") or [], "invalid_blocks_format")
    if problems := problems_of(blocks):
        told = {"messages": [f"[ERROR] {problem}" for problem in problems]}
        raise Refusal("invalid_blocks", errors=problems, response_metadata=told)
    if sum(units(t) for _, t in text_of(blocks)) > MAX_BLOCKS_TEXT:
        raise Refusal("msg_blocks_too_long")
    metadata = from_json(args["metadata"], "invalid_metadata_format") if args.get("metadata") is not None else None
    if metadata is not None and (problem := metadata_problem(metadata)):
        raise Refusal(problem)
    return text, blocks, metadata


def _shown(message: Message, *, with_metadata: bool) -> Reply:
    shown: Reply = {
        "type": "message",
        "user": OUR_BOT,
        "bot_id": "B0SANDBOX",
        "ts": message.ts,
        "text": message.text,
        "blocks": message.blocks,
    }
    if message.thread_ts:
        shown["thread_ts"] = message.thread_ts
    if message.files:
        shown["files"] = [{"id": file} for file in message.files]
    if with_metadata and message.metadata is not None:
        shown["metadata"] = message.metadata
    return shown
