"""kubectl applies what the emulator knows of, and applying it again changes nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from quarantine.sandbox.kubeapi import KubeApi, serve
from tests.k8s.conftest import KUBECTL, OVERLAYS, overlay

KNOWN = {"Namespace", "ConfigMap", "Deployment", "StatefulSet", "PodDisruptionBudget"}
BUDGET = "poddisruptionbudget.policy/quarantine configured"
EVERYTHING = "namespaces,configmaps,deployments,statefulsets,poddisruptionbudgets"
REAL = os.environ.get("QUARANTINE_TEST_KUBECONFIG")
Kubectl = Callable[..., str]


def called(config: Path, folder: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(config)}
    done = subprocess.run(
        [str(KUBECTL), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with serve(KubeApi()) as server:
        yield partial(called, server.write_kubeconfig(tmp_path / "config"), tmp_path)


@pytest.mark.parametrize("name", OVERLAYS)
def test_it_is_applied_and_stays_as_it_is(name: str, kubectl: Kubectl, tmp_path: Path) -> None:
    known = [m for m in overlay(name) if m["kind"] in KNOWN]
    assert {m["kind"] for m in known} >= KNOWN - {"StatefulSet"}
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(known))
    first = kubectl("apply", "--validate=false", "-f", str(file)).splitlines()
    assert len(first) == len(known)
    assert all(line.endswith(" created") for line in first)
    made = kubectl("get", EVERYTHING, "--all-namespaces", "-o", "json")
    again = kubectl("apply", "--validate=false", "-f", str(file)).splitlines()
    # Of a disruption budget's selector kubectl always sends the whole, and says so, also to a real API server.
    assert {line for line in again if not line.endswith(" unchanged")} == {BUDGET}
    assert kubectl("get", EVERYTHING, "--all-namespaces", "-o", "json") == made
    assert "quarantine" in kubectl("get", "deployment,pdb", "--namespace", "quarantine-system")


if REAL is not None:

    @pytest.mark.parametrize("name", OVERLAYS)
    def test_a_real_api_server_would_take_it(name: str, tmp_path: Path) -> None:
        """Server-side, leaving nothing behind. What is in a namespace that is not there yet is left out."""
        file = tmp_path / "manifests.yaml"
        absent = {m["metadata"]["name"] for m in overlay(name) if m["kind"] == "Namespace"}
        taken = [m for m in overlay(name) if m["metadata"].get("namespace") not in absent]
        file.write_text(yaml.safe_dump_all(taken))
        called(Path(str(REAL)), tmp_path, "apply", "--server-side", "--dry-run=server", "-f", str(file))
