"""`scripts/chaos` runs what it is asked for and says how it went; docs/chaos.md says what it does."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.chaos import __main__ as command
from tests.chaos.__main__ import DONE, FAILED, LIVE, USAGE, main, summed
from tests.chaos.live import FULL, SHORT
from tests.chaos.sim import NAMES
from tests.chaos.table import HEADS, Row

PAGE = (Path(__file__).parents[2] / "docs/chaos.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.split())


def row(what: str, cycles: int | None = 3, *, world: str = "simulated", lost: int = 0) -> Row:
    return Row(world, what, "slack", "down", cycles, 8, 0, 0, lost, 0, 0, 0)


def test_a_seed_is_run_again_and_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "drawn", "--seed", "7", "--schedules", "1", "--output", "json"]) == DONE
    out = capsys.readouterr()
    (found,) = json.loads(out.out)
    assert found["ok"]
    assert found["what"] == "seeds 7 to 7"
    assert "7" in out.err


def test_a_row_that_is_not_as_it_must_be_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run_named", lambda name: row(name, lost=int(name == NAMES[1])))
    assert main(["--only", NAMES[0]]) == DONE
    assert main(["--only", NAMES[1]]) == FAILED
    out = capsys.readouterr()
    assert "NOT as it must be" in out.err
    assert "FAILED" in out.out


def test_a_name_that_is_not_known_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "fax"]) == USAGE
    assert "fax" in capsys.readouterr().err


def test_the_drawn_ones_are_a_line_unless_they_failed() -> None:
    failed, live, named = row("3", None), row("1", world=LIVE), row("Slack down")
    shown = summed([named, row("1", 2), row("2", 7), failed, live])
    assert shown[:3] == [named, failed, live]
    assert (shown[3].what, shown[3].cycles_to_converge) == ("seeds 1 to 2", 7)
    assert summed([live]) == [live]


def test_the_page_tells_of_each_failure() -> None:
    for trouble in {t for group in (*FULL, SHORT) for t in group.troubles}:
        word = trouble.failure.partition(",")[0].removesuffix(" and back").removeprefix("a ")
        assert word in PAGE, trouble.name
    for head in filter(None, HEADS[4:-1]):
        assert f"`{head}`" in FLAT


def test_the_page_s_commands_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = re.findall(r"^    scripts/chaos(.*)$", PAGE, re.MULTILINE)
    assert len(lines) >= 5
    for line in lines:
        given = command._read(shlex.split(line.partition("#")[0]))
        wanted = command._wanted(given)
        assert wanted.groups or wanted.names or wanted.seeds, line


def test_every_test_that_the_page_names_is_there() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`(tests/[^`]+)`", PAGE)
    assert named
    assert all((root / name).exists() for name in named)
