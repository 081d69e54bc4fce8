"""What people ask on the command line: recorded as meant, or refused in one sentence; nothing else is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.core.decision import Request, RequestKind
from quarantine.ledger.store import SqlLedger, open_ledger
from tests.ledger.samples import NOW

Ask = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture(autouse=True)
def an_engineer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.cli.ask.getpass.getuser", lambda: "an-engineer")


@pytest.fixture
def ledger(url: str) -> Iterator[SqlLedger]:
    with open_ledger(url, "default", now=lambda: NOW) as made:
        yield made


@pytest.fixture
def ask(url: str) -> Ask:
    return lambda *arguments: CliRunner().invoke(app, [*arguments, "--database-url", url])


@pytest.mark.parametrize(
    ("arguments", "kind", "node", "scope", "until"),
    [
        (["waive", "node-3", "--for", "4h"], RequestKind.WAIVE, "node-3", "", NOW + timedelta(hours=4)),
        (
            ["waive", "node-3", "--until", "2026-11-30T08:00:00+02:00"],
            RequestKind.WAIVE,
            "node-3",
            "",
            datetime(2026, 11, 30, 6, 0, tzinfo=UTC),
        ),
        (["pause"], RequestKind.PAUSE, "", "", None),
        (["pause", "gpu-hot", "--for", "30m"], RequestKind.PAUSE, "", "gpu-hot", NOW + timedelta(minutes=30)),
        (
            ["pause", "pool/gpu", "--until", "2026-12-01"],
            RequestKind.PAUSE,
            "",
            "pool/gpu",
            datetime(2026, 12, 1, tzinfo=UTC),
        ),
        (["resume", "policy/gpu-hot"], RequestKind.RESUME, "", "policy/gpu-hot", None),
        (["resume"], RequestKind.RESUME, "", "", None),
        (["maintain", "node-3", "--for", "2d"], RequestKind.MAINTAIN, "", "node-3", NOW + timedelta(days=2)),
        (
            ["maintain", "zone=a, rack=r7", "--for", "1h"],
            RequestKind.MAINTAIN,
            "",
            "rack=r7,zone=a",
            NOW + timedelta(hours=1),
        ),
        (["repaired", "node-3"], RequestKind.REPAIRED, "node-3", "", None),
        (["adopt"], RequestKind.ADOPT, "", "", None),
        (["open", "node-3"], RequestKind.OPEN, "node-3", "", None),
        (["release", "node-3"], RequestKind.RELEASE, "node-3", "", None),
    ],
)
def test_what_is_asked_is_recorded_as_it_is_meant(
    ask: Ask, ledger: SqlLedger, arguments: list[str], kind: RequestKind, node: str, scope: str, until: datetime | None
) -> None:
    result = ask(*arguments, "--reason", " the board is swapped ")
    assert result.exit_code == 0, result.output
    assert "The controller's next cycle decides" in result.stdout
    (found,) = ledger.load().requests
    expected = Request(
        found.id, kind, node, "the board is swapped", "an-engineer", "cli", NOW, until=until, scope=scope
    )
    assert found == expected


def test_as_json_it_says_what_was_recorded(ask: Ask, ledger: SqlLedger) -> None:
    result = ask("pause", "gpu", "--for", "1h", "--reason", "a roll-out", "--output", "json")
    (found,) = ledger.load().requests
    assert json.loads(result.stdout) == {
        "request": found.id,
        "kind": "pause",
        "node": "",
        "scope": "gpu",
        "until": "2026-11-29T13:00:00Z",
        "recorded": True,
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["waive", "node-3"], "a waiver needs an end: give --for 4h, or --until with a time"),
        (["waive", "node-3", "--for", "4"], "--for 4: '4' is no duration"),
        (["waive", "node-3", "--for", "-4h"], "--for -4h: '-4h' is no duration"),
        (["waive", "node-3", "--for", "400d"], "at most 366d"),
        (["waive", "node-3", "--for", "4h", "--until", "2027-01-01"], "give --for or --until, not both"),
        (["waive", "node-3", "--until", "tomorrow"], "--until 'tomorrow' is no time"),
        (["waive", "node-3", "--until", "2026-11-29T11:59:00Z"], "that has passed; it is 2026-11-29T12:00:00Z now"),
        (["waive", "node-3", "--until", "now"], "that has passed"),
        (["waive", " ", "--for", "4h"], "NODE must be a node's name"),
        (["waive", "n" * 254, "--for", "4h"], "at most 253 characters"),
        (["maintain", "node-3"], "planned work needs an end"),
        (["maintain", "", "--for", "1h"], "it means no node"),
        (["maintain", "rack=r7,node-3", "--for", "1h"], "'node-3' is no label=value"),
        (["maintain", "rack=r7\x1b[2J", "--for", "1h"], "is no name or selector"),
        (["pause", "x" * 1001], "at most 1000 plain characters"),
        (["resume", "a\nb"], "is no name or selector"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(
    ask: Ask, ledger: SqlLedger, arguments: list[str], said: str
) -> None:
    result = ask(*arguments, "--reason", "a roll-out")
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert ledger.load().requests == ()


@pytest.mark.parametrize("reason", ["", "   ", "x" * 2001])
def test_a_word_needs_a_reason(ask: Ask, reason: str) -> None:
    result = ask("pause", "--reason", reason)
    assert result.exit_code == 2
    assert "--reason must say why" in result.stderr


def test_where_nobody_would_read_it_nothing_is_recorded(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "ledger.db"
    result = CliRunner().invoke(app, ["pause", "--reason", "why", "--database-url", f"sqlite:///{missing}"])
    assert result.exit_code == 1
    assert "there is no ledger at" in result.stderr
    assert not missing.exists()
