"""docs/doctor.md: commands that there are, the checks that are made, and figures of the code."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quarantine.cli.doctor import _MARKS, _show
from quarantine.cli.main import app
from quarantine.cli.options import Output
from quarantine.doctor import CHECKS, Finding, Level
from quarantine.doctor.clocks import ODD, WRONG

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "doctor.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    lines = [line.strip() for line in prose.splitlines() if line.startswith("    ")]
    return [shlex.split(line.partition(" -- ")[2] or line) for line in lines]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app).commands[command[1]]  # type: ignore[attr-defined]
    here.make_context(here.name, command[2:])


def test_each_check_is_told_in_its_order() -> None:
    table = PAGE.partition("| check |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == ["settings", *(name for name, _ in CHECKS)]


def test_each_level_is_told_with_its_mark() -> None:
    rows = re.findall(r"^\| (\S) \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {level: mark for mark, level in rows} == _MARKS
    assert [level for _, level in rows] == [str(level) for level in Level]


def test_the_figures_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"by more than {ODD.seconds} s are a warning, and by more than {WRONG.seconds} s a fault" in text
    within = next(p for p in typer.main.get_command(app).commands["doctor"].params if p.name == "within")  # type: ignore[attr-defined]
    assert within.default == "2m"
    assert "2 minutes unless given" in text


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (DOCS / target).exists(), target


def test_the_example_is_in_the_words_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    shown = PAGE.partition("```\n")[2].partition("```")[0]
    found: list[Finding] = []
    levels = {mark: Level(level) for level, mark in _MARKS.items()}
    for line in shown.splitlines()[1:-2]:
        mark, check, text = line[:1], line[3:22].strip(), line[22:]
        if text.startswith("→ "):
            found[-1] = replace(found[-1], advice=text[2:])
        else:
            found.append(Finding(levels[mark], text, "", check or found[-1].check))
    _show(found, Output.TABLE)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == shown.rstrip("\n").splitlines()
