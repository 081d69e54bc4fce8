"""`quarantine policy show HASH`: what a version said that decided, long after the file has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.ledger.samples import NOW, held

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("still")


@dataclass(frozen=True)
class Written:
    name: str
    hash: str
    text: str
    revision: str | None


ONE = Written(name="gpu-hot", hash="abcd" + "1" * 60, text="kind: Policy\nspec: {}\n", revision="r1")
TWO = Written(name="gpu-warm", hash="abce" + "2" * 60, text="red: \x1b[31m\r\n\tkept", revision=None)


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    with open_ledger(url, "default", now=lambda: NOW) as made:
        made.record(made.take_term("pod"), [held("a")], [ONE, TWO])
        yield made


@pytest.fixture
def run(url: str, ledger: SqlLedger) -> Run:
    return lambda *arguments: CliRunner().invoke(app, ["policy", "show", *arguments, "--database-url", url])


@pytest.mark.parametrize("given", ["abcd", "ABCD1", "abcd11111111…", ONE.hash])
def test_the_beginning_of_its_hash_suffices(run: Run, given: str) -> None:
    result = run(given)
    assert result.exit_code == 0, result.output
    assert result.stdout == ONE.text
    assert result.stderr == f"gpu-hot, {ONE.hash}, revision r1, first seen {NOW:%Y-%m-%d %H:%M} UTC\n"


def test_letter_for_letter_as_json(run: Run) -> None:
    told = json.loads(run("abce", "--output", "json").stdout)
    assert told == {
        "name": "gpu-warm",
        "hash": TWO.hash,
        "revision": None,
        "first_seen": NOW.isoformat().replace("+00:00", "Z"),
        "text": TWO.text,
    }


def test_markdown_has_it_as_code(run: Run) -> None:
    told = run("abcd", "--output", "markdown").stdout
    assert told.endswith("\n\n```yaml\nkind: Policy\nspec: {}\n```\n")
    assert told.startswith(f"gpu-hot, {ONE.hash}, revision r1, first seen ")


def test_no_text_moves_the_cursor_of_a_terminal(run: Run) -> None:
    assert run("abce").stdout == "red: \ufffd[31m\n\tkept\n"


@pytest.mark.parametrize("given", ["abc", "xyzw", "abcd%", "a" * 65])
def test_what_is_no_hash(run: Run, given: str) -> None:
    result = run(given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no hash of a policy" in result.stderr


def test_one_that_nothing_begins_with(run: Run) -> None:
    result = run("abcf")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "begins with abcf" in result.stderr


def test_several_are_told_apart(url: str, ledger: SqlLedger, run: Run) -> None:
    third = Written(name="gpu-hot", hash="abcd" + "3" * 60, text="x", revision=None)
    ledger.record(ledger.take_term("pod"), [held("b")], [third])
    result = run("abcd")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "abcd11111111 (gpu-hot), abcd33333333 (gpu-hot)" in result.stderr
    assert run("abcd3").stdout == "x\n"


def test_of_another_cluster_is_not_found(run: Run) -> None:
    assert run("abcd", "--cluster", "other").exit_code == 1
