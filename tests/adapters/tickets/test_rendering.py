"""What a ticket says, and that nothing from outside becomes markup; a CommonMark parser is the judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.adapters.tickets.markdown import clean, code, code_block, escape, one_line
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine
from quarantine.core.tickets import Update

Maker = Callable[..., CaseReport]
PARSER = MarkdownIt("gfm-like", {"linkify": False})

HOSTILE = [
    "plain",
    "a | b | c",
    "`tick` and ``two`` and ```three```",
    "```\n# broken out\n```",
    "<script>alert(1)</script>",
    "<!-- hidden -->",
    "[click](http://evil.example/x)",
    "![img](http://evil.example/x.png)",
    "<http://evil.example>",
    "http://evil.example www.evil.example x@evil.example",
    "@everyone @acme/all #12",
    "# heading",
    "text\n===",
    "1. item",
    "- item",
    "> quote",
    "**bold** _it_ ~~gone~~ *x*",
    "&lt;b&gt; &amp; &#60;",
    "back\\slash \\`",
    "bell\x07 nul\x00 esc\x1b[31m",
    "rtl \u202egnp.exe",
    "lone \ud800 surrogate",
    "[ref]: http://evil.example",
    "line\u2028separator",
    "$x$ {{ 7*7 }} {% raw %}",
    "    indented",
    "~~~\nfence",
    "| a |\n|---|\n| b |",
]


@pytest.fixture
def markdown(tickets: DirectoryTickets, folder: Path) -> Callable[[CaseReport], str]:
    def file(report: CaseReport) -> str:
        ref = tickets.open(report).ref
        return (folder / f"{ref}.md").read_text(encoding="utf-8")

    return file


def test_a_ticket_says_what_where_since_when_and_what_is_asked(
    markdown: Callable[[CaseReport], str], make_report: Maker
) -> None:
    text = markdown(make_report())

    for line in (
        "**Ticket `R-20261129-gpu-017-a3`**, status `open`, filed 2026-11-29 03:12:15 UTC",
        "**Asked** (`report`): Please take this report of a suspect machine, and replace the machine.",
        "gpu-hot: GPU 3 of gpu-017 was above 78 °C for 5m",
        "- Node: `gpu-017`",
        "- Provider: `acme`",
        "- Provider's machine id: `acme://zone-2/i-0abc`",
        "- System UUID: `4c4c4544-0042-3510-8052-b4c04f4d4d32`",
        "- Pool: `h100`, cluster `lab`",
        "### 1. GPU: `GPU 3 (GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11)`",
        "- Severity: critical",
        "- Since: 2026-11-29 03:05:05 UTC",
        "- Measured: `91.5 °C`",
        "- Threshold: `above 78 °C for 5m, 10% tolerated`",
        "- Policy: `gpu-hot`",
        "- Why it matters: A GPU that runs hotter than its peers throttles, and the whole job waits for it.",
        "- Case: `gpu-017-a3`",
        "- Opened: 2026-11-29 03:12:05 UTC by `controller`",
    ):
        assert line in text.splitlines()
    fences = [t for t in PARSER.parse(text) if t.type == "fence"]
    assert [(t.info, t.content) for t in fences] == [
        ("promql", 'max by (Hostname, UUID) (\n  DCGM_FI_DEV_GPU_TEMP{cluster="lab"}\n) > 78\n')
    ]


def test_the_provider_and_whom_to_ask_are_told_where_the_fleet_file_says(
    markdown: Callable[[CaseReport], str], make_report: Maker
) -> None:
    text = markdown(make_report(provider_description="Acme, contract 4711 *", provider_contact="ops@lab.example"))
    assert "- About the provider: Acme, contract 4711 \\*" in text.splitlines()
    assert "- Contact for questions: `ops@lab.example`" in text.splitlines()
    without = markdown(make_report(key="another"))
    assert "About the provider" not in without
    assert "Contact" not in without


def test_what_else_is_known_of_the_machine_is_told_and_nothing_where_nothing_is(
    markdown: Callable[[CaseReport], str], make_report: Maker
) -> None:
    text = markdown(
        make_report(
            ask="replace",
            swap="GPU-1 that was found bad came back *",
            history="out of service once in the 28 days before; 1 finding by 1 signal; 0 tickets",
            tried=("reset by gpu-reset, begun 2026-11-29 01:00 UTC: succeeded", "reboot by power: failed"),
            evidence_output="s3://evidence/q-1/`x`",
        )
    )
    for line in (
        "**Asked** (`replace`): Please replace this machine.",
        "- Note: GPU-1 that was found bad came back \\*",
        "- The machine before this case: out of service once in the 28 days before; 1 finding by 1 signal; 0 tickets",
        "- Tried: reset by gpu-reset, begun 2026-11-29 01:00 UTC: succeeded",
        "- Tried: reboot by power: failed",
    ):
        assert line in text.splitlines(), text
    assert "- Evidence: " in text
    without = markdown(make_report(key="another"))
    for name in ("Note:", "before this case", "Tried:", "Evidence:"):
        assert name not in without


def test_a_place_and_the_gpus_are_told_where_they_are_known(
    markdown: Callable[[CaseReport], str], make_report: Maker
) -> None:
    known = Machine(node_uid="u", gpus=("GPU-1", "GPU-2"), place="rack=r7/slot=4")
    text = markdown(make_report(machine=known))
    assert "- Place: `rack=r7/slot=4`" in text.splitlines()
    assert "- GPUs: `GPU-1, GPU-2`" in text.splitlines()
    without = markdown(make_report(key="another"))
    assert "Place:" not in without
    assert "GPUs:" not in without


def test_only_hardware_labels_leave_the_cluster(
    markdown: Callable[[CaseReport], str], make_report: Maker, folder: Path
) -> None:
    text = markdown(make_report())
    document = (folder / "R-20261129-gpu-017-a3.json").read_text(encoding="utf-8")

    assert [line for line in text.splitlines() if line.startswith("- Label")] == [
        "- Label `gpu`: `3`",
        "- Label `Hostname`: `gpu-017`",
        "- Label `modelName`: `NVIDIA H100 80GB HBM3`",
        "- Label `UUID`: `GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11`",
    ]
    for secret in ("llm-900b", "secret-project", "train", "4711"):
        assert secret not in text
        assert secret not in document


def test_a_case_opened_by_a_person_has_no_measurement(
    markdown: Callable[[CaseReport], str], make_report: Maker
) -> None:
    text = markdown(make_report(faults=(), opened_by="oncall", reason="first line\n\nsecond line"))

    assert "No measurement: the case was opened by a person, for the reason above." in text
    assert "first line\n\nsecond line\n" in text
    assert "by `oncall`" in text


def test_what_the_source_does_not_say_is_a_dash(markdown: Callable[[CaseReport], str], make_report: Maker) -> None:
    text = markdown(make_report(machine=Machine(node_uid="u"), provider=""))

    assert "- Provider: –" in text
    assert "- System UUID: –" in text


def test_all_of_many_faults_are_told(
    markdown: Callable[[CaseReport], str], make_report: Maker, make_fault: Callable[..., Fault]
) -> None:
    text = markdown(make_report(faults=tuple(make_fault(device=f"GPU {n}") for n in range(60))))

    assert "### 60. GPU: `GPU 59`" in text
    assert len([t for t in PARSER.parse(text) if t.type == "fence"]) == 60


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def shape(text: str) -> list[str]:
    """The document's structure: token types, without the text."""
    return [t.type for t in tokens(text) if t.type not in ("text", "text_special", "softbreak")]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_everywhere_leaves_the_documents_structure_as_it_is(
    hostile: str, tickets: DirectoryTickets, folder: Path, make_report: Maker, make_fault: Callable[..., Fault]
) -> None:
    def filled(text: str, key: str) -> str:
        fault = make_fault(
            policy=text,
            why=text,
            device=text,
            category=text,
            severity=text,
            value=text,
            threshold=text,
            query=text,
            labels=(("gpu", text), ("Hostname", text)),
        )
        machine = Machine(text, provider_id=text, system_uuid=text, boot_id=text, gpus=(text, text), place=text)
        report = make_report(
            key=key,
            cluster=text,
            node=text,
            machine=machine,
            pool=text,
            provider=text,
            provider_description=text,
            provider_contact=text,
            ask=text,
            title=text,
            reason=one_line(text),
            opened_by=text,
            faults=(fault,),
            swap=text,
            history=text,
            tried=(text, text),
            evidence_output=text,
        )
        ref = tickets.open(report).ref
        tickets.update(ref, Update("n", one_line(text)))
        tickets.update(ref, Update("end", text, close=True))
        json.loads((folder / f"{ref}.json").read_bytes())
        return (folder / f"{ref}.md").read_text(encoding="utf-8")

    rendered = filled(hostile, "hostile")

    assert shape(rendered) == shape(filled("harmless", "harmless"))
    links = MarkdownIt("gfm-like", {"linkify": False}).render(rendered)
    for forbidden in ("<script", "<a ", "<img", "<table"):
        assert forbidden not in links
    for forbidden in ("\x00", "\x07", "\x1b", "\u202e"):
        assert forbidden not in rendered


def plain(text: str) -> str:
    return "".join(t.content for t in tokens(text) if t.type in ("text", "text_special", "code_inline", "html_inline"))


@given(st.text())
def test_escaped_prose_reads_as_it_was_and_is_text_only(text: str) -> None:
    rendered = escape(text)

    assert plain(rendered).replace("\u2060", "") == one_line(text).replace("\u2060", "")
    assert set(shape(rendered)) <= {"paragraph_open", "paragraph_close", "inline"}


@given(st.text(alphabet=st.sampled_from("`*_[]()<>!#-+.1 a\\&;~|:/@w=\n")))
def test_escaped_punctuation_reads_as_it_was_and_is_text_only(text: str) -> None:
    rendered = escape(text)

    assert plain(rendered).replace("\u2060", "") == one_line(text)
    assert set(shape(rendered)) <= {"paragraph_open", "paragraph_close", "inline"}


@given(st.text(alphabet=st.sampled_from("`*_[]()<a \\&~|\n")))
def test_nothing_breaks_out_of_a_code_span(text: str) -> None:
    rendered = PARSER.parse(f"before {code(text)} after")

    spans = [t for t in rendered[1].children or () if t.type == "code_inline"]
    assert [s.content for s in spans] == ([one_line(text)] if one_line(text) else [])


@given(st.text(alphabet=st.sampled_from("`~# a\n\r\\<")))
def test_nothing_breaks_out_of_a_code_block(text: str) -> None:
    rendered = PARSER.parse(f"before\n\n{code_block(text, 'promql')}\n\nafter")

    assert [t.type for t in rendered] == [
        *("paragraph_open", "inline", "paragraph_close"),
        "fence",
        *("paragraph_open", "inline", "paragraph_close"),
    ]
    assert rendered[3].content == clean(text).strip("\n") + "\n"


@pytest.mark.parametrize("text", ["@everyone", "#12", "http://evil.example", "WWW.evil.example", "x@evil.example"])
def test_viewers_find_no_mention_and_no_address_to_link(text: str) -> None:
    assert text not in escape(f"see {text} now")
    assert escape(f"see {text} now").replace("\u2060", "").replace("\\", "") == f"see {text} now"
