"""The report that docs/report.md shows is what the command prints for a month made for that page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

from quarantine import app as root
from quarantine.cli import render
from quarantine.cli.main import app
from quarantine.core.case import HeldBy, Phase
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.report.times import STEPS
from quarantine.core.record.spans import HoldSpan
from quarantine.ledger.engine import make_engine
from quarantine.ledger.migrate import upgrade
from tests.core.record.reports import DAY, HOUR, MINUTE, SINCE, UNTIL, hold, out, size
from tests.ledger.reported import write

PAGE = (Path(__file__).parents[2] / "docs/report.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line, comments=True) for line in PAGE.splitlines() if line.startswith("    quarantine ")]
CAUSES = (("gpu-hot", "gpu.temperature"), ("nvlink-errors", "gpu.nvlink.errors"), ("", ""))
CASES, NODES = 399, 2048


def month() -> list[Milestones]:
    """399 machines of 2,048 are taken out in 30 days; most are swapped in a day or two, some are back as they were."""
    return [failed(number) for number in range(CASES)]


def failed(number: int) -> Milestones:
    policy, signal = CAUSES[0 if number % 7 < 4 else 1 if number % 7 < 6 else 2]
    opened = SINCE + number * (UNTIL - SINCE) / CASES
    told = opened + 2 * MINUTE
    swapped = told + (12 + 37 * number % 60) * HOUR if number % 3 else None
    back = (swapped or told) + (3 + number % 9) * HOUR
    over = back <= UNTIL
    return out(
        number,
        opened,
        node=f"gpu-node-{31 * number % 223:04d}",
        machine=f"provider-id:acme://{31 * number % 223:04d}",
        provider="acme" if number % 2 else "globex",
        policy=policy,
        signal=signal,
        severity=None if not policy else out().severity,
        by_person=not policy,
        ticket_at=told,
        asked_at=told if swapped else None,
        swapped_at=swapped if swapped and swapped <= UNTIL else None,
        back_at=back if over else None,
        ended_at=back if over else None,
        phase=Phase.RELEASED if over else Phase.PROBATION,
        fate=Fate.CONFIRMED if swapped else Fate.RETURNED if over else Fate.OPEN,
        same_returned=number % 100 == 50,
    )


def held(cases: list[Milestones]) -> list[HoldSpan]:
    """Every ninth was held for a while by the budget, and every one for a moment since it was new."""
    found = []
    for number, one in enumerate(cases):
        by = HeldBy.BUDGET if number % 9 == 0 else HeldBy.SETTLING
        over = one.out_at if by is HeldBy.SETTLING or number % 2 else one.opened_at + 50 * MINUTE
        found.append(hold(number, one.opened_at, over, held_by=by, policy=one.policy, node=one.node))
    return [span for span in found if span.policy]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'month.db'}"
    upgrade(url)
    engine = make_engine(url)
    write(engine, month(), held(month()), [size(NODES, SINCE - 9 * DAY)], cluster="training")
    engine.dispose()

    class Still:
        def now(self) -> Any:
            return UNTIL

    monkeypatch.setattr(root, "CLOCK", Still())
    monkeypatch.setattr(render, "console", lambda: Console(width=110))
    return url


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_and_option_exists(command: list[str]) -> None:
    here: Any = typer.main.get_command(app)
    here = here.commands[command[1]]
    here.make_context(here.name, command[2:])  # raises for an unknown option


def test_the_example_is_what_the_command_prints(ledger: str) -> None:
    shown = re.search(r"```\n\$ quarantine (report [^\n]*)\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    done = CliRunner().invoke(app, [*shlex.split(shown[1]), "--database-url", ledger], catch_exceptions=False)
    assert done.exit_code == 0
    assert tidy(shown[2]) == tidy(done.stdout)


def tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_every_step_is_told() -> None:
    assert set(STEPS) <= set(re.findall(r"`([a-z_]+)`", PAGE))
