"""docs/people.md tells of commands, annotations and holds that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quarantine.cli.main import app
from quarantine.core import pauses, signs, trickle
from quarantine.core.case import HeldBy
from quarantine.core.decision import Action
from quarantine.core.units import format_duration
from tests.core.world import node

TEXT = (Path(__file__).parents[2] / "docs/people.md").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def commands() -> Iterator[list[str]]:
    for line in TEXT.splitlines():
        if line.startswith("    quarantine "):
            yield shlex.split(line, comments=True)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    here = here.commands[command[1]]
    here.make_context(here.name, command[2:])  # raises for an unknown option


def test_every_command_of_the_table_exists() -> None:
    there = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"`quarantine ([a-z]+)", TEXT))
    assert named <= there
    assert {"open", "release", "waive", "pause", "resume", "maintain", "repaired", "adopt"} <= named


def test_the_annotations_of_the_examples_are_read() -> None:
    said = dict(re.findall(r"(quarantine\.gpu/[a-z-]+)=(\S+)", TEXT))
    machine = node("gpu-node-17", annotations=said)
    assert signs.waived(machine, "quarantine.gpu", NOW) is not None
    assert list(signs.worked_on({"gpu-node-17": machine}, "quarantine.gpu", NOW)) == ["gpu-node-17"]
    assert list(signs.unreadable(machine, "quarantine.gpu")) == []


def test_holds_actions_and_numbers_are_those_of_the_code() -> None:
    for held_by in (HeldBy.BROKEN_ANNOTATION, HeldBy.PAUSED, HeldBy.MAINTENANCE):
        assert f"hold `{held_by}`" in TEXT.replace("\n", " ")
    for action in (Action.WAIVE, Action.PAUSE, Action.RESUME, Action.MAINTAIN, Action.PROVE, Action.ANSWER):
        assert f"`{action}`" in TEXT
    assert (trickle.SHARE, format_duration(trickle.EVERY)) == (4, "5m"), "a quarter, in five minutes"
    assert (pauses.POLICY, pauses.POOL) == ("policy/", "pool/")
