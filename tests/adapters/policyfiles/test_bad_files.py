"""Files that are hostile, broken or no files: one process reads them all, in little time and memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

MEMORY = 1024 * 1024 * 1024  # of address space: most of it are libraries that are mapped, not used
SECONDS = 45  # on a machine that does other things as well; it takes two

HEAD = "apiVersion: quarantine.gpu/v1alpha1\nkind: Policy\nmetadata: {name: x}\n"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
POLICY = (
    HEAD + "spec:\n  description: d\n  owner: o\n  severity: critical\n  signal: gpu.temperature\n"
    "  trigger: {above: ABOVE, for: 5m}\n"
)

CASES: dict[str, tuple[bytes, int, str]] = {
    "anchors.yaml": (LAUGHS.encode(), 1, "anchors and aliases"),
    "merge.yaml": (b"a: 1\n<<: {b: 1}\n", 2, "merge keys"),
    "duplicate.yaml": (f"{HEAD}kind: Policy\n".encode(), 4, "the key `kind` is there twice"),
    "duplicate-deep.yaml": (
        POLICY.replace("above: ABOVE", "above: 1, above: 2").encode(),
        9,
        "key `above` is there twice",
    ),
    "text-number.yaml": (POLICY.replace("ABOVE", '"78"').encode(), 9, "must be a number, and is text '78'"),
    "nan.yaml": (POLICY.replace("ABOVE", ".nan").encode(), 9, "`.nan` is no number"),
    "infinite.yaml": (POLICY.replace("ABOVE", "-.inf").encode(), 9, "is no number"),
    "huge-number.yaml": (POLICY.replace("ABOVE", "9" * 400).encode(), 9, "more than 40 characters"),
    "octal.yaml": (POLICY.replace("ABOVE", "017").encode(), 9, "begins with a zero is octal"),
    "exponent.yaml": (POLICY.replace("ABOVE", "1e999").encode(), 9, "a number to some YAML readers and text to others"),
    "threshold.yaml": (POLICY.replace("ABOVE", "no-such").encode(), 9, "no threshold is called 'no-such'"),
    "deep-brackets.yaml": (b"kind: " + b"[" * 5000, 1, "nested deeper than 50 levels"),
    "deep-braces.yaml": (b"{a: " * 5000, 1, "nested deeper than 50 levels"),
    "deep-dashes.yaml": (b"- " * 5000, 1, "nested deeper than 50 levels"),
    "deep-keys.yaml": ("".join(" " * n + "a:\n" for n in range(700)).encode(), 52, "nested deeper than 50 levels"),
    "ten-megabytes.yaml": (b"a: b\n" * 2 * 1024 * 1024, 1, "larger than 1 MiB"),
    "many-values.yaml": (b"a: [" + b"1," * 400_000 + b"]", 1, "more than 20000 values"),
    "long-line.yaml": (b"kind: " + b"x" * 1_000_000, 1, "there is no kind text 'xxx"),
    "not-utf8.yaml": (HEAD.encode() + b"spec: \xff\n", 4, "0xff is not UTF-8"),
    "utf16.yaml": ("kind: Policy\n".encode("utf-16"), 1, "is not UTF-8"),
    "nul.yaml": (HEAD.encode() + b"spec: \0\n", 4, "NUL"),
    "escape.yaml": (b'kind: "\x1b[31mred"\n', 1, "U+001B"),
    "bidi.yaml": ("kind: Policy # \u202e evil\n".encode(), 1, "U+202E"),
    "half-character.yaml": (b'kind: "\\ud800"\n', 1, "half a character"),
    "empty.yaml": (b"", 1, "the file is empty"),
    "only-comment.yaml": (b"# nothing\n", 1, "the file is empty"),
    "only-bom.yaml": (b"\xef\xbb\xbf", 1, "the file is empty"),
    "empty-document.yaml": (b"---\n---\n", 2, "this document is empty"),
    "python-tag.yaml": (b"kind: !!python/object/apply:os.system [touch /tmp/x]\n", 1, "tags"),
    "own-tag.yaml": (b"kind: !secret x\n", 1, "tags"),
    "directive.yaml": (b"%TAG ! tag:x,2000:\n---\na: 1\n", 1, "directives"),
    "tabs.yaml": (HEAD.encode() + b"spec:\n\tdescription: d\n", 5, "a tab stands here"),
    "crlf.yaml": ((HEAD + "speck: {}\n").replace("\n", "\r\n").encode(), 4, "unknown field `speck`"),
    "bom.yaml": (b"\xef\xbb\xbf" + HEAD.encode() + b"speck: {}\n", 4, "unknown field `speck`"),
    "scalar.yaml": (b"just text\n", 1, "a document is a mapping"),
    "list.yaml": (b"- a\n- b\n", 1, "a document is a mapping"),
    "json.yaml": (b'{"kind": "Policy", "apiVersion": 1}', 1, "apiVersion is the number 1"),
    "number-key.yaml": (b"1: a\n", 1, "a key must be text"),
    "list-key.yaml": (b"? [a]\n: b\n", 1, "a key must be text"),
    "no-version.yaml": (b"kind: Fleet\n", 1, "apiVersion is missing"),
    "open-quote.yaml": (b'kind: "Policy\nspec: 1\n', 1, "a quote is opened and never closed"),
    "binary.yaml": (bytes(range(256)), 3, "0x80 is not UTF-8"),
}
DOUBLE = {"crlf.yaml", "bom.yaml", "no-version.yaml"}  # what else they lack is told as well


def checked(*paths: Path, code: int = 1) -> list[dict[str, Any]]:
    """The faults that the command line tells, with little memory to do it in."""
    began = monotonic()
    limit: Callable[[], None] = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # noqa: E731
    command = [sys.executable, "-m", "quarantine", "policy", "check", "--output", "json", *map(str, paths)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=90, check=False, preexec_fn=limit, env=environment
    )
    assert done.returncode == code, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert monotonic() - began < SECONDS
    found: list[dict[str, Any]] = json.loads(done.stdout)
    for fault in found:
        assert fault["line"] >= 1
        assert fault["column"] >= 1
        assert "\n" not in fault["message"]
        assert len(fault["message"]) <= 400
    return found


def test_each_bad_file_is_told_in_one_sentence_with_its_place_and_stops_no_other(policies: Path) -> None:
    for name, (content, _, _) in CASES.items():
        own = f"{{name: {Path(name).stem}}}".encode()  # two of one name would be one more fault
        (policies / name).write_bytes(content.replace(b"{name: x}", own))
    by_file: dict[str, list[dict[str, Any]]] = {}
    for fault in checked(policies):
        by_file.setdefault(Path(fault["file"]).name, []).append(fault)
    assert by_file.keys() == CASES.keys(), "and nothing is said of the sample's own files"
    for name, (_, line, message) in CASES.items():
        faults = by_file[name]
        assert len(faults) == 1 or name in DOUBLE, faults
        assert any(fault["line"] == line and message in fault["message"] for fault in faults), (name, faults)


def test_what_is_no_file_is_told_where_it_stands(policies: Path) -> None:
    (policies / "loop.yaml").symlink_to("loop.yaml")
    (policies / "gone.yaml").symlink_to("nowhere.yaml")
    (policies / "directory.yaml").mkdir()
    (policies / "directory.yaml" / "round").symlink_to(policies)
    os.mkfifo(policies / "pipe.yaml")
    (policies / "device.yaml").symlink_to("/dev/zero")
    found = {Path(f["file"]).name: f["message"] for f in checked(policies)}
    assert found == {
        "loop.yaml": "the file cannot be read: too many levels of symbolic links",
        "gone.yaml": "the file cannot be read: no such file or directory",
        "round": "this symbolic link leads to a directory that it is in",
        "pipe.yaml": "is no plain file",
        "device.yaml": "is no plain file",
    }


@pytest.mark.parametrize("name", ["missing", "pipe", "loop"])
def test_a_path_that_is_given_and_cannot_be_read_is_one_fault(policies: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
    elif name == "loop":
        path.symlink_to(path)
    assert [Path(f["file"]).name for f in checked(path, policies)] == [name]
