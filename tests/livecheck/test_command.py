"""`quarantine policy check --prometheus`, from the files to the exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.sandbox.prometheus import PrometheusServer
from tests.adapters.policyfiles.conftest import SAMPLE


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One policy on a metric of the simulated fleet; settings of no person are read."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "policies"
    directory.mkdir()
    shutil.copy(SAMPLE / "fleet.yaml", directory)
    shutil.copy(SAMPLE / "gpu-hot.yaml", directory)
    signals = (SAMPLE / "signals.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("GPU_TEMP", "TEMP"),
        ("TOTAL_ENERGY_CONSUMPTION", "ENERGY"),
        ("PROF_PIPE_TENSOR_ACTIVE", "TENSOR"),
    ):
        signals = signals.replace(f"DCGM_FI_DEV_{old}", f"DCGM_{new}").replace(f"DCGM_FI_{old}", f"DCGM_{new}")
    (directory / "signals.yaml").write_text(signals, encoding="utf-8")
    return directory


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The series of the simulated fleet end at a fixed time, and that is when the command asks."""
    from tests.livecheck.conftest import NOW

    class Clock:
        def now(self) -> object:
            return NOW

    monkeypatch.setattr("quarantine.cli.policylive.CLOCK", Clock())


def check(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["policy", "check", *map(str, arguments)])


def nodes_file(path: Path, *names: str) -> Path:
    label = {"nvidia.com/gpu.present": "true"}
    items = [{"metadata": {"name": n, "uid": f"u-{n}", "resourceVersion": "1", "labels": label}} for n in names]
    path.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    return path


def test_what_is_seen_is_summed_up(policies: Path, prometheus: PrometheusServer) -> None:
    nodes = nodes_file(policies.parent / "nodes.json", "node-0", "node-1", "node-2")
    done = check(policies, "--prometheus", prometheus.url, "--nodes", nodes)
    assert done.exit_code == 0, done.output
    assert "gpu-hot: 7 series" in done.stdout
    assert "nodes: by the list that was given" in done.stdout
    assert "no fault" in done.stdout


def test_a_typing_error_in_a_metric_fails_the_check_at_the_policys_line(
    policies: Path, prometheus: PrometheusServer
) -> None:
    signals = policies / "signals.yaml"
    signals.write_text(signals.read_text().replace("DCGM_TEMP", "DCGM_TMEP"), encoding="utf-8")
    done = check(policies, "--prometheus", prometheus.url)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    (number,) = (n for n, line in enumerate(lines) if "policy gpu-hot sees nothing" in line)
    text = (policies / "gpu-hot.yaml").read_text()
    at = text[: text.index("  signal: gpu.temperature")].count("\n") + 1
    assert lines[number].startswith(f"{policies}/gpu-hot.yaml:{at}:11: ")
    assert lines[number + 1] == "    hint: did you mean DCGM_TEMP?"


def test_nodes_that_lack_the_signal_are_notes_and_annotations(policies: Path, prometheus: PrometheusServer) -> None:
    nodes = nodes_file(policies.parent / "nodes.json", "node-0", "node-1", "node-2", "node-3")
    done = check(policies, "--prometheus", prometheus.url, "--nodes", nodes, "--output", "github")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert all(line.startswith("::notice file=") for line in lines)
    assert any("1 of 4 nodes have no gpu.temperature now: node-3" in line for line in lines)
    done = check(policies, "--prometheus", prometheus.url, "--nodes", nodes, "--output", "json")
    assert {found["severity"] for found in json.loads(done.stdout)} == {"note"}


def test_a_prometheus_that_does_not_answer_is_one_sentence_and_exit_3(policies: Path) -> None:
    done = check(policies, "--prometheus", "http://127.0.0.1:1")
    assert done.exit_code == 3
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "http://127.0.0.1:1" in done.stderr
    (policies / "bad.yaml").write_text("kind: Polcy\n")
    done = check(policies, "--prometheus", "http://127.0.0.1:1")
    assert done.exit_code == 3
    assert "did you mean Policy?" in done.stdout, "what is known without it is told all the same"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("{}", "has no list of nodes"),
        ('{"items": []}', "has no list of nodes"),
        ('{"items": [1]}', "has"),
        ('[{"metadata": {"name": "a"}}]', "a node without a name, a uid or a resourceVersion"),
    ],
)
def test_a_file_that_holds_no_nodes_is_told(policies: Path, content: str, said: str) -> None:
    nodes = policies.parent / "nodes.json"
    nodes.write_text(content)
    done = check(policies, "--prometheus", "http://127.0.0.1:1", "--nodes", nodes)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"{nodes} " in done.stderr
    assert said in done.stderr


def test_nodes_go_with_a_prometheus(policies: Path) -> None:
    assert check(policies, "--nodes", "x").exit_code == 2
    done = check(policies, "--prometheus", "http://127.0.0.1:1", "--nodes", policies.parent / "absent.json")
    assert done.exit_code == 2
    assert "cannot be read (no such file or directory)" in done.stderr
    assert check(policies, "--prometheus", "not a url").exit_code == 2
