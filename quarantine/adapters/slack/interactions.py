"""What Slack says that somebody did: a click, a form sent off, a command. Read strictly; all else is `Nothing`.

A button carries what it is about in its value, `{"case": "q-7f3a2b1c05", "node": "gpu-017"}`, and what it asks in its
`action_id`, `quarantine.approve` and so on (see `buttons`). A form carries both, and the message whose button opened
it. Whoever may send us payloads is Slack; whoever clicked is checked elsewhere (`people`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from quarantine.adapters.slack.people import Member
from quarantine.core.decision import LONGEST_REASON, Request, RequestKind
from quarantine.core.marks import shorten

PREFIX = "quarantine."  # of action ids and callback ids
LONGEST_PAYLOAD = 1_000_000  # characters: a message of 50 blocks comes with every click on it
INTERACTIVE, COMMANDS = "interactive", "slash_commands"

_Id = Annotated[str, Meta(pattern=r"\A[A-Z][A-Z0-9]{1,31}\Z")]
_Ts = Annotated[str, Meta(pattern=r"\A[0-9]{1,12}\.[0-9]{1,9}\Z")]
_Case = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")]
_Node = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\Z")]
_Token = Annotated[str, Meta(min_length=1, max_length=500)]
_Text = Annotated[str, Meta(max_length=LONGEST_REASON)]


class Word(StrEnum):
    """What a button says, after `PREFIX`."""

    APPROVE = "approve"
    DEFER = "defer"
    DISMISS = "dismiss"
    EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True)
class Person:
    """Who did it, by Slack's word. `team`: their own, which in a shared channel may be another's."""

    id: str
    team: str


@dataclass(frozen=True, slots=True)
class About:
    """What a button or a form is about: the case, its node, and the message that told of them."""

    case: str
    node: str
    channel: str
    ts: str


@dataclass(frozen=True, slots=True)
class Click:
    """A button was clicked."""

    word: Word
    about: About
    person: Person
    trigger: str  # opens a form within three seconds
    occasion: str  # of this click and no other, however often it is delivered


@dataclass(frozen=True, slots=True)
class Form:
    """A form was sent off: why, and for how long."""

    word: Word
    about: About
    person: Person
    reason: str
    wait: timedelta | None
    occasion: str


@dataclass(frozen=True, slots=True)
class Slash:
    """A command was typed. `reply`: the URL that takes its answer for half an hour."""

    text: str
    person: Person
    channel: str
    reply: str
    occasion: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """It is none of ours, or cannot be read; and why, for the log."""

    why: str


Said = Click | Form | Slash | Nothing

WAITS: Mapping[str, timedelta] = {"4h": timedelta(hours=4), "24h": timedelta(hours=24)}


def parse(kind: str, payload: object) -> Said:
    """What was done. `kind` is the envelope's type. Never raises."""
    try:
        if kind == COMMANDS:
            return _slash(msgspec.convert(payload, _Command))
        if kind != INTERACTIVE:
            return Nothing(f"an envelope of type {kind[:40]!r} is none of ours")
        match msgspec.convert(payload, _Kind).type:
            case "block_actions":
                return _click(msgspec.convert(payload, _BlockActions))
            case "view_submission":
                return _form(msgspec.convert(payload, _Submission))
            case other:
                return Nothing(f"an interaction of type {other[:40]!r} is none of ours")
    # A lone surrogate or a number without end makes the decoder say so by other errors than its own.
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Nothing(f"it cannot be read: {str(error)[:200]}")


def requested(
    said: Click | Form, member: Member, now: datetime, *, kind: RequestKind, until: datetime | None = None
) -> Request:
    """The request that it becomes. Delivered twice it is the same one, by its id."""
    about = said.about
    reason = said.reason if isinstance(said, Form) else ""
    if said.word is Word.DISMISS:
        reason = shorten(f"false alarm: {reason}", LONGEST_REASON)  # to the core it is a release as any other
    return Request(
        id=request_id(about.case, kind, member.id, about.channel, about.ts, said.occasion),
        kind=kind,
        node=about.node,
        reason=reason,
        actor=member.actor,
        channel="slack",
        at=now,
        until=until,
        case=about.case,
        groups=member.groups,
    )


def request_id(*seed: str) -> str:
    """An id that the same act always has."""
    return f"slack-{hashlib.sha256('|'.join(seed).encode()).hexdigest()[:32]}"


# --- Shapes: what is not named is not looked at -----------------------------------------------------------------------


class _Kind(Struct):
    type: Annotated[str, Meta(max_length=80)]


class _User(Struct):
    id: _Id
    team_id: _Id


class _Container(Struct):
    channel_id: _Id
    message_ts: _Ts


class _Button(Struct):
    action_id: Annotated[str, Meta(max_length=255)]
    action_ts: _Ts
    value: Annotated[str, Meta(max_length=2000)] = ""


class _BlockActions(Struct):
    user: _User
    container: _Container
    trigger_id: _Token
    actions: Annotated[list[_Button], Meta(min_length=1, max_length=1)]


class _Value(Struct):
    case: _Case
    node: _Node


class _Meta(Struct):
    case: _Case
    node: _Node
    channel: _Id
    ts: _Ts


class _Option(Struct):
    value: Annotated[str, Meta(max_length=150)]


class _Input(Struct):
    value: _Text | None = None
    selected_option: _Option | None = None


class _State(Struct):
    values: dict[str, dict[str, _Input]]


class _View(Struct):
    id: _Id
    callback_id: Annotated[str, Meta(max_length=255)]
    private_metadata: Annotated[str, Meta(max_length=3000)]
    state: _State


class _Submission(Struct):
    user: _User
    view: _View


class _Command(Struct):
    command: Annotated[str, Meta(max_length=80)]
    text: Annotated[str, Meta(max_length=4000)]
    user_id: _Id
    team_id: _Id
    channel_id: _Id
    response_url: Annotated[str, Meta(min_length=1, max_length=2000)]
    trigger_id: _Token


def _click(told: _BlockActions) -> Click | Nothing:
    button = told.actions[0]
    word = _word(button.action_id)
    if word is None:
        return Nothing(f"a button {button.action_id[:40]!r} is none of ours")
    value = msgspec.json.decode(button.value, type=_Value)
    about = About(value.case, value.node, told.container.channel_id, told.container.message_ts)
    person = Person(told.user.id, told.user.team_id)
    return Click(word, about, person, told.trigger_id, button.action_ts)


def _form(told: _Submission) -> Form | Nothing:
    word = _word(told.view.callback_id)
    if word not in (Word.DEFER, Word.DISMISS):
        return Nothing(f"a form {told.view.callback_id[:40]!r} is none of ours")
    meta = msgspec.json.decode(told.view.private_metadata, type=_Meta)
    fields: dict[str, Any] = {name: item for block in told.view.state.values.values() for name, item in block.items()}
    why, wait = fields.get("why", _Input()), fields.get("for", _Input())
    chosen = wait.selected_option.value if wait.selected_option is not None else ""
    if word is Word.DEFER and chosen not in WAITS:
        return Nothing("a form does not say for how long")
    about = About(meta.case, meta.node, meta.channel, meta.ts)
    person = Person(told.user.id, told.user.team_id)
    return Form(word, about, person, (why.value or "").strip(), WAITS.get(chosen), told.view.id)


def _slash(told: _Command) -> Slash:
    person = Person(told.user_id, told.team_id)
    return Slash(told.text.strip(), person, told.channel_id, told.response_url, told.trigger_id)


def _word(name: str) -> Word | None:
    try:
        return Word(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    except ValueError:
        return None
