"""The manifests as `kubectl kustomize` renders them."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
K8S = ROOT / "k8s"
OVERLAYS = ("observe", "enforce", "dev")
KUBECTL = Path(sysconfig.get_path("scripts")) / "kubectl"

Manifest = dict[str, Any]


@cache
def rendered(name: str) -> tuple[Manifest, ...]:
    """All documents of a directory under k8s/; not to be changed. By the kustomize that is in kubectl."""
    command = [str(KUBECTL), "kustomize", str(K8S / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "kustomize warns of what it will refuse one day"
    return tuple(yaml.safe_load_all(done.stdout))


def overlay(name: str) -> tuple[Manifest, ...]:
    return rendered(f"overlays/{name}")


def the(manifests: tuple[Manifest, ...], kind: str, name: str) -> Manifest:
    """The one of this kind and name; of what has a hash, by the name before it."""
    [found] = [
        m
        for m in manifests
        if m["kind"] == kind and (m["metadata"]["name"] == name or m["metadata"]["name"].rpartition("-")[0] == name)
    ]
    return found


def pod_of(manifests: tuple[Manifest, ...]) -> Manifest:
    """The controller's pod template."""
    template: Manifest = the(manifests, "Deployment", "quarantine")["spec"]["template"]
    return template


def container_of(manifests: tuple[Manifest, ...]) -> Manifest:
    [found] = pod_of(manifests)["spec"]["containers"]
    return dict(found)


@pytest.fixture
def mounted(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Lay a ConfigMap out as a kubelet does: `..data` is a link to a directory, and each key a link through it."""

    def lay(data: Mapping[str, str]) -> Path:
        version = tmp_path / "mounted" / "..2026_01_01"
        version.mkdir(parents=True)
        (version.parent / "..data").symlink_to(version.name)
        for key, text in data.items():
            (version / key).write_text(text, encoding="utf-8")
            (version.parent / key).symlink_to(f"..data/{key}")
        return version.parent

    return lay
