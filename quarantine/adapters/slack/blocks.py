"""A case as a Slack message: what, where, since when, value against threshold, where it stands, what is asked.

Pure. Every limit of Slack is kept here by shortening, since a refused message is a machine nobody hears of: 50 blocks,
150 characters in a header, 10 fields of 2,000, 3,000 in a section, and about 13,000 in all (undocumented).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from quarantine.adapters.slack.buttons import actions
from quarantine.adapters.slack.mrkdwn import (
    FIELD_LIMIT,
    HEADER_LIMIT,
    TEXT_LIMIT,
    code,
    escape,
    length,
    link,
    mrkdwn,
    one_line,
    plain,
)
from quarantine.core.cards import Card
from quarantine.core.case import Phase
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Severity
from quarantine.core.storyline import heard
from quarantine.core.tickets import Filing

__all__ = ["Block", "fallback", "filed", "headline", "mrkdwn", "plain", "render", "utc", "worst_first"]

Block = dict[str, Any]

# Shorter than Slack allows: a message is to be read at a glance, and the sum of all must stay far below 13,000.
_VALUE = 200
_PROSE = 1000
_NOTE = 300
_NAME = 120
_OTHERS = 8  # further findings told one by one; the ticket has them all
_TICKETS = 3  # of a case, the newest
_WAITS = 3  # of what it is held by, the newest
_FALLBACK = 1000

_RANK = {s.value: s.rank for s in Severity}
_ASKED = {
    "report": "please report this machine to its provider {provider} and have it replaced",
    "replace": "please have this machine replaced by its provider {provider}",
}
_PROVES = (Phase.SWAPPED, Phase.PROBATION)
_APPROVE = "please say whether another machine may be asked for from its provider {provider}"


def render(card: Card, *, buttons: bool = False) -> list[Block]:
    """The message's blocks. `buttons`: somebody listens to what is clicked."""
    report = card.report
    faults = worst_first(report.faults)
    blocks = [
        {"type": "header", "text": plain(headline(card), HEADER_LIMIT)},
        *_prose(report.reason),
        {"type": "section", "text": mrkdwn(_now(card), TEXT_LIMIT)},
        {"type": "section", "fields": _fields(card, faults)},
    ]
    if faults and faults[0].why:
        blocks += _prose(f"Why it matters: {faults[0].why}", 2 * _NOTE)
    if len(faults) > 1:
        blocks.append({"type": "section", "text": mrkdwn(_others(faults[1:]), TEXT_LIMIT)})
    for name, text in _noted(card):
        blocks += _prose(f"{name}: {text}", _NOTE)
    blocks.append({"type": "section", "text": mrkdwn(_done_and_asked(card), TEXT_LIMIT)})
    if buttons:
        blocks += actions(card)
    blocks.append({"type": "context", "elements": _context(card, faults)})
    return blocks


def fallback(card: Card) -> str:
    """What notifications and screen readers say."""
    report = card.report
    filed = f" Ticket {one_line(card.ticket)}." if card.ticket else ""
    return escape(f"{headline(card)}. {report.reason}{filed} Case {report.key}.", _FALLBACK)


def headline(card: Card) -> str:
    """The title; where that is too long, how many devices instead of which: what is asked must not be cut off.

    Once nothing is asked for any more it says what became of the machine.
    """
    report = card.report
    if not card.open or card.phase in _PROVES:
        return f"{one_line(report.node)[:80]} {card.stands}"
    if length(one_line(report.title)) <= HEADER_LIMIT:
        return report.title
    devices = len({f.device for f in report.faults})
    return f"{report.node[:80]}: {devices} devices suspect, please replace the machine"


def worst_first(faults: Sequence[Fault]) -> list[Fault]:
    """By severity, then the one that has lasted longest."""
    return sorted(faults, key=lambda f: (-_RANK.get(f.severity, -1), f.since))


def filed(filing: Filing) -> str:
    """A ticket and how far it has come, as markup."""
    return f"{code(filing.ref, 80)} {heard(filing.state)}{link(filing.url)}"


def utc(at: datetime) -> str:
    """`2026-11-29 03:12 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _prose(text: str, limit: int = _PROSE) -> list[Block]:
    return [{"type": "section", "text": plain(text, limit)}] if one_line(text) else []


def _now(card: Card) -> str:
    """Where the machine stands, in our own words but for its name."""
    since = f" since {utc(card.since)}" if card.since is not None else ""
    elsewhere = card.open and card.phase is not Phase.QUARANTINED
    out = f", out of service since {utc(card.out_since)}" if card.out_since is not None and elsewhere else ""
    return f"*Now:* {code(card.report.node, _NAME)} {card.stands}{since}{out}."


def _noted(card: Card) -> list[tuple[str, str]]:
    """What else is known of the machine, of its place and of what was done about it."""
    report = card.report
    told = [
        ("Note", report.swap),
        ("Before", report.history),
        ("Tried", "; ".join(report.tried)),
        ("Evidence", report.evidence_output),
        ("Its provider calls it", ", ".join(f"{name} {value}" for name, value in report.assets)),
        ("Earlier tickets", ", ".join(report.earlier)),
        ("Affected", card.affected),
        *(("Waits", reason) for reason in card.waits[-_WAITS:]),
    ]
    return [(name, text) for name, text in told if one_line(text)]


def _fields(card: Card, faults: Sequence[Fault]) -> list[Block]:
    """At most ten: what and where, of the worst fault if there are several."""
    report = card.report
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
        told += [("Since", utc(report.opened_at))]
        told += [] if card.shared else [("Opened by", report.opened_by)]
    told += [] if card.shared else [("Pool", report.pool)]
    told += [("Provider", report.provider), ("Ticket", card.ticket)]
    return [mrkdwn(f"*{name}*\n{code(value, _VALUE)}", FIELD_LIMIT) for name, value in told]


def _others(faults: Sequence[Fault]) -> str:
    lines = [f"*Also found ({len(faults)}):*"]
    for fault in faults[:_OTHERS]:
        measured = f": {code(fault.value, 60)}" if fault.value else ""
        policy = f", {code(fault.policy, 70)}" if fault.policy else ""
        line = f"• {code(fault.severity, 20)} {code(fault.device, 80)}{measured}{policy}"
        lines.append(f"{line}, since {utc(fault.since)}")
    if len(faults) > _OTHERS:
        lines.append(f"… and {len(faults) - _OTHERS} more")
    return "\n".join(lines)


def _done_and_asked(card: Card) -> str:
    report = card.report
    provider = code(report.provider, _NAME)
    said = [f"*Done:* {escape(report.done, 500)}."] if card.open else []
    asked = f"*Asked:* {_asked(card).replace('{provider}', provider)}."
    if card.tickets:
        said += [asked, "*Tickets:* " + ", ".join(filed(filing) for filing in card.tickets[-_TICKETS:])]
    else:
        said.append(f"{asked} {_ticketed(card)}")
    return "\n".join(said)


def _asked(card: Card) -> str:
    if not card.open:
        return "nothing any more"
    if card.asks:
        by = f" ({escape(card.report.approval, _NAME)})" if card.report.approval else ""
        return f"{_APPROVE}{by}"
    if card.phase in _PROVES:
        return "nothing: the machine proves itself"
    ask = card.report.ask
    return _ASKED[ask] if ask in _ASKED else f"{escape(ask, _NAME)}, provider {{provider}}"


def _ticketed(card: Card) -> str:
    return f"Ticket {code(card.ticket, _NAME)} is filed." if card.ticket else "No ticket was filed for it."


def _context(card: Card, faults: Sequence[Fault]) -> list[Block]:
    report: CaseReport = card.report
    policies = list(dict.fromkeys(f.policy for f in faults if f.policy))
    named = ", ".join(code(p, 70) for p in policies[:5]) + (
        f" and {len(policies) - 5} more" if len(policies) > 5 else ""
    )
    by = "" if card.shared else f" by {code(report.opened_by, _NAME)}"
    told = [
        f"Case {code(report.key, 250)}",
        *([f"Policy {named}"] if policies else []),
        f"Cluster {code(report.cluster, _NAME)}",
        f"Opened {utc(report.opened_at)}{by}",
    ]
    return [mrkdwn(text, FIELD_LIMIT) for text in told]
