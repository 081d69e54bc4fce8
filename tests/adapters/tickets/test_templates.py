"""A target's own templates: what they may say, that nothing becomes markup by them, and what happens when they fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from quarantine.adapters.tickets import render
from quarantine.adapters.tickets.example import EXAMPLES, FULL
from quarantine.adapters.tickets.letter import Letter, Letters, letter
from quarantine.adapters.tickets.prepared import Prepared
from quarantine.adapters.tickets.record import record_of
from quarantine.adapters.tickets.render import NAMES, Templates
from quarantine.adapters.tickets.targets import Context, target
from quarantine.core import letters as core
from quarantine.core.errors import UsageError
from quarantine.core.letters import CaseReport
from quarantine.core.tickets import Update

NOW = datetime(2026, 11, 29, tzinfo=UTC)
HOSTILE = "@team <b>x</b> [a](http://evil.example) `c` # *b*\n# heading"


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Templates]:
    def write(**templates: str) -> Templates:
        folder = tmp_path / "letters"
        folder.mkdir(exist_ok=True)
        for name, text in templates.items():
            (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
        return Templates(folder)

    return write


Written = Callable[..., Templates]


def letter_of(templates: Templates, report: CaseReport = FULL) -> Letter:
    return Letters(templates, "desk").letter(report)


def test_what_is_not_there_is_the_shipped_one(written: Written) -> None:
    said = letter_of(written(title_j2="RMA: {{ ticket.node }}"))
    shipped = letter(FULL)
    assert (said.title, said.markdown, said.text) == ("RMA: gpu-017", shipped.markdown, shipped.text)


def test_all_facts_can_be_said(written: Written) -> None:
    text = (
        "{{ ticket.provider }}|{{ ticket.machine.place }}|{{ ticket.machine.gpus | join('+') }}|{{ asked }}|"
        "{% for f in ticket.faults %}{{ f.category }} {{ f.since | utc }} {{ f.labels.gpu }}{% endfor %}|"
        "{{ ticket.assets.serial | default('none') }}|{{ ticket.contact }}|{{ ticket.key | code }}|"
        "{{ ticket.tried | join('; ') }}"
    )
    said = letter_of(written(report_txt_j2=text)).text.split("|")
    assert said[1] == "rack=r7/slot=4"
    assert said[4:6] == ["GPU 2026-01-01 03:05:05 UTC 3", "123456"]
    assert said[7] == "gpu-017-a3"


@pytest.mark.parametrize(
    "put",
    [
        "{{ ticket.reason }}",
        "{{ ticket.reason | upper }}",
        "{{ ticket.reason | safe }}",
        "{{ '**' ~ ticket.reason ~ '**' }}",
        "{{ ticket.reason | code | replace('`', '') }}",
        "{% set x %}{{ ticket.reason }}{% endset %}{{ x }}",
        "{% macro m(v) %}{{ v }}{% endmacro %}{{ m(ticket.reason) }}",
        "{{ ticket.tried | join(', ') }}",
        "{{ [ticket.reason] }}",
        "{{ ticket.reason | prose }}",
        "{{ ticket.assets | dictsort }}",
        "{{ ('%s' | code) % ticket.reason }}",
        "{{ ('%s' | code) | format(ticket.reason) }}",
        "{{ '{}'.format(ticket.reason) }}",
        "{{ ticket.reason | code | string | trim }}",
        "{{ [ticket.reason | prose] | join | replace('\\\\', '') }}",
    ],
)
def test_an_author_cannot_forget_to_escape(written: Written, put: str) -> None:
    report = replace(FULL, reason=HOSTILE, tried=(HOSTILE,), assets=((HOSTILE, HOSTILE),))
    said = letter_of(written(report_md_j2=f"Dear all, {put}"), report).markdown
    assert "team" in said.lower()
    for live in ("@team", "<b>", "[a](", "://evil", "\n# "):
        assert live not in said.lower()


def test_a_value_makes_no_line_of_the_text_and_no_second_title(written: Written) -> None:
    report = replace(FULL, reason=HOSTILE)
    own = written(report_txt_j2="{{ ticket.reason }}\n{{ ticket.reason | code }}\nend", title_j2="{{ ticket.reason }}")
    said = letter_of(own, report)
    assert len(said.text.splitlines()) == 3
    assert len(said.title.splitlines()) == 1


def test_a_part_that_both_have_can_be_written_anew(written: Written) -> None:
    own = written(case_md_j2="Serial {{ ticket.assets.serial | default('unknown') | code }}\n")
    assert "Serial `123456`" in letter_of(own).markdown
    record = record_of(FULL, ref="R-20260101-x", filed_at=NOW)
    page = Letters(own, "desk").page(record)
    assert page.startswith("# gpu-017")
    assert "Serial `123456`" in page


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("title_j2", "{{ ticket.nodee }}", "title.j2:1: 'dict object' has no attribute 'nodee'"),
        ("report_md_j2", "\n\n{% if %}", "report.md.j2:3: "),
        ("report_md_j2", "a\n{{ ticket.node | shout }}", "report.md.j2:2: No filter named 'shout'"),
        ("report_txt_j2", "{{ ticket.reason | prose }}", "report.txt.j2:1: No filter named 'prose'"),
        ("report_txt_j2", "\n{{ 1 / 0 }}", "report.txt.j2:2: division by zero"),
        ("report_md_j2", "{% include 'none.j2' %}", "report.md.j2:1: "),
        ("report_md_j2", "{% include '../secret' %}", "report.md.j2:1: "),
        ("report_md_j2", "{% for i in range(90000) %}abcdefabcdefabcdefabcdef{% endfor %}", "it renders more than"),
        ("report_md_j2", "{% for i in range(10 ** 9) %}{% endfor %}", "Range too big"),
        ("report_md_j2", "{{ ticket.node.__class__.__mro__ }}", "report.md.j2:1: access to attribute '__class__'"),
        ("report_md_j2", "{{ ticket.faults.append(1) }}", "report.md.j2:1: "),
        ("report_md_j2", "{{ ('{}' | code).format(ticket.reason) }}", "report.md.j2:1: access to attribute 'format"),
        ("report_md_j2", "{{ ('{}' | code)['format'](ticket.reason) }}", "report.md.j2:1: access to attribute 'format"),
        (
            "report_md_j2",
            "{{ (('{}' | code) | attr('format'))(ticket.reason) }}",
            "report.md.j2:1: access to attribute 'format",
        ),
        (
            "report_md_j2",
            "{{ ('{a}' | code).format_map({'a': ticket.reason}) }}",
            "report.md.j2:1: access to attribute 'format",
        ),
        ("report_md_j2", "{{ 'x' | code_block(ticket.reason) }}", "the language of a code block must be a word"),
        ("report_md_j2", "{{ ticket.faults[0].labels.gpu }}", "report.md.j2:1: "),  # a person's case has no fault
        ("ticket_md_j2", "\n{{ ticket.unheard_of }}", "ticket.md.j2:2: "),
        ("case_md_j2", "\n\n{{ ticket.unheard_of }}", "case.md.j2:3: "),
    ],
)
def test_one_that_fails_on_an_example_is_refused_at_start_with_its_place(
    written: Written, tmp_path: Path, name: str, text: str, words: str
) -> None:
    own = written(**{name: text})
    with pytest.raises(UsageError) as caught:
        Letters(own, "desk")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "letters") in str(caught.value)


def test_the_shipped_ones_are_bounded_by_what_they_tell_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "LONGEST", 10)
    assert len(letter(FULL).markdown) > 10


def test_a_folder_without_templates_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match=r"has none of the templates title\.j2"):
            Templates(folder)


def test_a_folder_that_has_gone_is_said(written: Written, tmp_path: Path) -> None:
    own = Letters(written(title_j2="mine"), "desk")
    (tmp_path / "letters").rename(tmp_path / "elsewhere")
    assert own.letter(FULL) == letter(FULL)
    assert "has none of the templates" in own.fault


def test_every_shipped_template_is_named(tmp_path: Path) -> None:
    shipped = Path(render.__file__).parent / "templates"
    assert {path.name for path in shipped.iterdir()} == set(NAMES)


def test_one_that_fails_later_gives_way_to_the_shipped_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "report.md.j2").write_text("{{ 1 / (ticket.node | length - 3) }}")
    options = {"directory": str(tmp_path / "out"), "templates": str(folder)}
    desk = target("directory", options, Context("lab", lambda: NOW, None, "disk"))

    with capture_logs() as logs:
        ticket = desk.open(replace(FULL, node="abc"))
        desk.update(ticket.ref, Update("a-1", "more"))

    assert f"the shipped template was used, since {folder}/report.md.j2:1: division by zero" in ticket.note
    assert {(line["log_level"], line["target"]) for line in logs} == {("warning", "disk")}
    page = (tmp_path / "out" / f"{ticket.ref}.md").read_text(encoding="utf-8")
    assert "## Machine" in page
    assert "more" in page
    assert desk.open(replace(FULL, key="another-1", title="x")).note == "", "the next one is well again"


def test_a_template_is_read_anew_when_it_has_changed(written: Written, tmp_path: Path) -> None:
    own = Letters(written(title_j2="one {{ ticket.node }}"), "desk")
    assert own.letter(FULL).title == "one gpu-017"
    (tmp_path / "letters" / "title.j2").write_text("another {{ ticket.node }}")
    assert own.letter(FULL).title == "another gpu-017"


def test_the_directory_speaks_the_providers_words(tmp_path: Path) -> None:
    options = {"directory": str(tmp_path / "out"), "categories": {"GPU": "Hardware/GPU"}}

    class Known:
        fault = "m.csv:3: it is torn"

        def of(self, report: CaseReport) -> tuple[tuple[str, str], ...]:
            return (("serial", f"of {report.node}"),)

    desk = target("directory", options, Context("lab", lambda: NOW, None, "disk"), Known())
    ticket = desk.open(FULL)
    page = (tmp_path / "out" / f"{ticket.ref}.md").read_text(encoding="utf-8")
    assert "### 1. Hardware/GPU: " in page
    assert "- serial: `of gpu-017`" in page
    assert "- rack: `B12`" in page, "what the report had is kept"
    assert ticket.note == "an earlier asset map was used, since m.csv:3: it is torn"
    assert isinstance(desk, Prepared)


def test_our_categories_are_those_of_the_core() -> None:
    options = {"categories": dict.fromkeys(core._CATEGORY.values(), "x"), "directory": "out"}
    assert target("directory", options, Context("lab", lambda: NOW, None, "disk"))


def test_the_examples_have_what_a_report_can_have() -> None:
    full, sparse = EXAMPLES
    empty = {name for name in CaseReport.__dataclass_fields__ if not getattr(full, name)}
    assert empty == {"channel", "approval"}, "which are of our own people"
    assert (sparse.faults, sparse.assets, sparse.tried) == ((), (), ())
    assert {full.ask, sparse.ask} == {"report", "replace"}
