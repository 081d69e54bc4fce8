"""docs/history.md shows what `quarantine history` really says, and options that there are."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from quarantine.cli.main import app
from quarantine.core.case import Effect, Evidence, Phase
from quarantine.core.decision import Action, Decision, Kind
from quarantine.core.model import Device, DeviceKind, Machine, Severity, Verdict
from quarantine.core.record.subjects import SubjectKind
from quarantine.ledger.migrate import upgrade
from quarantine.ledger.store import open_ledger

PAGE = (Path(__file__).parents[2] / "docs/history.md").read_text(encoding="utf-8")
AT = datetime(2026, 11, 3, 9, 14, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
CONTROLLER = "controller 0.1.0"
FIRST = Machine("5f1c9e52", "metal://r7/4", "4c4c4544-0051", gpus=("GPU-0a1b2c3d",))
SECOND = Machine("5f1c9e52", "metal://r7/4", "4c4c4544-0077")
NODE = "gpu-node-17"


def east() -> list[Decision]:
    """A machine is taken out, and another one comes in its place."""
    found = Evidence(
        query='DCGM_FI_DEV_GPU_TEMP{Hostname="gpu-node-17"}',
        value=91.0,
        unit="°C",
        threshold="above 78 °C for 5m",
        at=AT,
    )
    out = Decision(
        *(AT, Kind.DECIDED, Action.QUARANTINE, "GPU 3 is at 91 °C, above 78 °C for 5m", CONTROLLER),
        **about(FIRST),
        phase=Phase.QUARANTINED,
        device=Device(DeviceKind.GPU, "GPU-0a1b2c3d", "3"),
        policy="gpu-hot",
        policy_hash="3f9a" * 16,
        severity=Severity.CRITICAL,
        verdict=Verdict.BAD,
        evidence=found,
        effects=(Effect.MARK, Effect.REPLACE),
        pool="h100",
    )
    marked = Decision(AT + timedelta(seconds=1), Kind.DONE, Action.QUARANTINE, "cordoned and tainted", CONTROLLER)
    asked = Decision(AT + HOUR, Kind.DONE, Action.STEP, "another machine is asked for by T-2041", CONTROLLER)
    came = "another machine is in the place of gpu-node-17"
    swapped = Decision(
        AT + 30 * HOUR, Kind.DECIDED, Action.SWAP, came, CONTROLLER, phase=Phase.SWAPPED, **about(SECOND)
    )
    proven = "the burn-in succeeded, and nothing was found for 2h"
    back = Decision(
        AT + 36 * HOUR, Kind.DECIDED, Action.RELEASE, proven, CONTROLLER, phase=Phase.RELEASED, **about(SECOND)
    )
    return [
        out,
        replace(marked, effect=Effect.MARK, cordoned_by_us=True, **about(FIRST)),
        replace(asked, effect=Effect.REPLACE, ref="T-2041", **about(FIRST)),
        swapped,
        back,
    ]


def about(machine: Machine) -> dict[str, Any]:
    return {"node": NODE, "machine": machine, "case": "q-7f3a2b1c05"}


def west() -> list[Decision]:
    """The machine that was sent away turns up in another cluster."""
    here = replace(FIRST, node_uid="0b77aa10", provider_id="metal://r2/9", gpus=())
    said = Decision(
        AT + 300 * HOUR, Kind.DECIDED, Action.WAIVE, "an-engineer keeps node-3 in service", "an-engineer (cli)"
    )
    return [replace(said, node="node-3", machine=here, until=AT + 304 * HOUR)]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    made = f"sqlite:///{tmp_path / 'ledger.db'}"
    upgrade(made)
    for cluster, taken in (("training-a", east()), ("training-b", west())):
        with open_ledger(made, cluster, now=lambda: AT) as ledger:
            ledger.record(ledger.take_term("pod"), taken)
    return made


def test_the_example_is_what_it_says(url: str) -> None:
    (command, shown) = re.search(r"^    \$ (quarantine history .*)\n((?:    .*\n|\n)+)", PAGE, re.MULTILINE).groups()  # type: ignore[union-attr]
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--database-url", url])
    assert result.exit_code == 0, result.output
    said = [line.rstrip() for line in result.stdout.rstrip().splitlines()]
    assert [line.removeprefix("    ").rstrip() for line in shown.rstrip().splitlines()] == said


def test_each_command_and_option_exists() -> None:
    there: Any = typer.main.get_command(app)
    lines = re.findall(r"^    (?:\$ )?quarantine (.*)$", PAGE, re.MULTILINE)
    assert len(lines) > 3
    for line in lines:
        words = shlex.split(line, comments=True)
        there.commands[words[0]].make_context(words[0], words[1:])  # raises for an unknown option


def test_each_kind_of_name_is_described() -> None:
    assert set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)) == {kind.value for kind in SubjectKind}
