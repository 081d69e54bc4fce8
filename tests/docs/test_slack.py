"""docs/slack.md: its numbers are those of the code, its scopes are enough and each is needed, its routes are taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from quarantine import board, digest
from quarantine.adapters.slack import buttons, folded
from quarantine.adapters.slack.notifier import connect
from quarantine.core import cards
from quarantine.core.cards import Card, Reply
from quarantine.core.case import Phase
from quarantine.core.errors import NotifierRefused
from quarantine.core.fleet import FleetSpec
from quarantine.core.tickets import Attachment
from quarantine.posted import KEPT
from quarantine.sandbox.slack import serve_slack
from quarantine.storyteller import MOST_LINES
from tests.boards import CHANNEL, TOKEN, Clock, Office, said

PAGE = (Path(__file__).parents[2] / "docs" / "slack.md").read_text(encoding="utf-8")
SCOPES = frozenset(re.findall(r"^ +\| `([a-z:]+)` \|", PAGE, re.MULTILINE))


@pytest.mark.parametrize(
    "told",
    [
        f"more than {cards.MOST_ALONE} machines",
        f"same ten minutes (by the clock: 12:00 to 12:{cards.TOGETHER.seconds // 60})",
        f"lists {folded.MOST_LINES} machines",
        f"has buttons for {folded.MOST_ASKING}",
        f"within {digest.LATE.seconds // 3600} hours of its time",
        f"its {MOST_LINES} newest",
        f"At most {board.SHOWS} messages are changed in a minute, and {board.REPLIES} replies",
        f"After {board.LONGEST.seconds} seconds a cycle",
    ],
)
def test_the_numbers_are_those_of_the_code(told: str) -> None:
    assert told in " ".join(PAGE.split())


def test_the_spans_are_those_of_the_code() -> None:
    assert timedelta(days=1) == KEPT
    assert timedelta(minutes=5) == board.LONGEST_REST
    assert timedelta(minutes=10) == cards.TOGETHER


def test_the_routes_are_taken() -> None:
    (example,) = re.findall(r"^    routes:\n(?:    .*\n)+", PAGE, re.MULTILINE)
    pools = [{"name": "h100", "nodeSelector": {"gpu": "yes"}, "provider": "acme"}]
    given = {**yaml.safe_load(example), "pools": pools, "providers": [{"name": "acme", "description": "a provider"}]}
    fleet = FleetSpec.model_validate(given)
    assert [cards.is_shared(route.channel, fleet) for route in fleet.routes] == [True, False]


def test_its_scopes_are_enough_and_each_is_needed() -> None:
    asked = _all_verbs(SCOPES)
    assert asked == []
    for scope in SCOPES - {"groups:history"}:  # the stand-in has public channels alone
        assert _all_verbs(SCOPES - {scope}) != [], scope


def _all_verbs(scopes: frozenset[str]) -> list[str]:
    """What Slack refuses, of all that is ever asked of it."""
    clock = Clock()
    with serve_slack(token=TOKEN, channels=[CHANNEL], scopes=scopes, now=clock.now) as slack:
        office = Office(slack, clock)
        office.opens(1)
        card: Card = cards.card(office.case(), "lab", office.rules, office.state)
        notifier = connect(TOKEN, CHANNEL, cluster="lab", now=clock.now, base_url=slack.base_url)
        ref = f"{CHANNEL}:1.000001"
        refused = []

        def ask(what: Callable[[], object]) -> None:
            try:
                what()
            except NotifierRefused as error:
                if "missing_scope" in str(error):
                    refused.append(str(error))

        ask(notifier.check)
        ask(lambda: notifier.find("x"))
        ask(lambda: notifier.post(card))
        ask(lambda: notifier.show(ref, card))
        ask(lambda: notifier.thread(ref))
        ask(lambda: notifier.tell(ref, Reply(("x",), {})))
        ask(lambda: notifier.attach(ref, Attachment("a.png", "image/png", b"x"), "a"))
        return refused


def test_the_buttons_are_called_so() -> None:
    clock = Clock()
    with serve_slack(token=TOKEN, channels=[CHANNEL], now=clock.now) as slack:
        office = Office(slack, clock)
        office.opens(1)
        office.holds("a yes is waited for")
        office.cycle(2)
        (message,) = office.messages
        labels = [e["text"]["text"] for b in message.blocks if b["type"] == "actions" for e in b["elements"]]
        assert all(f"*{label}*" in PAGE for label in labels)
        assert len(labels) == len({buttons.APPROVE, buttons.DEFER, buttons.DISMISS, buttons.EVIDENCE})
        office.decides(office.trail[0].action.RELEASE, "proven", phase=Phase.RELEASED)
        office.cycle()
        assert "back in service" in said(office.messages[0])
