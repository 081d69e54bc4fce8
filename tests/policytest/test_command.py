"""`quarantine policy test`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from quarantine.cli.policytest import test as command
from tests.policytest.conftest import Write

app = typer.Typer()
app.command()(command)
GOOD = "    - name: healthy\n      verdicts: {2m: unknown}\n"
BAD = "    - name: wrong\n      verdicts: {2m: bad}\n"


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_all_passed(written: Write) -> None:
    path = written(GOOD)
    result = invoke(path.parent)
    assert result.exit_code == 0
    first, last = result.stdout.splitlines()
    assert first.startswith(f"{path}: 1 test passed (")
    assert last.startswith("1 test of 1 policy in ")
    assert last.endswith(" s: all passed")


def test_a_failure_ends_in_1_with_its_place(written: Write) -> None:
    path = written(GOOD + BAD)
    result = invoke(path)
    assert result.exit_code == 1
    line = path.read_text(encoding="utf-8").splitlines().index("    - name: wrong") + 1
    assert f"{path}:{line}: wrong: at 2m GPU-1-0 of node-1 was unknown, not bad" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("1 failed")


def test_json_is_one_document(written: Write) -> None:
    result = invoke(written(GOOD + BAD), "--output", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["passed"], found["failed"]) == (1, 1)
    healthy, wrong = found["tests"]
    assert (healthy["name"], healthy["policy"], healthy["passed"], healthy["evidence"]) == ("healthy", "hot", True, [])
    assert wrong["problems"] == ["at 2m GPU-1-0 of node-1 was unknown, not bad"]
    assert wrong["evidence"][0] == "GPU-1-0 of node-1: unknown from 0s"


def test_only_some(written: Write) -> None:
    path = written(GOOD + BAD)
    result = invoke(path, "-k", "HEALTH")
    assert result.exit_code == 0
    assert "1 test passed" in result.stdout


def test_none_that_is_called_so(written: Write) -> None:
    result = invoke(written(GOOD), "-k", "sick")
    assert result.exit_code == 1
    assert result.stderr == "quarantine: no test has 'sick' in its name or policy: see the names in the files\n"


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_mistake_in_a_file(written: Write, output: str) -> None:
    path = written("    - name: x\n      verdict: {2m: bad}\n")
    result = invoke(path, "--output", output)
    assert result.exit_code == 1
    assert result.stderr == ""
    if output == "json":
        (fault,) = json.loads(result.stdout)
        assert (fault["file"], fault["column"], fault["hint"]) == (str(path), 7, "did you mean `verdicts`?")
    else:
        assert result.stdout.startswith(f"{path}:")
        assert "unknown field `verdict` in spec.tests[0]" in result.stdout


def test_a_path_that_means_nothing(sample: Path) -> None:
    result = invoke(sample / "nothing_test.yaml")
    assert result.exit_code == 2
    assert "there is no file or directory" in result.stderr


def test_without_a_prometheus(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARANTINE_SANDBOX_PROMETHEUS", "nowhere")
    result = invoke(written(GOOD))
    assert result.exit_code == 3
    assert result.stderr.startswith("quarantine: the tests need a Prometheus: ")
    assert "name a Prometheus binary" in result.stderr
