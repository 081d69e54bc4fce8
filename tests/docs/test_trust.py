"""What docs/trust.md shows is what the command prints for the fortnight that was made for that page."""

from __future__ import annotations

import re
import shlex
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

from quarantine import app as root
from quarantine.cli import render
from quarantine.cli.main import app
from quarantine.core.record.trust import Step
from tests.trusting import CLUSTER, END, STRICTER, Lived, life, written

PAGE = (Path(__file__).parents[2] / "docs/trust.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line, comments=True) for line in PAGE.splitlines() if line.startswith("    quarantine ")]
SHOWN = re.findall(r"```\n\$ quarantine (trust[^\n]*)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """With a pull request beside it, in which two policies are set to enforce."""
    made = life(tmp_path_factory.mktemp("page"))
    head = made.files.parent / "head"
    shutil.copytree(made.files, head)
    (head / "quiet.yaml").write_text(written("quiet", mode="enforce", nodeSelector={"pool": "a100"}), encoding="utf-8")
    (head / "unread.yaml").write_text(written("unread", mode="enforce"), encoding="utf-8")
    (head / "passed.yaml").write_text(written("passed", mode="enforce", **STRICTER), encoding="utf-8")
    return made


@pytest.fixture
def there(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    class Still:
        def now(self) -> datetime:
            return END

    monkeypatch.chdir(lived.files.parent)
    monkeypatch.setattr(root, "CLOCK", Still())
    monkeypatch.setattr(render, "console", lambda: Console(width=110))
    given = {"POLICIES": "policies/", "CLUSTER": CLUSTER, "DATABASE_URL": lived.url}
    for name, value in given.items():
        monkeypatch.setenv(f"QUARANTINE_{name}", value)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    here = here.commands[command[1]]
    here.make_context(here.name, command[2:])  # raises for an unknown option


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(("command", "text"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_examples_are_what_the_command_prints(command: str, text: str) -> None:
    done = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    assert done.exit_code == ("--check" in command)
    assert tidy(text) == tidy(done.stdout)


def tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_every_step_is_told() -> None:
    assert len(SHOWN) == 3
    assert [step.value for step in Step] == re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
