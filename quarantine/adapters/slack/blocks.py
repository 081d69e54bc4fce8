"""A case's report as a Slack message: what, where, since when, value against threshold, what was done, what is asked.

Pure. Every limit of Slack is kept here by shortening, since a refused message is a machine nobody hears of: 50 blocks,
150 characters in a header, 10 fields of 2,000, 3,000 in a section, and about 13,000 in all (undocumented).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from quarantine.adapters.slack.mrkdwn import FIELD_LIMIT, HEADER_LIMIT, NONE, TEXT_LIMIT, code, escape, length, one_line
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Severity

Block = dict[str, Any]

# Shorter than Slack allows: a message is to be read at a glance, and the sum of all must stay far below 13,000.
_VALUE = 300
_PROSE = 1000
_NOTE = 500
_NAME = 120
_OTHERS = 10  # further findings told one by one; the ticket has them all
_FALLBACK = 1000

_RANK = {s.value: s.rank for s in Severity}
_ASKED = {
    "report": "please report this machine to its provider {provider} and have it replaced",
    "replace": "please have this machine replaced by its provider {provider}",
}


def render(report: CaseReport, ticket: str) -> list[Block]:
    """The message's blocks. `ticket` is the ticket's reference, or empty."""
    faults = worst_first(report.faults)
    blocks = [
        {"type": "header", "text": plain(_headline(report), HEADER_LIMIT)},
        *_prose(report.reason),
        {"type": "section", "fields": _fields(report, faults, ticket)},
    ]
    if faults and faults[0].why:
        blocks += _prose(f"Why it matters: {faults[0].why}")
    if len(faults) > 1:
        blocks.append({"type": "section", "text": mrkdwn(_others(faults[1:]), TEXT_LIMIT)})
    for name, text in _noted(report):
        blocks += _prose(f"{name}: {text}", _NOTE)
    blocks.append({"type": "section", "text": mrkdwn(_done_and_asked(report, ticket), TEXT_LIMIT)})
    blocks.append({"type": "context", "elements": _context(report, faults)})
    return blocks


def fallback(report: CaseReport, ticket: str) -> str:
    """What notifications and screen readers say."""
    filed = f" Ticket {one_line(ticket)}." if ticket else ""
    return escape(f"{_headline(report)}. {report.reason}{filed} Case {report.key}.", _FALLBACK)


def worst_first(faults: Sequence[Fault]) -> list[Fault]:
    """By severity, then the one that has lasted longest."""
    return sorted(faults, key=lambda f: (-_RANK.get(f.severity, -1), f.since))


def plain(text: str, limit: int) -> Block:
    """A text object that Slack shows as it is."""
    return {"type": "plain_text", "text": escape(text, limit) or NONE, "emoji": False}


def mrkdwn(text: str, limit: int) -> Block:
    """A text object of our own markup, its outside parts escaped already. `verbatim`: Slack adds no links.

    Raises ValueError where it is too long: cutting it here could cut an entity or a code span in two.
    """
    if length(text) > limit:
        raise ValueError(f"{length(text)} characters of markup where {limit} fit")
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _headline(report: CaseReport) -> str:
    """The title; where that is too long, how many devices instead of which: the request must not be what is cut off."""
    if length(one_line(report.title)) <= HEADER_LIMIT:
        return report.title
    devices = len({f.device for f in report.faults})
    return f"{report.node[:80]}: {devices} devices suspect, please replace the machine"


def _prose(text: str, limit: int = _PROSE) -> list[Block]:
    return [{"type": "section", "text": plain(text, limit)}] if one_line(text) else []


def _noted(report: CaseReport) -> list[tuple[str, str]]:
    """What else is known of the machine, of its place and of what was done about it."""
    told = [
        ("Note", report.swap),
        ("Before", report.history),
        ("Tried", "; ".join(report.tried)),
        ("Evidence", report.evidence_output),
    ]
    return [(name, text) for name, text in told if one_line(text)]


def _fields(report: CaseReport, faults: Sequence[Fault], ticket: str) -> list[Block]:
    """At most ten: what and where, of the worst fault if there are several."""
    told = [
        ("Node", report.node),
        ("Machine", report.machine.provider_id or report.machine.system_uuid),
    ]
    if faults:
        worst = faults[0]
        told += [
            ("Device", worst.device),
            ("Since", utc(worst.since)),
            ("Measured", worst.value),
            ("Threshold", worst.threshold),
            ("Severity", worst.severity),
        ]
    else:
        told += [("Since", utc(report.opened_at)), ("Opened by", report.opened_by)]
    told += [("Pool", report.pool), ("Provider", report.provider), ("Ticket", ticket)]
    return [mrkdwn(f"*{name}*\n{code(value, _VALUE)}", FIELD_LIMIT) for name, value in told]


def _others(faults: Sequence[Fault]) -> str:
    lines = [f"*Also found ({len(faults)}):*"]
    for fault in faults[:_OTHERS]:
        measured = f": {code(fault.value, 60)}" if fault.value else ""
        line = f"• {code(fault.severity, 20)} {code(fault.device, 80)}{measured}, {code(fault.policy, 70)}"
        lines.append(f"{line}, since {utc(fault.since)}")
    if len(faults) > _OTHERS:
        lines.append(f"… and {len(faults) - _OTHERS} more")
    return "\n".join(lines)


def _done_and_asked(report: CaseReport, ticket: str) -> str:
    asked = _ASKED[report.ask] if report.ask in _ASKED else f"{escape(report.ask, _NAME)}, provider {{provider}}"
    filed = f"Ticket {code(ticket, _NAME)} is filed." if ticket else "No ticket was filed for it."
    return (
        f"*Done:* {escape(report.done, 500)}.\n"
        f"*Asked:* {asked.replace('{provider}', code(report.provider, _NAME))}. {filed}"
    )


def _context(report: CaseReport, faults: Sequence[Fault]) -> list[Block]:
    policies = list(dict.fromkeys(f.policy for f in faults))
    named = ", ".join(code(p, 70) for p in policies[:5]) + (
        f" and {len(policies) - 5} more" if len(policies) > 5 else ""
    )
    told = [
        f"Case {code(report.key, 250)}",
        *([f"Policy {named}"] if policies else []),
        f"Cluster {code(report.cluster, _NAME)}",
        f"Opened {utc(report.opened_at)} by {code(report.opened_by, _NAME)}",
    ]
    return [mrkdwn(text, FIELD_LIMIT) for text in told]


def utc(at: datetime) -> str:
    """`2026-11-29 03:12 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
