"""Objects as a server holds them, and clusters to talk to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster, KubeSettings, connect
from quarantine.adapters.kube.watcher import Pace
from quarantine.core.errors import Conflict
from quarantine.core.marks import NodePatch
from quarantine.core.model import Node

PREFIX = "quarantine.gpu"
AT = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
BRISK = Pace(
    quiet=timedelta(seconds=5),
    watch_for=timedelta(seconds=30),
    first_wait=timedelta(milliseconds=10),
    longest_wait=timedelta(milliseconds=200),
)


def eventually(true: Callable[[], Any], within: float = 10.0) -> Any:
    """Poll until `true()` is truthy, and return that. Fails when it never is."""
    deadline, pause = time.monotonic() + within, threading.Event()
    while time.monotonic() < deadline:
        if found := true():
            return found
        pause.wait(0.01)
    pytest.fail("the condition was not met in time")


def node_json(name: str, **parts: Any) -> dict[str, Any]:
    """A Node object to create."""
    meta = {"name": name, "labels": {"nvidia.com/gpu.present": "true"}} | parts.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}} | parts


def served(name: str, version: str, uid: str = "", **parts: Any) -> dict[str, Any]:
    """A Node object as a server answers it."""
    return node_json(name, metadata={"uid": uid or f"uid-{name}", "resourceVersion": version}, **parts)


def listed(*nodes: dict[str, Any], version: str = "10", token: str = "") -> dict[str, Any]:
    """A NodeList as a server answers it."""
    meta = {"resourceVersion": version} | ({"continue": token} if token else {})
    return {"kind": "NodeList", "apiVersion": "v1", "metadata": meta, "items": list(nodes)}


def failure(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """A Status as a server answers it."""
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def write_kubeconfig(path: Path, url: str) -> Path:
    """A kubeconfig with one context, `here`. JSON is YAML."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "s3cret-token"}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path


def open_cluster(kubeconfig: Path, *, timeout: float = 5.0, **settings: Any) -> KubeCluster:
    """A cluster with brisk waits, at `AT`."""
    brisk: dict[str, Any] = {"pace": BRISK, "sync_within": timedelta(seconds=10)}
    return connect(
        kubeconfig=kubeconfig,
        context=None,
        api_timeout=timedelta(seconds=timeout),
        prefix=PREFIX,
        user_agent="quarantine-test/1",
        settings=KubeSettings(**(brisk | settings)),
        now=lambda: AT,
    )


def patched(cluster: KubeCluster, name: str, change: Callable[[Node], NodePatch]) -> Node:
    """Read, change, write; read again on conflict, as the cycle does."""

    def attempt() -> Node | None:
        try:
            return cluster.patch_node(change(cluster.nodes()[name]))
        except Conflict:
            return None

    node = eventually(attempt)
    assert isinstance(node, Node)
    return node
