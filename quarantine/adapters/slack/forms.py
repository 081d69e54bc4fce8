"""The forms that a button opens, and how an answer of many lines is shown. Pure; Slack's limits are kept here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from quarantine.adapters.slack.interactions import PREFIX, WAITS, About, Word
from quarantine.adapters.slack.mrkdwn import TEXT_LIMIT, escape, length, plain

LONGEST_WHY = 1000  # characters of a reason that is written in a form
_MOST = 10_000  # characters of an answer: Slack takes about 13,000 in all blocks together
_LINE = 1000
_FALLBACK = 1000
_TITLE, _BUTTON, _LABEL = 24, 24, 200

_TITLES = {Word.DEFER: "Not now", Word.DISMISS: "False alarm"}
_TOLD = {
    Word.DEFER: "No other machine is asked for in place of {node} until then; it is asked again after that.",
    Word.DISMISS: "The case of {node} ends: it goes back in service, and its findings are left alone for a while.",
}


def form(word: Word, about: About) -> dict[str, Any]:
    """The modal that asks why, and for `DEFER` for how long. Raises KeyError for a word that needs none."""
    why = {
        "type": "plain_text_input",
        "action_id": "why",
        "multiline": True,
        "max_length": LONGEST_WHY,
        **({"min_length": 3} if word is Word.DISMISS else {}),
    }
    asked = _input("why", "Why? It goes into the record, with your name.", why, optional=word is not Word.DISMISS)
    return {
        "type": "modal",
        "callback_id": f"{PREFIX}{word.value}",
        "title": plain(_TITLES[word], _TITLE),
        "submit": plain(_TITLES[word], _BUTTON),
        "close": plain("Cancel", _BUTTON),
        "private_metadata": json.dumps(
            {"case": about.case, "node": about.node, "channel": about.channel, "ts": about.ts}
        ),
        "blocks": [
            {"type": "section", "text": plain(_TOLD[word].replace("{node}", about.node), TEXT_LIMIT)},
            *([_how_long()] if word is Word.DEFER else []),
            asked,
        ],
    }


def shown(lines: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """Blocks and fallback text of an answer, all of it plain text; what is too much is counted."""
    sections, room = [""], _MOST
    for n, line in enumerate(lines):
        told = escape(line, _LINE)
        room -= length(told) + 1
        if room < 0:
            told = f"And {len(lines) - n} more lines: see the command line."
        if length(sections[-1]) + length(told) + 1 > TEXT_LIMIT:
            sections.append("")
        sections[-1] = f"{sections[-1]}\n{told}" if sections[-1] else told
        if room < 0:
            break
    blocks = [
        {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}
        for text in sections
        if text.strip()
    ]
    return blocks, escape(" ".join(lines), _FALLBACK) or "–"


def _how_long() -> dict[str, Any]:
    options = [{"text": plain(value.replace("h", " hours"), 75), "value": value} for value in WAITS]
    element = {"type": "static_select", "action_id": "for", "options": options, "initial_option": options[0]}
    return _input("for", "For how long?", element, optional=False)


def _input(block_id: str, label: str, element: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    return {
        "type": "input",
        "block_id": block_id,
        "label": plain(label, _LABEL),
        "element": element,
        "optional": optional,
    }
