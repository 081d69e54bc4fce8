from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quarantine.adapters.kube import KubeCluster
from tests.adapters.kube.scripted import Scripted
from tests.adapters.kube.support import open_cluster, write_kubeconfig
from tests.adapters.kube.world import World

if TYPE_CHECKING:
    from quarantine.sandbox.kubeapi import KubeApi, KubeApiServer

REAL = os.environ.get("QUARANTINE_TEST_KUBECONFIG")


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def connected() -> Iterator[Callable[..., KubeCluster]]:
    """`open_cluster`, with what it opens closed at the end, also when the test fails."""
    clusters: list[KubeCluster] = []

    def make(kubeconfig: Path, **settings: Any) -> KubeCluster:
        clusters.append(open_cluster(kubeconfig, **settings))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def to_scripted(
    scripted: Scripted, tmp_path: Path, connected: Callable[..., KubeCluster]
) -> Callable[..., KubeCluster]:
    """Connect to the scripted server."""
    kubeconfig = write_kubeconfig(tmp_path / "scripted.kubeconfig", scripted.url)
    return lambda **settings: connected(kubeconfig, **settings)


@pytest.fixture
def emulator() -> KubeApi:
    """The state of an emulated API server."""
    from quarantine.sandbox.kubeapi import KubeApi

    return KubeApi()


@pytest.fixture
def served_at(emulator: KubeApi) -> Iterator[KubeApiServer]:
    """The emulator over HTTP."""
    from quarantine.sandbox.kubeapi import serve

    with serve(emulator) as server:
        yield server


@pytest.fixture
def emulated(served_at: KubeApiServer, tmp_path: Path) -> Iterator[World]:
    """People in the emulated cluster, for what only an emulator does: bad days on demand."""
    world = World(served_at.write_kubeconfig(tmp_path / "kubeconfig"))
    yield world
    world.close()


@pytest.fixture(params=["emulator", *(["real"] if REAL else [])])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The emulator; also the API server that QUARANTINE_TEST_KUBECONFIG names, if it does."""
    if request.param == "emulator":
        yield request.getfixturevalue("emulated")
        return
    real = World(Path(str(REAL)))
    yield real
    real.close()
