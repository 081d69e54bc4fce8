"""YAML without its surprises: what is read, what is refused, and where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles import strictyaml
from quarantine.adapters.policyfiles.strictyaml import YamlFault, load_one, load_strict, read_text
from quarantine.core.errors import UsageError


def fault(text: str) -> YamlFault:
    with pytest.raises(YamlFault) as caught:
        load_strict(text, "f.yaml")
    return caught.value


def test_plain_python_comes_out() -> None:
    text = """
a: 1
b: [1.5, -2, .5, 1.0e+3, true, false, ~, null, "yes", 'x', plain text, 10%, 5m, mlx5_0/1, =]
c: {d: ""}
e: |
  two
  lines
f:
"""
    assert load_strict(text, "f")[0].data == {
        "a": 1,
        "b": [1.5, -2, 0.5, 1000.0, True, False, None, None, "yes", "x", "plain text", "10%", "5m", "mlx5_0/1", "="],
        "c": {"d": ""},
        "e": "two\nlines\n",
        "f": None,
    }


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("a:\n\tb: 1", (2, 1), "tab"),
        ("a:\tb", (1, 3), "tab"),
        ("a: 1\nb: 2\na: 3", (3, 1), "the key `a` is there twice, first in line 1"),
        ("x:\n  - {a: 1, a: 2}", (2, 12), "twice"),
        ("a: &x 1", (1, 4), "anchors"),
        ("a: &x [1]\nb: *x", (1, 4), "anchors"),
        ("a: *x", (1, 4), "aliases"),
        ("a: 1\n<<: {b: 1}", (2, 1), "merge keys"),
        ("a: !!python/object/apply:os.system [id]", (1, 4), "tags"),
        ("a: !!str 5", (1, 4), "tags"),
        ("a: !secret x", (1, 4), "tags"),
        ("a: ! x", (1, 4), "tags"),
        ("%YAML 1.2\n---\na: 1", (1, 1), "directives"),
        ("%TAG ! tag:x,2000:\n---\na: 1", (1, 1), "directives"),
        ("a: 1\n5: b", (2, 1), "a key must be text, and this is a number"),
        ("true: b", (1, 1), "a key must be text, and this is true or false"),
        ("~: b", (1, 1), "a key must be text, and this is nothing"),
        ("? [a]\n: b", (1, 3), "a key must be text, and this is a list or a mapping"),
        ("on: push", (1, 1), "`on` is a boolean to some"),
        ("a: yes", (1, 4), "`yes` is a boolean to some"),
        ("a: Off", (1, 4), "`Off` is a boolean to some"),
        ("a: True", (1, 4), "only in lower case"),
        ("a: 1:30", (1, 4), "base 60"),
        ("a: 12:30:45.5", (1, 4), "base 60"),
        ("a: 017", (1, 4), "octal"),
        ("a: 08", (1, 4), "octal"),
        ("a: 0o17", (1, 4), "a number to some"),
        ("a: 0x1F", (1, 4), "a number to some"),
        ("a: 1_000", (1, 4), "a number to some"),
        ("a: 1e3", (1, 4), "a number to some"),
        ("a: 2026-11-29", (1, 4), "a date to some"),
        ("a: 2026-11-29T01:02:03Z", (1, 4), "a date to some"),
        ("a: .nan", (1, 4), "`.nan` is no number"),
        ("a: -.INF", (1, 4), "`-.INF` is no number"),
        ("a: 9.0e+999", (1, 4), "too large"),
        ("a: " + "9" * 5000, (1, 4), "more than 40 characters"),
        ("a: 1\nb: x\0y", (2, 5), "NUL"),
        ("a: 1 # \u2028b: 2", (1, 8), "U+2028"),
        ("a: \u202eb", (1, 4), "U+202E"),
        ('a: "\\0"', (1, 4), "NUL"),
        ('a: "\\ud800"', (1, 4), "half a character"),
        ('b: 1\na: "\\U00110000"', (2, 5), "names no character"),
        ("a: 'b\n\n", (1, 4), "a quote is opened and never closed"),
        ("a: [1, 2\nb: 3", (2, 2), "not closed"),
        ("a:\n - b\n c: d", (3, 2), "line up"),
        ("a: b: c", (1, 5), "colon"),
        ("a: @x", (1, 4), "may not begin with this"),
        ("- a", (1, 1), "a document is a mapping of keys to values, and this is a list"),
        ("just text", (1, 1), "and this is text"),
        ("", (1, 1), "the file is empty"),
        ("# nothing\n", (1, 1), "the file is empty"),
        ("a: 1\n---\n", (3, 1), "this document is empty"),
        ("a: 1\n...\nb: 1", (3, 1), "a value was expected"),
        ("[" * 5000, (1, 52), "deeper than 50"),
        ("a:\n" + "- " * 5000, (2, 101), "deeper than 50"),
        ("a: " + "{a: " * 5000, (1, 204), "deeper than 50"),
        ("a: x" + "x" * strictyaml.MAX_BYTES, (1, 1), "larger than 1 MiB"),
        ("a: [" + "1," * 30_000 + "1]", (1, 40_001), "more than 20000 values"),
    ],
)
def test_refused_with_one_sentence_and_its_place(text: str, place: tuple[int, int], part: str) -> None:
    found = fault(text)
    assert (found.line, found.column) == place
    assert part in found.message
    assert str(found).startswith(f"f.yaml:{place[0]}: ")
    assert "\n" not in str(found)
    assert isinstance(found, UsageError)


def test_a_refused_number_is_not_repeated_since_it_may_be_a_password() -> None:
    for secret in ("0123456", "1_234_5", "12:34:56", "9" * 50, "&hunter2", "*hunter2", "!hunter2"):
        assert secret.strip("&*!") not in str(fault(f"password: {secret}"))


def test_depth_of_fifty_is_read() -> None:
    document = load_strict("a: " + "[" * 49 + "x" + "]" * 49, "f")[0]
    assert document.place(("a", *[0] * 49)) == (1, 53)


def test_places_of_values_and_keys() -> None:
    document = load_strict("a: 1\nb:\n  c: x\n  d:\n    - 1\n    - e: 2\nf: {g: 3}\n", "f")[0]
    assert document.place(()) == (1, 1)
    assert document.place(("a",)) == (1, 4)
    assert document.place(("a",), key=True) == (1, 1)
    assert document.place(("b",)) == (2, 1), "of a block, the line of its key"
    assert document.place(("b", "c")) == (3, 6)
    assert document.place(("b", "d", 1)) == (6, 7)
    assert document.place(("b", "d", 1, "e")) == (6, 10)
    assert document.place(("f", "g"), key=True) == (7, 5)
    assert document.place(("b", "missing", "deeper")) == (2, 1), "the nearest ancestor that exists"
    assert document.place(("b", "missing"), key=True) == (2, 1)


def test_the_text_of_a_document_is_its_own() -> None:
    first = "# head\na: 1\n# inside\nb: 2 # tail\n\n# about the next\n"
    second = "---\n# head 2\nc: |\n  x\n  # text\n# after\n"
    text = first + second + "---\nd: [1,\n 2]\n"
    documents = load_strict(text, "f")
    assert [d.text for d in documents] == [
        "a: 1\n# inside\nb: 2 # tail\n",
        "c: |\n  x\n  # text\n",
        "d: [1,\n 2]\n",
    ]
    assert [d.line for d in documents] == [2, 9, 14]


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_change_neither_text_nor_places(ending: str) -> None:
    text = "a:\n  b: 1\n---\nc: |\n  x\n  y\n"
    other = load_strict(text.replace("\n", ending), "f")
    assert [(d.data, d.text, d.values) for d in load_strict(text, "f")] == [(d.data, d.text, d.values) for d in other]


def test_settings_may_be_empty_but_are_one_document() -> None:
    for nothing in ("", "# later\n", "---\n"):
        document = load_one(nothing, "s.yaml")
        assert document.data == {}
        assert document.place(("a", "b")) == (1, 1)
    assert load_one("a: 1", "s.yaml").data == {"a": 1}
    with pytest.raises(YamlFault, match=r"s\.yaml:3: a second document begins here"):
        load_one("a: 1\n---\nb: 2\n", "s.yaml")


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load_strict(read_text(file), "f")[0].place(("a",), key=True) == (1, 1)


def test_bytes_that_are_not_utf8_have_a_place(tmp_path: Path) -> None:
    file = tmp_path / "latin1.yaml"
    file.write_bytes("a: ok\r\nb: größe\r\n".encode("latin-1"))
    with pytest.raises(YamlFault, match=r"latin1\.yaml:2: the byte 0xf6 is not UTF-8") as caught:
        read_text(file)
    assert caught.value.column == 6


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    with file.open("wb") as opened:
        opened.truncate(10 * 1024**3)  # sparse: reading all of it would take long, and a lot of memory
    with pytest.raises(YamlFault, match="larger than 1 MiB"):
        read_text(file)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    for name, part in (
        ("pipe.yaml", "is no plain file"),
        ("loop.yaml", "cannot be read: too many levels of symbolic links"),
        ("absent.yaml", "cannot be read: no such file or directory"),
    ):
        with pytest.raises(YamlFault, match=part) as caught:
            read_text(tmp_path / name)
        assert (caught.value.line, caught.value.column) == (1, 1)
