"""The workflow that people copy: its commands exist, its rights are least, and no secret reaches a fork."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from quarantine.cli.backtest.markdown import MARKER
from quarantine.cli.main import app

ROOT = Path(__file__).parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / "docs/ci/policies.yml").read_text(encoding="utf-8"))
ON = WORKFLOW[True]  # YAML 1.1 reads `on` so


def commands() -> Iterator[list[str]]:
    for job in WORKFLOW["jobs"].values():
        for step in job["steps"]:
            script = step.get("run", "").replace("\\\n", " ")
            for line in script.splitlines():
                if line.strip().startswith("quarantine "):
                    yield shlex.split(
                        re.split(r"\s>{1,2}\s", line.strip())[0].replace('"${base[@]}"', "--base base/policies/")
                    )


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    words = command[1:]
    while hasattr(here, "commands"):
        here = here.commands[words.pop(0)]
    here.make_context(here.name, list(words))  # raises for an unknown option


def test_it_checks_tests_and_backtests() -> None:
    assert {command[2] for command in commands()} == {"check", "test", "backtest"}


def test_a_fork_gets_no_secret() -> None:
    assert set(ON) == {"pull_request"}
    for job in WORKFLOW["jobs"].values():
        if "secrets." in str(job):
            assert "head.repo.full_name == github.repository" in job["if"]


def test_only_the_comment_is_written() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["jobs"]["backtest"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "permissions" not in WORKFLOW["jobs"]["check"]


def test_no_text_of_the_pull_request_is_run_by_a_shell() -> None:
    for job in WORKFLOW["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")


def test_the_comment_is_found_by_its_first_line() -> None:
    step = next(s for s in WORKFLOW["jobs"]["backtest"]["steps"] if s.get("name") == "comment")
    assert "head -n 1 comment.md" in step["run"]
    assert '"' not in MARKER
    assert "\\" not in MARKER
