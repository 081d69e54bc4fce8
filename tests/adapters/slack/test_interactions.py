"""What Slack sends is read strictly: what people do, or nothing with a reason; never a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.adapters.slack.buttons import actions
from quarantine.adapters.slack.forms import LONGEST_WHY, form, shown
from quarantine.adapters.slack.interactions import (
    COMMANDS,
    INTERACTIVE,
    About,
    Click,
    Form,
    Nothing,
    Person,
    Slash,
    Word,
    parse,
    requested,
)
from quarantine.adapters.slack.people import Member
from quarantine.core.cards import Card
from quarantine.core.case import Phase
from quarantine.core.decision import RequestKind
from quarantine.core.letters import CaseReport
from quarantine.sandbox.slack.blockkit import pings_of, problems_of, text_of, units, view_problems

NOW = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
ABOUT = About("q-7f3a2b1c05", "gpu-017", "C0GPUOPS", "1764385925.000001")
ANN = Person("U0ANN", "T0SANDBOX")
VALUE = json.dumps({"case": ABOUT.case, "node": ABOUT.node})


def click(**button: Any) -> dict[str, Any]:
    return {
        "type": "block_actions",
        "user": {"id": "U0ANN", "name": "ann", "team_id": "T0SANDBOX"},
        "team": {"id": "T0SANDBOX"},
        "container": {"type": "message", "channel_id": ABOUT.channel, "message_ts": ABOUT.ts},
        "trigger_id": "12.34.abc",
        "actions": [
            {"type": "button", "action_id": "quarantine.approve", "value": VALUE, "action_ts": "1764385930.1"} | button
        ],
    }


def submission(word: str = "defer", *, why: str | None = "later", chosen: str = "4h") -> dict[str, Any]:
    values: dict[str, Any] = {"why": {"why": {"type": "plain_text_input", "value": why}}}
    if chosen:
        values["for"] = {"for": {"type": "static_select", "selected_option": {"value": chosen}}}
    meta = {"case": ABOUT.case, "node": ABOUT.node, "channel": ABOUT.channel, "ts": ABOUT.ts}
    view = {"id": "V00000001", "callback_id": f"quarantine.{word}", "private_metadata": json.dumps(meta)}
    return {
        "type": "view_submission",
        "user": {"id": "U0ANN", "team_id": "T0SANDBOX"},
        "view": view | {"state": {"values": values}},
    }


COMMAND = {
    "command": "/quarantine",
    "text": " explain gpu-017 ",
    "user_id": "U0ANN",
    "team_id": "T0SANDBOX",
    "channel_id": "C0GPUOPS",
    "response_url": "https://hooks.slack.com/commands/1",
    "trigger_id": "12.34.abc",
}


def test_a_click_says_what_is_meant_and_by_whom() -> None:
    assert parse(INTERACTIVE, click()) == Click(Word.APPROVE, ABOUT, ANN, "12.34.abc", "1764385930.1")


@pytest.mark.parametrize("word", list(Word))
def test_each_button_of_ours_is_known(word: Word) -> None:
    said = parse(INTERACTIVE, click(action_id=f"quarantine.{word.value}"))
    assert isinstance(said, Click)
    assert said.word is word


def test_what_our_buttons_say_is_read_back(make_report: Callable[..., CaseReport]) -> None:
    """The outbound half and this one agree on names and values."""
    card = Card(report=make_report(key=ABOUT.case), phase=Phase.QUARANTINED, asks=True)
    (block,) = actions(card)
    buttons = [{key: element[key] for key in ("action_id", "value")} for element in block["elements"]]
    said = [parse(INTERACTIVE, click(**button)) for button in buttons]
    assert all(isinstance(one, Click) and one.about == ABOUT for one in said)
    assert [one.word for one in said if isinstance(one, Click)] == list(Word)


def test_a_form_says_why_and_for_how_long() -> None:
    assert parse(INTERACTIVE, submission(why=" later\n")) == Form(
        Word.DEFER, ABOUT, ANN, "later", timedelta(hours=4), "V00000001"
    )
    alarm = parse(INTERACTIVE, submission("dismiss", why="sensor is broken", chosen=""))
    assert isinstance(alarm, Form)
    assert (alarm.word, alarm.reason, alarm.wait) == (Word.DISMISS, "sensor is broken", None)
    silent = parse(INTERACTIVE, submission(why=None, chosen="24h"))
    assert isinstance(silent, Form)
    assert (silent.reason, silent.wait) == ("", timedelta(hours=24))


def test_a_command_is_its_text() -> None:
    assert parse(COMMANDS, COMMAND) == Slash(
        "explain gpu-017", ANN, "C0GPUOPS", "https://hooks.slack.com/commands/1", "12.34.abc"
    )


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        ("events_api", {}, "none of ours"),
        (INTERACTIVE, None, "cannot be read"),
        (INTERACTIVE, [], "cannot be read"),
        (INTERACTIVE, {"type": "shortcut"}, "none of ours"),
        (INTERACTIVE, {"type": 7}, "cannot be read"),
        (INTERACTIVE, click(action_id="other.approve"), "none of ours"),
        (INTERACTIVE, click(action_id="quarantine.explode"), "none of ours"),
        (INTERACTIVE, click(value=""), "cannot be read"),
        (INTERACTIVE, click(value="[" * 1900), "cannot be read"),
        (INTERACTIVE, click(value='{"case": "q-1"}'), "cannot be read"),
        (INTERACTIVE, click(value='{"case": "q-1\\n", "node": "gpu-017"}'), "cannot be read"),
        (INTERACTIVE, click(value='{"case": "q-1", "node": "<!here>"}'), "cannot be read"),
        (INTERACTIVE, click(value='{"case": "q-1", "node": "' + "n" * 254 + '"}'), "cannot be read"),
        (INTERACTIVE, click() | {"actions": []}, "cannot be read"),
        (INTERACTIVE, click() | {"actions": click()["actions"] * 2}, "cannot be read"),
        (INTERACTIVE, click() | {"user": {"id": "ann", "team_id": "T0SANDBOX"}}, "cannot be read"),
        (INTERACTIVE, click() | {"user": {"id": "U0ANN"}}, "cannot be read"),
        (INTERACTIVE, click() | {"container": {"type": "view"}}, "cannot be read"),
        (INTERACTIVE, submission("approve"), "none of ours"),
        (INTERACTIVE, submission(chosen=""), "for how long"),
        (INTERACTIVE, submission(chosen="400h"), "for how long"),
        (INTERACTIVE, submission(why="x" * 2001), "cannot be read"),
        (COMMANDS, COMMAND | {"text": 7}, "cannot be read"),
        (COMMANDS, {}, "cannot be read"),
    ],
)
def test_what_is_none_of_ours_is_nothing_with_a_reason(kind: str, payload: object, why: str) -> None:
    said = parse(kind, payload)
    assert isinstance(said, Nothing)
    assert why in said.why
    assert len(said.why) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60)
@given(st.sampled_from([click(), submission(), COMMAND]), st.data())
def test_no_payload_whatever_makes_it_fail(payload: dict[str, Any], data: st.DataObject) -> None:
    """Any part of a sound payload may be anything else."""
    spoilt = copy.deepcopy(payload)
    part: Any = spoilt
    while isinstance(part, dict | list) and part:
        key = data.draw(st.sampled_from(sorted(part) if isinstance(part, dict) else range(len(part))))
        if not isinstance(part[key], dict | list) or data.draw(st.booleans()):
            part[key] = data.draw(JSON)
            break
        part = part[key]
    for kind in (INTERACTIVE, COMMANDS):
        parse(kind, spoilt)


def test_what_is_asked_carries_the_case_the_person_and_their_groups() -> None:
    said = parse(INTERACTIVE, click())
    assert isinstance(said, Click)
    member = Member("U0ANN", "ann", ("S0APPROVE",))
    request = requested(said, member, NOW, kind=RequestKind.APPROVE)
    assert (request.kind, request.node, request.case) == (RequestKind.APPROVE, "gpu-017", "q-7f3a2b1c05")
    assert (request.actor, request.channel, request.groups) == ("ann (U0ANN)", "slack", ("S0APPROVE",))
    assert (request.at, request.until, request.reason) == (NOW, None, "")


def test_the_same_act_is_the_same_request_and_another_is_another() -> None:
    def id_of(member: str = "U0ANN", kind: RequestKind = RequestKind.APPROVE, at: datetime = NOW, **button: str) -> str:
        said = parse(INTERACTIVE, click(**button))
        assert isinstance(said, Click)
        return requested(said, Member(member), at, kind=kind).id

    other_case = json.dumps({"case": "q-2", "node": "gpu-017"})
    ids = [
        id_of(),
        id_of("U0BOB"),
        id_of(kind=RequestKind.DEFER),
        id_of(action_ts="1764385999.2"),
        id_of(value=other_case),
    ]
    assert id_of(at=NOW + timedelta(hours=1)) == ids[0]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("word", [Word.DEFER, Word.DISMISS])
def test_slack_takes_the_forms_whatever_they_are_about(word: Word) -> None:
    long = About("q-" + "7" * 126, "n" * 253, "C" + "0" * 31, "1" * 12 + "." + "2" * 9)
    for about in (ABOUT, long):
        view = form(word, about)
        assert view_problems(view) == []
        assert json.loads(view["private_metadata"])["node"] == about.node


def test_a_false_alarm_needs_a_reason_and_not_now_needs_none() -> None:
    optional = {
        word: {
            block["block_id"]: block["optional"] for block in form(word, ABOUT)["blocks"] if block["type"] == "input"
        }
        for word in (Word.DEFER, Word.DISMISS)
    }
    assert optional == {Word.DEFER: {"for": False, "why": True}, Word.DISMISS: {"why": False}}
    with pytest.raises(KeyError):
        form(Word.APPROVE, ABOUT)
    assert LONGEST_WHY < 2000


@settings(max_examples=30)
@given(st.lists(st.text(max_size=300) | st.sampled_from(["<!here> @channel", "x" * 5000, "& < >"]), max_size=60))
def test_an_answer_of_any_lines_is_taken_and_calls_nobody(lines: list[str]) -> None:
    blocks, text = shown(lines)
    assert problems_of(blocks) == []
    assert pings_of(text, blocks) == pings_of(text, []) == ()
    assert sum(units(t) for _, t in text_of(blocks)) < 13_000


def test_an_answer_that_is_too_long_says_how_much_is_missing() -> None:
    blocks, _ = shown(["x" * 900] * 100)
    last = blocks[-1]["text"]["text"].splitlines()[-1]
    assert last == f"And {100 - 11} more lines: see the command line."
    assert shown(["one", "two"])[0][0]["text"]["text"] == "one\ntwo"
