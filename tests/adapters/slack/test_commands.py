"""`/quarantine …`: what is understood, what is answered, and what becomes a request. Without Slack."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.adapters.slack.commands import USAGE, WAIVED, Reply, Views, answer
from quarantine.adapters.slack.interactions import Person, Slash
from quarantine.adapters.slack.people import Member
from quarantine.core.decision import RequestKind
from quarantine.core.errors import LedgerUnavailable

NOW = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
ANN = Member("U0ANN", "ann", ("S0APPROVE",))
VIEWS = Views(status=lambda: ["1 node is out"], explain=lambda node: [f"{node} is hot"])


def ask(text: str, occasion: str = "12.34.abc") -> Reply:
    said = Slash(text, Person("U0ANN", "T0SANDBOX"), "C0GPUOPS", "https://hooks.slack.com/commands/1", occasion)
    return answer(said, ANN, VIEWS, NOW)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("status", ["1 node is out"]),
        (" STATUS ", ["1 node is out"]),
        ("explain gpu-017", ["gpu-017 is hot"]),
        ("Explain  gpu-017.rack7", ["gpu-017.rack7 is hot"]),
        ("", list(USAGE)),
        ("help", list(USAGE)),
    ],
)
def test_it_answers_as_the_command_line(text: str, lines: list[str]) -> None:
    assert list(ask(text).lines) == lines
    assert ask(text).request is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("status of gpu-017", "no such command"),
        ("explain", "say which node"),
        ("explain gpu-017 gpu-018", "no node's name"),
        ("explain <!here>", "no node's name"),
        ("explain " + "n" * 254, "no node's name"),
        ("waive", "say which node"),
        ("waive -x because", "no node's name"),
        ("waive gpu-017", "say why"),
        ("waive gpu-017 for 4h", "say why"),
        ("waive gpu-017 for 4 hours it is fine", "no duration"),
        ("waive gpu-017 for 999d it is fine", "outside what a duration may be"),
        ("waive gpu-017 " + "x" * 2001, "say why"),
        ("release gpu-017", "no such command"),
    ],
)
def test_what_is_not_understood_is_told_with_the_usage(text: str, why: str) -> None:
    reply = ask(text)
    assert why in reply.lines[0]
    assert list(reply.lines[1:]) == list(USAGE)
    assert reply.request is None


def test_a_waiver_has_a_node_an_end_and_a_reason() -> None:
    reply = ask("waive gpu-017 for 1h30m the run  ends soon")
    request = reply.request
    assert request is not None
    assert (request.kind, request.node, request.reason) == (RequestKind.WAIVE, "gpu-017", "the run ends soon")
    assert (request.until, request.at) == (NOW + timedelta(minutes=90), NOW)
    assert (request.actor, request.channel, request.case) == ("ann (U0ANN)", "slack", "")
    assert reply.lines[0] == (
        "Your word is with the controller: gpu-017 stays in service for 1h30m, until 2026-11-29 04:42 UTC."
    )


def test_without_a_time_it_is_for_four_hours_and_says_so() -> None:
    reply = ask("waive gpu-017 for the run that ends soon")
    assert reply.request is not None
    assert (reply.request.reason, reply.request.until) == ("for the run that ends soon", NOW + WAIVED)
    assert "for 4h" in reply.lines[0]


def test_the_same_command_delivered_twice_is_one_request_and_typed_twice_is_two() -> None:
    text = "waive gpu-017 it is fine"
    ids = [reply.request.id for reply in (ask(text), ask(text), ask(text, "56.78.def")) if reply.request is not None]
    assert ids[0] == ids[1] != ids[2]


def test_what_the_record_raises_is_raised() -> None:
    def away() -> list[str]:
        raise LedgerUnavailable("away")

    said = Slash("status", Person("U0ANN", "T0SANDBOX"), "C0GPUOPS", "https://hooks.slack.com/x", "1")
    with pytest.raises(LedgerUnavailable):
        answer(said, ANN, Views(status=away, explain=lambda _: []), NOW)


@given(st.text(max_size=100) | st.text(max_size=80).map(lambda text: f"waive gpu-017 for {text}"))
def test_whatever_is_typed_is_answered(text: str) -> None:
    assert ask(text).lines
