"""docs/explain.md tells of options, lines and keys that there are."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quarantine.charts import WANTED, Format
from quarantine.cli.main import app
from quarantine.cli.options import Output
from quarantine.cli.story import Account, show
from quarantine.core import explain
from quarantine.core.record.chapters import chapters, headline
from quarantine.core.record.chart import MOST_PANELS
from quarantine.ports import TrailRow
from tests.core.record.lives import warming, whole

TEXT = (Path(__file__).parents[2] / "docs/explain.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line, comments=True) for line in TEXT.splitlines() if line.startswith("    quarantine ")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    here.commands[command[1]].make_context(command[1], command[2:])  # raises for an unknown option


def test_the_sentence_of_the_example_is_one_that_is_said() -> None:
    rows = whole()
    (chapter,) = chapters(rows).chapters
    example = re.sub(r"\s+", " ", " ".join(re.findall(r"^> (.*)$", TEXT, re.MULTILINE)))
    said = headline(chapter).replace("GPU-node-3-3", "GPU-…").replace("ticket T-1, T-2", "ticket T-1702, T-1708")
    assert example == f"{said}."


def test_the_lines_of_the_table_are_those_of_a_row() -> None:
    said = {line.split()[0] for s in explain.story(whole(warming())) for line in s.evidence}
    told = {name.split()[0] for name in re.findall(r"^\| `([a-z ]+:?) ?…?`", TEXT, re.MULTILINE)}
    assert {"measured", "read", "query", "series", "by", "pool"} == told
    assert {"measured", "read", "query", "series", "by", "pool"} <= said


def test_the_keys_of_the_json_are_those(capsys: pytest.CaptureFixture[str]) -> None:
    told = chapters(whole(warming()))
    rows = [TrailRow(seq, decision, "0" * 64) for seq, decision in whole(warming())]
    show(Account("node-3", told.state, rows), Output.JSON)
    data = json.loads(capsys.readouterr().out)
    section = TEXT.partition("## JSON")[2]
    named = set(re.findall(r"`([a-z_]+)`", section))
    taken = data["trail"][0]
    assert set(data) <= named
    assert named <= {*data, *data["cases"][0], *taken, *taken["evidence"]}


def test_numbers_and_names_are_those_of_the_code() -> None:
    assert f"up to {MOST_PANELS};" in TEXT
    assert WANTED.partition(": ")[2] in TEXT
    assert all(f"`.{form}`" in TEXT for form in Format)
