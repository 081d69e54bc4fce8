"""Text from outside stays text where Markdown is rendered: in cells, in lists, in headings and in code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from quarantine.adapters.tickets.markdown import one_line
from quarantine.cli.markdown import bullets, code, heading, table, written

HOSTILE = [
    "a | b",
    "`code` | more",
    "``|`` \\| \\",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](http://example.invalid/x.png)",
    "@team #12 http://example.invalid",
    "# heading\n- item\n\n1. one",
    "| --- | --- |",
    "\x1b[2J\u202eabc\u2028def",
    "$x$ ~~y~~ **z** _q_",
]


def tokens(lines: list[str]) -> list[Token]:
    return MarkdownIt("gfm-like", {"linkify": False}).parse("\n".join(lines))


def inlines(found: list[Token]) -> list[Token]:
    return [child for token in found if token.type == "inline" for child in token.children or []]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_is_one_cell_of_plain_text(text: str) -> None:
    for cell in (text, code(text)):
        found = tokens(table(["a", "b"], [[cell, "end"]]))
        assert [token.type for token in found].count("td_open") == 2
        assert {child.type for child in inlines(found)} <= {"text", "code_inline"}


@given(st.lists(st.lists(st.text() | st.text().map(code), min_size=3, max_size=3), min_size=1, max_size=4))
def test_any_table_has_its_rows_and_columns(rows: list[list[object]]) -> None:
    found = tokens(table(["a", "b|", "`c`"], rows))
    assert [token.type for token in found].count("td_open") == 3 * len(rows)
    assert {child.type for child in inlines(found)} <= {"text", "code_inline"}


@given(st.text())
def test_any_heading_and_item_is_plain_text(text: str) -> None:
    found = tokens([*heading(text), *bullets([text]), *bullets([text], depth=1)])
    assert [token.type for token in found].count("heading_open") == 1
    assert {child.type for child in inlines(found)} <= {"text", "code_inline"}
    assert not any(token.type in ("html_block", "fence", "code_block") for token in found)


@pytest.mark.parametrize(
    ("said", "copied"),
    [
        ("machine aws:///us-east-1a/i-0abc, boot 1", "aws:///us-east-1a/i-0abc"),
        ("(see http://example.invalid/x.)", "http://example.invalid/x"),
        ("decision #12 stands", "#12"),
        ("by anna@example.invalid: broken", "anna@example.invalid"),
        ("of ib_port:mlx5_0/1", "ib_port:mlx5_0/1"),
        ("of gce://p/`z`/x", "gce://p/`z`/x"),
    ],
)
def test_an_id_is_copied_as_it_is(said: str, copied: str) -> None:
    """From what is rendered and from the text itself: nothing invisible is in it, and no backslash."""
    (line,) = bullets([said])
    assert copied in line
    assert "\u2060" not in line
    found = inlines(tokens([line]))
    assert [child.content for child in found if child.type == "code_inline"] == [copied]
    assert "".join(child.content for child in found) == said


WORDS = st.sampled_from(["@", "#", "1", "a", "://", "www.", "_", "`", "``", "\\", " ", "(", ")", "|", "*", "<", "."])


@given(st.lists(WORDS).map("".join) | st.text())
def test_prose_reads_as_itself(text: str) -> None:
    found = inlines(tokens([f"a {written(text)} b"]))
    assert one_line("".join(child.content for child in found)) == one_line(f"a {one_line(text)} b")


def test_no_rows_are_no_table() -> None:
    assert table(["a"], []) == []


def test_nothing_is_an_empty_cell() -> None:
    assert table(["a", "b"], [[None, 3]])[-2] == "|  | 3 |"
