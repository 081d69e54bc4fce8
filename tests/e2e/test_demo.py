"""The demo, as the README promises it: on the emulator it starts itself, and on an API server that it is given."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from quarantine.sandbox.kubeapi import KubeApi, serve

LAST = re.compile(r"demo: nodes=32 quarantined=3 tickets=3 slack=3 decisions=(\d+) false=0 missed=0")


def play(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QUARANTINE_") or "SANDBOX" in k}
    command = [sys.executable, "-m", "quarantine", "demo", "--folder", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_demo_catches_three_and_leaves_five_alone(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = play(folder, "--picture", str(tmp_path / "demo.svg"))
    lines = done.stdout.rstrip().splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert LAST.fullmatch(lines[-1])
    assert done.stdout.count("✓") == 8
    assert "✗" not in done.stdout
    assert "mode: enforce" in done.stdout, "the overlay is printed"
    for decoy in ("9223372036854775794", "touches 79 °C", "never up", "no cluster knows", "exporter dies"):
        assert decoy in " ".join(done.stdout.split()), decoy
    url = f"sqlite:///{folder / 'quarantine.db'}"
    assert f"quarantine explain gpu-node-07 --database-url {url}" in done.stdout
    explain = [sys.executable, "-m", "quarantine", "explain", "gpu-node-07", "--database-url", url]
    told = subprocess.run(explain, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert "gpu-node-07 is quarantined since" in told.stdout
    assert len(list((folder / "tickets").glob("*.md"))) == 3
    asked = {json.loads(p.read_text())["ask"] for p in (folder / "tickets").glob("*.json")}
    assert asked == {"report"}
    assert (tmp_path / "demo.svg").read_text().count("http") <= 3, "nothing is fetched by the picture"


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_the_demo_on_a_given_api_server_removes_what_it_made(tmp_path: Path) -> None:
    api = KubeApi()
    api.lifecycle_taints = True
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebody-elses"}})
    before = api.get("Node", "somebody-elses")
    with serve(api) as server:
        done = play(tmp_path / "demo", "--kubeconfig", str(server.write_kubeconfig(tmp_path / "kubeconfig")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert LAST.fullmatch(done.stdout.rstrip().splitlines()[-1])
    [left] = api.list("Node")
    assert left == before, "another's node is not touched"
    assert api.list("Pod") == []
    names = {item["metadata"]["name"] for item in api.list("Namespace")}
    assert not any("demo" in name or name in {"training", "inference"} for name in names), names
    assert api.list("Lease") == []


def test_a_folder_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    done = play(tmp_path)
    assert done.returncode == 2
    assert "is not empty and no earlier demo made it" in done.stderr
    assert (tmp_path / "precious").read_text() == "data"
