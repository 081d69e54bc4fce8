"""The message at a glance, and that nothing from outside becomes a mention, a link or too much."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.adapters.slack import blocks as cards_blocks
from quarantine.adapters.slack.mrkdwn import code, escape, length
from quarantine.core.cards import Card
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine
from quarantine.sandbox.slack.blockkit import pings_of, problems_of, text_of, units

Maker = Callable[..., CaseReport]
FaultMaker = Callable[..., Fault]


def render(report: CaseReport, ticket: str) -> list[dict[str, Any]]:
    return cards_blocks.render(Card(report, ticket=ticket))


def fallback(report: CaseReport, ticket: str) -> str:
    return cards_blocks.fallback(Card(report, ticket=ticket))


def fields(blocks: list[dict[str, Any]]) -> dict[str, str]:
    (section,) = [b for b in blocks if "fields" in b]
    return dict(f["text"].removeprefix("*").split("*\n", 1) for f in section["fields"])


def texts(blocks: list[dict[str, Any]]) -> list[str]:
    return [text for _, text in text_of(blocks)]


def test_it_reads_at_a_glance(make_report: Maker) -> None:
    blocks = render(make_report(), "R-20261129-gpu-017-a3")

    assert [b["type"] for b in blocks] == ["header", "section", "section", "section", "section", "section", "context"]
    assert blocks[0]["text"] == {
        "type": "plain_text",
        "text": "gpu-017: GPU 3 (GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11) suspect, please replace the machine",
        "emoji": False,
    }
    assert blocks[1]["text"]["text"] == "gpu-hot: GPU 3 of gpu-017 was above 78 °C for 5m"
    assert blocks[2]["text"]["text"] == "*Now:* `gpu-017` is out of service."
    assert fields(blocks) == {
        "Node": "`gpu-017`",
        "Machine": "`acme://zone-2/i-0abc`",
        "Device": "`GPU 3 (GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11)`",
        "Since": "`2026-11-29 03:05 UTC`",
        "Measured": "`91.5 °C`",
        "Threshold": "`above 78 °C for 5m, 10% tolerated`",
        "Severity": "`critical`",
        "Pool": "`h100`",
        "Provider": "`acme`",
        "Ticket": "`R-20261129-gpu-017-a3`",
    }
    assert blocks[4]["text"]["text"].startswith("Why it matters: A GPU that runs hotter")
    assert blocks[5]["text"]["text"] == (
        "*Done:* the node is cordoned and tainted: nothing new is scheduled there.\n"
        "*Asked:* please report this machine to its provider `acme` and have it replaced. "
        "Ticket `R-20261129-gpu-017-a3` is filed."
    )
    assert [e["text"] for e in blocks[6]["elements"]] == [
        "Case `gpu-017-a3`",
        "Policy `gpu-hot`",
        "Cluster `lab`",
        "Opened 2026-11-29 03:12 UTC by `controller`",
    ]
    assert problems_of(blocks) == []


def test_the_fallback_says_it_in_one_line(make_report: Maker) -> None:
    assert fallback(make_report(title="gpu-017 suspect", reason="too hot."), "R-1") == (
        "gpu-017 suspect. too hot. Ticket R-1. Case gpu-017-a3."
    )


def test_without_a_ticket_it_says_so(make_report: Maker) -> None:
    blocks = render(make_report(), "")

    assert fields(blocks)["Ticket"] == "–"
    assert blocks[5]["text"]["text"].endswith("No ticket was filed for it.")
    assert "Ticket" not in fallback(make_report(), "")


def test_a_case_that_a_person_opened(make_report: Maker) -> None:
    blocks = render(make_report(faults=(), opened_by="oncall", reason="it smells burnt"), "R-1")

    assert fields(blocks) == {
        "Node": "`gpu-017`",
        "Machine": "`acme://zone-2/i-0abc`",
        "Since": "`2026-11-29 03:12 UTC`",
        "Opened by": "`oncall`",
        "Pool": "`h100`",
        "Provider": "`acme`",
        "Ticket": "`R-1`",
    }
    assert "it smells burnt" in texts(blocks)
    assert problems_of(blocks) == []


def test_what_the_source_does_not_say_is_left_out_or_a_dash(make_report: Maker, make_fault: FaultMaker) -> None:
    blocks = render(
        make_report(reason="", provider="", machine=Machine(node_uid="u"), faults=(make_fault(why="", value=""),)), ""
    )

    assert fields(blocks)["Machine"] == fields(blocks)["Measured"] == fields(blocks)["Provider"] == "–"
    assert problems_of(blocks) == []


def test_what_else_is_known_of_the_machine_is_told_before_what_is_asked(make_report: Maker) -> None:
    known = {
        "swap": "GPU-1 came back <!here>",
        "history": "out of service once",
        "tried": ("reset: failed", "reboot: failed"),
        "evidence_output": "s3://evidence/q-1",
    }
    told = texts(render(make_report(**known), "R-1"))
    for line in (
        "Note: GPU-1 came back &lt;!here&gt;",
        "Before: out of service once",
        "Tried: reset: failed; reboot: failed",
        "Evidence: s3://evidence/q-1",
    ):
        assert line in told
    assert told.index("Evidence: s3://evidence/q-1") < next(n for n, text in enumerate(told) if "*Asked:*" in text)
    assert problems_of(render(make_report(**known), "R-1")) == []


def test_the_worst_finding_leads_and_the_others_follow(make_report: Maker, make_fault: FaultMaker) -> None:
    early = make_fault().since - timedelta(hours=1)
    faults = (
        make_fault(device="GPU 1", severity="warning", since=early),
        make_fault(device="GPU 2", severity="fatal", policy="xid"),
        make_fault(device="GPU 3", severity="fatal", since=early, policy="xid"),
    )
    blocks = render(make_report(faults=faults), "")

    assert fields(blocks)["Device"] == "`GPU 3`"
    (others,) = [t for t in texts(blocks) if t.startswith("*Also found")]
    assert others.splitlines() == [
        "*Also found (2):*",
        "• `fatal` `GPU 2`: `91.5 °C`, `xid`, since 2026-11-29 03:05 UTC",
        "• `warning` `GPU 1`: `91.5 °C`, `gpu-hot`, since 2026-11-29 02:05 UTC",
    ]
    assert "Policy `xid`, `gpu-hot`" in texts(blocks)


def test_sixty_findings_are_counted_not_listed(make_report: Maker, make_fault: FaultMaker) -> None:
    faults = tuple(make_fault(device=f"GPU {n}", policy=f"policy-{n}") for n in range(60))
    title = f"gpu-017: {', '.join(f.device for f in faults)} suspect, please replace the machine"
    blocks = render(make_report(faults=faults, title=title), "R-1")

    assert blocks[0]["text"]["text"] == "gpu-017: 60 devices suspect, please replace the machine"
    (others,) = [t for t in texts(blocks) if t.startswith("*Also found")]
    assert others.splitlines()[0] == "*Also found (59):*"
    assert others.splitlines()[-1] == "… and 51 more"
    assert any(t.endswith("`policy-4` and 55 more") for t in texts(blocks))
    assert problems_of(blocks) == []


@pytest.mark.parametrize("filler", ["x", "<", "&", "`", "😀", "\x00", "<!here> "])
def test_whatever_is_too_long_is_cut_to_what_slack_takes(
    filler: str, make_report: Maker, make_fault: FaultMaker
) -> None:
    long = filler * 5000
    faults = tuple(
        make_fault(
            policy=f"{n}{long}", why=long, device=f"{n}{long}", severity=long, value=long, threshold=long, query=long
        )
        for n in range(60)
    )
    report = make_report(
        key=long,
        cluster=long,
        node=long,
        machine=Machine(node_uid=long, provider_id=long, system_uuid=long),
        pool=long,
        provider=long,
        ask=long,
        title=long,
        reason=long,
        opened_by=long,
        faults=faults,
        swap=long,
        history=long,
        tried=(long,) * 9,
        evidence_output=long,
    )
    blocks = render(report, long)

    assert problems_of(blocks) == []
    assert sum(units(t) for t in texts(blocks)) < 13_000
    assert units(fallback(report, long)) <= 3000
    assert pings_of("", blocks) == ()


HOSTILE = [
    "<!here> <!channel> <!everyone> <@U0123> <!subteam^S1>",
    "@channel @here @Everyone @group",
    "<http://evil.example|the ticket>",
    "`a` ``` b ```",
    "*bold* _it_ ~gone~ :tada:",
    "&lt;!here&gt; &amp;",
    "line\nbreak\r\n> quote",
    "bell\x07 nul\x00 esc\x1b[31m \u202egnp \ud800 \u2028",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_from_outside_neither_calls_nor_links_nor_marks_up(
    hostile: str, make_report: Maker, make_fault: FaultMaker
) -> None:
    def filled(text: str) -> list[dict[str, Any]]:
        fault = make_fault(policy=text, why=text, device=text, value=text, threshold=text, severity=text)
        machine = Machine(node_uid=text, provider_id=text)
        return render(report_of(text, machine, (fault, fault)), text)

    def report_of(text: str, machine: Machine, faults: tuple[Fault, ...]) -> CaseReport:
        names = dict.fromkeys(("key", "cluster", "node", "pool", "provider", "title", "reason", "opened_by"), text)
        return make_report(machine=machine, faults=faults, **names)

    blocks = filled(hostile)
    said = fallback(report_of(hostile, Machine(node_uid=""), ()), hostile)

    assert problems_of(blocks) == []
    assert our_words(blocks) == our_words(filled("harmless"))
    for text in [*texts(blocks), said]:
        for bad in (
            "<",
            ">",
            "@channel",
            "@here",
            "@Everyone",
            "@group",
            "\x07",
            "\0",
            "\x1b",
            "\u202e",
            "\ud800",
            "\r",
        ):
            assert bad not in text
    json.dumps(blocks, ensure_ascii=False).encode()


def our_words(blocks: list[dict[str, Any]]) -> list[list[str]]:
    """What stands outside of code spans where Slack reads markup: nothing from outside may."""
    return [text.split("`")[::2] for kind, text in text_of(blocks) if kind == "mrkdwn"]


def test_no_label_of_a_workload_is_told(make_report: Maker) -> None:
    assert "llm-900b" not in json.dumps(render(make_report(), "R-1")) + fallback(make_report(), "R-1")


@given(st.text(), st.integers(2, 40))
def test_escaped_text_keeps_its_limit_and_no_entity_is_cut(text: str, limit: int) -> None:
    escaped = escape(text, limit)

    assert length(escaped) <= limit
    for entity in ("&amp;", "&lt;", "&gt;"):
        escaped = escaped.replace(entity, "")
    assert not set("&<>") & set(escaped)


@given(st.text(alphabet=st.sampled_from("`<>& a\n@here")), st.integers(4, 40))
def test_a_code_span_has_its_two_backticks_and_no_more(text: str, limit: int) -> None:
    span = code(text, limit)

    assert length(span) <= limit
    if span != "–":
        assert span.startswith("`")
        assert span.endswith("`")
        assert span.count("`") == 2
