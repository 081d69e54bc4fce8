"""`quarantine doctor`: what it prints, how it ends, and that no secret is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from quarantine.cli import doctor as command
from quarantine.cli.main import app
from quarantine.cli.options import Output
from quarantine.doctor import Finding, Level
from quarantine.settings import shipped_policies

NOWHERE = "http://127.0.0.1:9"
SECRETS = {
    "QUARANTINE_DATABASE_URL": "postgresql://writer:data-hush@127.0.0.1:9/ledger",
    "QUARANTINE_SLACK__TOKEN": "xoxb-hush-hush",
    "QUARANTINE_SLACK__APP_TOKEN": "xapp-hush-hush",
    "QUARANTINE_PROMETHEUS__BEARER_TOKEN": "prom-hush-hush",
    "QUARANTINE_PAGERDUTY__ROUTING_KEY": "page-hush-hush",
    "QUARANTINE_HEARTBEAT__URL": "https://hc.example/beat-hush",
}


def doctor(folder: Path, *arguments: str, env: Mapping[str, str] | None = None, **settings: object) -> Result:
    """With everything nowhere, but for the policies that are shipped."""
    (folder / "token").write_text("desk-hush-hush")
    (folder / "kubeconfig").write_text(
        yaml.safe_dump(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "clusters": [{"name": "a", "cluster": {"server": f"http://admin:kube-hush@{NOWHERE[7:]}"}}],
                "users": [{"name": "a", "user": {"token": "kube-hush"}}],
            }
        )
    )
    given = {
        "policies": [str(shipped_policies())],
        "prometheus": {"url": NOWHERE, "timeout": "2s"},
        "kubernetes": {"kubeconfig": str(folder / "kubeconfig"), "timeout": "2s"},
        "slack": {"channel": "C0TEST", "base_url": f"{NOWHERE}/api/"},
        "tickets": {
            "targets": {
                "repairs": {
                    "kind": "github",
                    "repository": "acme/repairs",
                    "url": NOWHERE,
                    "token_file": str(folder / "token"),
                }
            },
            "default": "repairs",
        },
        **settings,
    }
    (folder / "quarantine.yaml").write_text(yaml.safe_dump(given))
    return CliRunner().invoke(app, ["doctor", "--config", str(folder / "quarantine.yaml"), *arguments], env=env)


@pytest.mark.parametrize("output", ["table", "json", "markdown"])
def test_what_is_away_ends_in_3_and_no_secret_is_told(tmp_path: Path, output: str) -> None:
    done = doctor(tmp_path, "--output", output, env=SECRETS)
    assert done.exit_code == 3, done.output
    assert "hush" not in done.output
    assert "Traceback" not in done.output
    if output == "json":
        told = json.loads(done.stdout)
        away = {f["check"] for f in told["findings"] if f["level"] == "unreachable"}
        assert away == {"Kubernetes", "Prometheus", "ledger", "Slack", "tickets"}
        assert told["levels"]["unreachable"] == len(away)
    else:
        assert "5 did not answer" in done.stdout


def test_the_table_has_a_mark_a_sentence_and_what_to_do_below_it(tmp_path: Path) -> None:
    lines = doctor(tmp_path).stdout.splitlines()
    assert lines[0].split() == ["CHECK", "FINDING,", "AND", "WHAT", "TO", "DO"]
    assert any(line.startswith("✓  policies") for line in lines)
    assert any(line.startswith("✗  Prometheus") for line in lines)
    assert any(line.startswith("·  exporters") and "Prometheus did not answer" in line for line in lines)
    (number,) = (n for n, line in enumerate(lines) if "nobody is woken by an alarm" in line)
    assert lines[number + 1].strip().startswith("→ set pagerduty.routing_key_file")


def test_settings_that_cannot_be_used_are_the_fault(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--output", "json", mode="sometimes")
    assert done.exit_code == 1
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["check"], found["level"]) == ("settings", "fault")
    assert "mode must be observe or enforce" in found["sentence"]


@pytest.mark.parametrize("within", ["5", "0s", "2h", "soon"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, within: str) -> None:
    assert doctor(tmp_path, "--within", within).exit_code == 2


@pytest.mark.parametrize(
    ("levels", "code"),
    [
        ([], 0),
        ([Level.GOOD, Level.NOTE, Level.WARNING], 0),
        ([Level.WARNING, Level.UNREACHABLE], 3),
        ([Level.UNREACHABLE, Level.FAULT], 1),
    ],
)
def test_how_it_ends(levels: list[Level], code: int) -> None:
    assert command._exit([Finding(level, "") for level in levels]) == code


def test_text_from_outside_is_safe_wherever_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """What a server answered is in the sentences."""
    evil = "a|b <img src=x> [click](http://evil.example) \x1b[2J [bold]red[/bold]\nnext"
    found = [Finding(Level.FAULT, evil, evil, "Slack")]
    command._show(found, Output.TABLE)
    table = capsys.readouterr().out
    assert "\x1b" not in table
    assert "[bold]red[/bold]" in table
    command._show(found, Output.MARKDOWN)
    text = capsys.readouterr().out
    assert "<img" not in text
    assert "\x1b" not in text
    assert "[click](" not in text
    rows = [line for line in text.splitlines() if line.startswith("| ✗")]
    assert len(rows) == 1
    command._show(found, Output.JSON)
    assert json.loads(capsys.readouterr().out)["findings"][0]["sentence"] == evil


def test_the_last_line_sums_up(capsys: pytest.CaptureFixture[str]) -> None:
    for levels, said in (
        ([Level.GOOD, Level.GOOD, Level.NOTE], "All is well: 2 as it should be."),
        ([Level.FAULT, Level.WARNING, Level.GOOD], "1 fault, 1 warning; 1 as it should be."),
        ([Level.FAULT, Level.FAULT, Level.UNREACHABLE], "2 faults, 1 did not answer."),
        ([], "Nothing was checked."),
    ):
        command._show([Finding(level, "x", "", "y") for level in levels], Output.TABLE)
        assert capsys.readouterr().out.splitlines()[-1] == said
