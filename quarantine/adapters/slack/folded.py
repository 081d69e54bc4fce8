"""Several cases in one message: a line each, and buttons for those that wait for a person's yes. Pure."""

from __future__ import annotations

from typing import Any

from quarantine.adapters.slack.blocks import filed, utc, worst_first
from quarantine.adapters.slack.buttons import answers
from quarantine.adapters.slack.mrkdwn import FIELD_LIMIT, HEADER_LIMIT, TEXT_LIMIT, code, escape, mrkdwn, plain
from quarantine.core.cards import Card, Fold

Block = dict[str, Any]

MOST_LINES = 30  # cases with a line of their own; each has its story in the thread
MOST_ASKING = 8  # cases with buttons of their own
_IN_A_SECTION = 6  # lines: one is at most `_LINE` long
_LINE = 480
_FALLBACK = 1000


def render_fold(fold: Fold, *, buttons: bool = False) -> list[Block]:
    """The message's blocks. What waits for a person comes first, then what is open, then what has ended."""
    cards = sorted(fold.cards, key=lambda card: (not card.asks, not card.open))
    shown = cards[:MOST_LINES]
    lines = [_line(card) for card in shown]
    if len(cards) > len(shown):
        lines.append(f"… and {len(cards) - len(shown)} more: `quarantine status` has them all")
    blocks: list[Block] = [
        {"type": "header", "text": plain(headline_of(fold), HEADER_LIMIT)},
        {"type": "section", "text": plain(_about(fold), TEXT_LIMIT)},
        *(
            {"type": "section", "text": mrkdwn("\n".join(lines[n : n + _IN_A_SECTION]), TEXT_LIMIT)}
            for n in range(0, len(lines), _IN_A_SECTION)
        ),
    ]
    if buttons:
        asking = [card for card in cards if card.asks][:MOST_ASKING]
        blocks += [block for card in asking for block in answers(card, card.report.node)]
    blocks.append({"type": "context", "elements": [mrkdwn(f"Cluster {code(fold.cluster, 120)}", FIELD_LIMIT)]})
    return blocks


def fallback_of(fold: Fold) -> str:
    """What notifications and screen readers say."""
    names = ", ".join(card.report.node for card in fold.cards)
    return escape(f"{headline_of(fold)}: {names}", _FALLBACK)


def headline_of(fold: Fold) -> str:
    """How many machines, and how many of them are still out."""
    left = sum(card.open for card in fold.cards)
    many = f"{len(fold.cards)} machine{'' if len(fold.cards) == 1 else 's'}"
    if left == len(fold.cards):
        return f"{many} suspect in cluster {fold.cluster}"
    what = f"{left} still open" if left else "all cases have ended"
    return f"{many} suspect in cluster {fold.cluster}: {what}"


def _about(fold: Fold) -> str:
    asked = " Those that are asked for wait for a person's yes." if any(card.asks for card in fold.cards) else ""
    return (
        "So many were taken out within ten minutes that one message tells of them; what becomes of each is in its "
        f"thread.{asked}"
    )


def _line(card: Card) -> str:
    """One machine: what was found worst, where it stands, its ticket. At most `_LINE` characters."""
    report = card.report
    faults = worst_first(report.faults)
    found = f": {code(faults[0].device, 60)} {code(faults[0].value, 30)}" if faults else ""
    more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
    since = f" since {utc(card.since)}" if card.since is not None else ""
    ticket = ""
    if card.tickets:
        ticket = f"; ticket {filed(card.tickets[-1])}"
    elif card.ticket:
        ticket = f"; ticket {code(card.ticket, 60)}"
    asks = "*asks for your yes:* " if card.asks else ""
    line = f"• {asks}{code(report.node, 70)}{found}{more}; {card.stands}{since}{ticket}"
    return line if len(line) <= _LINE else f"• {asks}{code(report.node, 70)} {card.stands}{since}"
