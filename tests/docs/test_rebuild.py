"""docs/rebuild.md: commands that there are, and every table either compared or said not to be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quarantine.cli.main import app
from quarantine.ledger.schema import METADATA
from quarantine.ledger.staging import DERIVED

PAGE = (Path(__file__).parents[2] / "docs" / "rebuild.md").read_text(encoding="utf-8")
COMMANDS = [line.split() for line in PAGE.splitlines() if line.startswith("    quarantine ")]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    rest = command[1:]
    while hasattr(here, "commands"):
        here = here.commands[rest.pop(0)]
    here.make_context(here.name, rest)  # raises for an unknown option


def test_each_option_that_is_told_exists() -> None:
    options = {name for parameter in rebuild().params for name in parameter.opts}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE)) <= options


def test_each_table_is_told_of() -> None:
    compared, _, others = PAGE.partition("Not compared:")
    rows = " ".join(line for line in compared.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == {"requests", *(table.name for table in DERIVED)}
    left = METADATA.tables.keys() - {"requests", "decisions", "clusters", *(table.name for table in DERIVED)}
    assert set(re.findall(r"`(\w+)`", others.split("##")[0])) == left


def rebuild() -> Any:
    top: Any = typer.main.get_command(app)
    return top.commands["db"].commands["rebuild"]
