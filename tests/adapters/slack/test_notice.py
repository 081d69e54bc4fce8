"""A plain notice over HTTP with the stock SDK: told, found again, and harmless whatever it quotes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quarantine.adapters.slack.notice import MOST_LINES, SlackNotices, connect_notices
from quarantine.adapters.slack.notifier import SlackNotifier
from quarantine.core.cards import Card
from quarantine.core.errors import NotifierRefused, NotifierUnavailable
from quarantine.core.letters import CaseReport
from quarantine.ports import Notices
from quarantine.sandbox.slack import SlackServer
from tests.adapters.slack.conftest import CHANNEL, TOKEN, Hands

KEY = "rules/2026-11-29T12:00:00+00:00"


@pytest.fixture
def notices(slack: SlackServer, clock: Hands) -> SlackNotices:
    return connect_notices(TOKEN, CHANNEL, cluster="lab", now=clock, base_url=slack.base_url)


def test_a_notice_is_told_and_found_again(slack: SlackServer, notices: SlackNotices) -> None:
    port: Notices = notices
    assert port.find(KEY) is None
    ref = port.tell(KEY, "1 policy file is broken in cluster lab", ["hot.yaml:3:1: a tab stands here"])
    (message,) = slack.messages
    assert ref == f"{CHANNEL}:{message.ts}"
    assert port.find(KEY) == ref
    assert port.find("rules/another") is None
    assert message.text.startswith("1 policy file is broken in cluster lab. hot.yaml:3:1: a tab stands here")
    assert message.metadata == {"event_type": "quarantine_notice", "event_payload": {"notice": KEY, "cluster": "lab"}}


def test_another_clusters_notice_is_not_ours(slack: SlackServer, notices: SlackNotices, clock: Hands) -> None:
    other = connect_notices(TOKEN, CHANNEL, cluster="other", now=clock, base_url=slack.base_url)
    other.tell(KEY, "title", ["line"])
    assert notices.find(KEY) is None


def test_a_notice_is_no_request_for_a_swap(
    slack: SlackServer, notices: SlackNotices, notifier: SlackNotifier, make_report: Callable[..., CaseReport]
) -> None:
    notices.tell("gpu-017-a3", "title", ["line"])
    assert notifier.find("gpu-017-a3") is None
    notifier.post(Card(make_report()))
    assert notices.find(KEY) is None


def test_what_it_quotes_neither_pings_nor_links(slack: SlackServer, notices: SlackNotices) -> None:
    nasty = "<!channel> @here <https://evil|x> *b* `c` & \x00\u202e" + "y" * 9000
    notices.tell(KEY, nasty, [nasty, nasty])
    (message,) = slack.messages
    assert message.pings == ()
    shown = [block["text"]["text"] for block in message.blocks if "text" in block]
    assert len(shown) == 3
    assert all(block["text"]["type"] == "plain_text" for block in message.blocks if "text" in block)
    assert all("<" not in text and "\x00" not in text and "\u202e" not in text for text in (*shown, message.text))


def test_a_hundred_files_are_one_message(slack: SlackServer, notices: SlackNotices) -> None:
    notices.tell(KEY, "100 policy files are broken", [f"{n}.yaml: broken" for n in range(100)], "Correct them.")
    (message,) = slack.messages
    assert len(message.blocks) == MOST_LINES + 3
    assert any("80 more" in block["text"]["text"] for block in message.blocks if "text" in block)
    assert message.blocks[-1]["elements"][0]["text"] == "Correct them."


def test_slack_in_trouble_is_told_in_our_words(slack: SlackServer, notices: SlackNotices, clock: Hands) -> None:
    shut = connect_notices(TOKEN, "C0SHUT", cluster="lab", now=clock, base_url=slack.base_url)
    with pytest.raises(NotifierRefused, match="invite the bot"):
        shut.tell(KEY, "title", ["line"])
    away = connect_notices(TOKEN, CHANNEL, cluster="lab", now=clock, base_url="http://127.0.0.1:1/api/")
    with pytest.raises(NotifierUnavailable):
        away.tell(KEY, "title", ["line"])
