"""What people can click in a case's message. Each button names its case: an old one never means a later case.

The inbound half (`quarantine.adapters.slack.interactions`) reads what stands here.
"""

from __future__ import annotations

import json
from typing import Any

from quarantine.adapters.slack.mrkdwn import one_line, plain
from quarantine.core.cards import Card
from quarantine.core.case import Phase

APPROVE = "quarantine.approve"
DEFER = "quarantine.defer"  # opens a form that asks for how long, and why
DISMISS = "quarantine.dismiss"  # opens a form that asks why: that is its confirmation too
EVIDENCE = "quarantine.evidence"

VALUE_LIMIT = 2000
_LABEL = 75


def actions(card: Card) -> list[dict[str, Any]]:
    """A block with the buttons of a case; none where it has ended, or its names are too long to be carried.

    In a channel that others read there are those that answer what is asked, and no more.
    """
    value = _value(card)
    if not card.open or value is None:
        return []
    elements = _answers(value) if card.asks or card.deferred else []
    if not card.shared:
        dismiss = [_button(DISMISS, "False alarm", value, style="danger")] if card.phase is not Phase.SUSPECTED else []
        elements += [*dismiss, _button(EVIDENCE, "Show evidence", value)]
    return [{"type": "actions", "elements": elements}] if elements else []


def answers(card: Card, label: str) -> list[dict[str, Any]]:
    """Only what answers the request of one case, where several stand in one message; `label` says which."""
    value = _value(card)
    if not (card.open and card.asks) or value is None:
        return []
    return [{"type": "actions", "elements": _answers(value, f" of {one_line(label)}")}]


def _answers(value: str, label: str = "") -> list[dict[str, Any]]:
    return [
        _button(APPROVE, f"Approve swap{label}", value, style="primary"),
        _button(DEFER, "Not now…", value),
    ]


def _button(action: str, label: str, value: str, **more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": action, "text": plain(label, _LABEL), "value": value, **more}


def _value(card: Card) -> str | None:
    """Which case is meant, on which node; None where that does not fit."""
    named = {"case": card.report.key, "node": card.report.node}
    value = json.dumps(named, sort_keys=True, separators=(",", ":"))
    return value if len(value) <= VALUE_LIMIT else None
