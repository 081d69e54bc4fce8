"""docs/audit.md and docs/database.md: commands that there are, a script that verifies, and what the code says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quarantine.cli.main import app
from quarantine.ledger import verify
from quarantine.ledger.chain import GENESIS
from quarantine.ledger.engine import LOCK, STATEMENT, make_engine
from quarantine.ledger.export import CSV_COLUMNS, Chosen, json_lines
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import open_ledger
from tests.ledger.samples import CLUSTER, NOW, held, now, quarantined

DOCS = Path(__file__).parents[2] / "docs"
AUDIT = (DOCS / "audit.md").read_text(encoding="utf-8")
DATABASE = (DOCS / "database.md").read_text(encoding="utf-8")


def commands() -> Iterator[list[str]]:
    for line in (AUDIT + DATABASE).splitlines():
        if line.startswith("    quarantine "):
            yield shlex.split(line.partition("|")[0], comments=True)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    rest = command[1:]
    while hasattr(here, "commands"):
        here = here.commands[rest.pop(0)]
    here.make_context(here.name, rest)  # raises for an unknown option


def test_there_are_commands_in_both() -> None:
    assert {" ".join(command[1:3]) for command in commands()} == {
        *("audit verify", "audit checkpoint", "audit export"),
        *("db upgrade", "db grants"),
    }


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"{verify.WORTH_IT:,} rows and more" in AUDIT
    assert verify.MOST == 4
    assert "up to\nfour processes" in AUDIT
    assert f"{STATEMENT.seconds} seconds and locks {LOCK.seconds}" in DATABASE


def test_each_column_of_the_csv_is_explained() -> None:
    table = AUDIT[AUDIT.index("| column | what |") :]
    told = re.findall(r"`([a-z_]+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[2:] if "|" in line))
    assert tuple(told) == CSV_COLUMNS


# --- the script -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    url = f"sqlite:///{tmp_path_factory.mktemp('docs') / 'ledger.db'}"
    upgrade(url)
    with open_ledger(url, CLUSTER, now=now) as ledger:
        ledger.record(
            ledger.take_term("pod-1"), [quarantined(1), held('"body":}\x00\ud800é'), quarantined(2), held("x")]
        )
    with open_ledger(url, 'b"body":', now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [held("x"), held("y")])
    engine = make_engine(url)
    found = [line for name in (CLUSTER, 'b"body":') for line in json_lines(engine, name, Chosen())]
    engine.dispose()
    return found


def script(given: list[str]) -> subprocess.CompletedProcess[str]:
    (source,) = re.findall(r"```python\n(.*?)```", AUDIT, re.DOTALL)
    return subprocess.run(
        [sys.executable, "-c", source], input="".join(given), capture_output=True, text=True, check=False
    )


def test_the_script_verifies_an_export(lines: list[str]) -> None:
    done = script(lines)
    assert done.returncode == 0, done.stderr
    heads = json.loads(done.stdout)
    assert heads == {
        name: [row["seq"], row["hash"]] for name, row in ((r["cluster"], r) for r in map(json.loads, lines))
    }
    assert (heads[CLUSTER][0], heads['b"body":'][0]) == (4, 2)


def test_and_an_export_with_gaps(lines: list[str]) -> None:
    assert script([lines[1], lines[3]]).returncode == 0
    assert script([]).stdout == "{}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("91.5", "71.5"),
        ('"seq":3', '"seq":4'),
        (CLUSTER, "training-b"),
        (GENESIS, "1" * 64),
        ('"hash":"', '"hash":"0'),
    ],
)
def test_and_finds_a_line_that_was_changed(lines: list[str], old: str, new: str) -> None:
    number = next(n for n, line in enumerate(lines) if old in line)
    done = script([*lines[:number], lines[number].replace(old, new, 1), *lines[number + 1 :]])
    assert done.returncode == 1
    assert re.fullmatch(r"row \d of \S+ is not as it was written\n", done.stderr)


def test_and_a_line_that_was_put_in_the_place_of_another(lines: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    upgrade(url)
    with open_ledger(url, CLUSTER, now=now) as ledger:
        ledger.record(ledger.take_term("pod-1"), [held("a"), held("b")])
    engine = make_engine(url)
    (_, forged) = json_lines(engine, CLUSTER, Chosen(until=NOW.replace(year=2999)))
    engine.dispose()
    assert script([forged]).returncode == 0
    assert script([lines[0], forged]).returncode == 1
