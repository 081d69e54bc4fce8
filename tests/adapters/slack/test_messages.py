"""Whatever stands in a case, its message, its folded line, its buttons and its story are what Slack takes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarantine.adapters.slack.blocks import fallback, headline, render
from quarantine.adapters.slack.buttons import VALUE_LIMIT
from quarantine.adapters.slack.folded import fallback_of, render_fold
from quarantine.adapters.slack.mrkdwn import link
from quarantine.adapters.slack.replies import MOST_LINES, attached_in, metadata_of, render_reply, told_in
from quarantine.core.cards import Card, Fold, Reply
from quarantine.core.case import Phase
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine
from quarantine.core.tickets import Filing, TicketState
from quarantine.sandbox.slack.blockkit import metadata_problem, pings_of, problems_of, text_of, units

AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
NASTY = st.text(alphabet=st.sampled_from("a`<>&*_~|@!\n\x00\u202e\ud800😀 "), max_size=60)
PINGS = st.sampled_from(
    ["<!here>", "<@U0123>", "<https://evil.example|x>", "@channel", "x" * 5000, "<" * 5000, "😀" * 3000]
)
TEXT = st.one_of(NASTY, PINGS)
FAULTS = st.builds(
    Fault,
    policy=TEXT,
    why=TEXT,
    device=TEXT,
    category=TEXT,
    severity=st.one_of(TEXT, st.just("critical")),
    since=st.just(AT),
    value=TEXT,
    threshold=TEXT,
    query=TEXT,
    labels=st.just(()),
)
REPORTS = st.builds(
    CaseReport,
    key=TEXT,
    cluster=TEXT,
    node=TEXT,
    machine=st.builds(Machine, node_uid=TEXT, provider_id=TEXT, system_uuid=TEXT),
    pool=TEXT,
    provider=TEXT,
    ask=st.one_of(TEXT, st.just("report"), st.just("replace")),
    title=TEXT,
    reason=TEXT,
    done=TEXT,
    opened_at=st.just(AT),
    opened_by=TEXT,
    faults=st.lists(FAULTS, max_size=12).map(tuple),
    history=TEXT,
    tried=st.lists(TEXT, max_size=4).map(tuple),
    evidence_output=TEXT,
    swap=TEXT,
    approval=TEXT,
)
FILINGS = st.builds(
    Filing,
    ref=TEXT,
    key=TEXT,
    target=TEXT,
    ask=TEXT,
    at=st.just(AT),
    state=st.sampled_from(TicketState),
    url=st.one_of(TEXT, st.just("https://t.example/" + "a" * 280)),
)
CARDS = st.builds(
    Card,
    report=REPORTS,
    phase=st.sampled_from(Phase),
    since=st.just(AT),
    out_since=st.just(AT),
    waits=st.lists(TEXT, max_size=6).map(tuple),
    tickets=st.lists(FILINGS, max_size=6).map(tuple),
    ticket=TEXT,
    affected=TEXT,
    asks=st.booleans(),
    shared=st.booleans(),
)
FEW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def taken(blocks: list[dict[str, Any]], text: str) -> None:
    assert problems_of(blocks) == []
    assert sum(units(t) for _, t in text_of(blocks)) < 13_000
    assert pings_of(text, []) == pings_of("", blocks) == ()
    assert units(text) <= 3000
    json.dumps(blocks, ensure_ascii=False).encode()


@FEW
@given(CARDS, st.booleans())
def test_every_card_is_taken(card: Card, buttons: bool) -> None:
    blocks = render(card, buttons=buttons)
    taken(blocks, fallback(card))
    offered = [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
    assert not offered or (buttons and card.open)
    for element in offered:
        assert json.loads(element["value"])["case"] == card.report.key
        assert units(element["value"]) <= VALUE_LIMIT


@FEW
@given(st.lists(CARDS, min_size=1, max_size=2), st.integers(1, 30))
def test_every_fold_is_taken(few: list[Card], times: int) -> None:
    fold = Fold("storm-1", few[0].report.cluster, "C0GPUOPS", tuple(few) * times)
    taken(render_fold(fold, buttons=True), fallback_of(fold))


@FEW
@given(st.lists(TEXT, min_size=1, max_size=30), st.integers(0, 10**9))
def test_every_reply_is_taken(lines: list[str], left_out: int) -> None:
    text, blocks = render_reply(Reply(tuple(lines), {}, left_out))
    taken(blocks, text)
    assert blocks[0]["text"]["text"].count("\n") <= MOST_LINES


def test_the_longest_words_all_at_once_are_taken() -> None:
    long = "<" * 5000
    fault = Fault(long, long, long, long, "fatal", AT, long, long, long, ())
    url = "https://t.example/" + "a" * 275
    filing = Filing(long, long, long, long, AT, TicketState.NO_FAULT_FOUND, url=url)
    named = ("key", "cluster", "node", "pool", "provider", "ask", "title", "reason", "done", "opened_by")
    words: Any = dict.fromkeys(named, long)
    report = CaseReport(
        **words,
        machine=Machine(long, long, long),
        opened_at=AT,
        faults=(fault,) * 60,
        history=long,
        tried=(long,) * 9,
        evidence_output=long,
        swap=long,
        approval=long,
        assets=((long, long),) * 3,
        earlier=(long,) * 9,
    )
    card = Card(report, Phase.REMEDY, AT, AT, (long,) * 9, (filing,) * 9, long, long, asks=True)
    taken(render(card, buttons=True), fallback(card))
    print(sum(units(t) for _, t in text_of(render(card, buttons=True))))
    fold = Fold(long, long, "C0GPUOPS", (card,) * 100)
    taken(render_fold(fold, buttons=True), fallback_of(fold))


def test_how_far_forty_stories_were_told_fits_and_is_read_again() -> None:
    told = {f"q-{n:010x}": f"{10**9 + n}|{'f' * 12}|{AT.isoformat()}" for n in range(40)}
    metadata = metadata_of(Reply(("x",), told), "lab")
    assert metadata_problem(metadata) is None
    assert told_in({"metadata": metadata}, "lab") == told
    assert told_in({"metadata": metadata}, "another") == {}


@pytest.mark.parametrize(
    "message", [None, 5, {}, {"metadata": 5}, {"metadata": {"event_type": "quarantine_story", "event_payload": []}}]
)
def test_strange_messages_tell_nothing(message: object) -> None:
    assert told_in(message, "lab") == {}
    assert attached_in(message) == frozenset()


def test_a_file_is_known_by_its_name_and_by_the_comment_it_came_with() -> None:
    assert attached_in({"files": [{"name": "q-1.png"}, 5], "text": "q-2.png: the chart"}) == {"q-1.png", "q-2.png"}
    assert attached_in({"text": "q-2.png: no file"}) == frozenset()


NO_URLS = [
    "",
    "javascript:alert(1)",
    "https://a b",
    "https://a|b",
    "https://a>b",
    "http://a\nb",
    "https://a<b",
    "ftp://a",
]


@pytest.mark.parametrize("url", [*NO_URLS, f"https://a/{'&' * 60}"])
def test_what_is_no_url_is_no_link(url: str) -> None:
    assert link(url) == ""


def test_what_was_done_is_the_headline_once_nothing_is_asked(make_report: Any) -> None:
    report = make_report()
    assert headline(Card(report)) == report.title
    assert headline(Card(report, Phase.PROBATION)) == "gpu-017 is on probation: it proves itself"
    assert headline(Card(report, Phase.RETIRED)) == "gpu-017 has left the cluster"
