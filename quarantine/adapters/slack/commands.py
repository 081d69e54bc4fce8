"""`/quarantine status | explain NODE | waive NODE [for 4h] why`: the command line's answers, to the one who asks.

What they are is given by callbacks: the composition root has the ledger. A waiver is a request, which the leader
decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quarantine.adapters.slack.interactions import Slash, request_id
from quarantine.adapters.slack.people import Member
from quarantine.core.decision import LONGEST_REASON, Request, RequestKind
from quarantine.core.units import format_duration, parse_duration

USAGE = (
    "/quarantine status – what is out of service, and what waits for a person",
    "/quarantine explain NODE – why a node is out, or why it is not",
    "/quarantine waive NODE for 4h REASON – keep a node in service for a while",
)
WAIVED = timedelta(hours=4)  # where no time is given
_NODE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Views:
    """What can be looked at: each gives lines of plain text, raw, and may raise QuarantineError."""

    status: Callable[[], Sequence[str]]
    explain: Callable[[str], Sequence[str]]  # of a node's name


@dataclass(frozen=True, slots=True)
class Reply:
    """What the person is told; and what they ask, if it was a request."""

    lines: Sequence[str]
    request: Request | None = None


def asks(said: Slash) -> bool:
    """Whether it asks for something, and does not only look."""
    return [word.lower() for word in said.text.split(maxsplit=1)[:1]] == ["waive"]


def answer(said: Slash, member: Member, views: Views, now: datetime) -> Reply:
    """The answer to a command. Words are told apart by spaces; case matters in names alone."""
    verb, _, rest = _SPACE.sub(" ", said.text).strip().partition(" ")
    match verb.lower():
        case "status" if not rest:
            return Reply(views.status())
        case "explain":
            if not _NODE.fullmatch(rest):
                return _usage(f"{rest!r} is no node's name" if rest else "say which node")
            return Reply(views.explain(rest))
        case "waive":
            return _waive(said, rest, member, now)
        case "" | "help":
            return Reply(USAGE)
        case _:
            return _usage(f"there is no such command: {said.text[:100]!r}")


def _waive(said: Slash, rest: str, member: Member, now: datetime) -> Reply:
    node, _, reason = rest.partition(" ")
    if not _NODE.fullmatch(node):
        return _usage(f"{node!r} is no node's name" if node else "say which node")
    span = WAIVED
    if (found := re.fullmatch(r"for (\S+)(?: (.*))?", reason)) is not None and found[1][:1].isdigit():
        try:
            span = parse_duration(found[1])
        except ValueError as error:
            return _usage(str(error))
        reason = found[2] or ""
    if not reason or len(reason) > LONGEST_REASON:
        return _usage(f"say why {node} is to stay in service, in at most {LONGEST_REASON} characters")
    until = now + span
    request = Request(
        id=request_id(node, member.id, said.occasion),
        kind=RequestKind.WAIVE,
        node=node,
        reason=reason,
        actor=member.actor,
        channel="slack",
        at=now,
        until=until,
        groups=member.groups,
    )
    told = f"{node} stays in service for {format_duration(span)}, until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return Reply(
        (f"Your word is with the controller: {told}.", f"/quarantine explain {node} shows what it did."), request
    )


def _usage(why: str) -> Reply:
    return Reply((f"This was not understood: {why}.", *USAGE))
