"""One Prometheus for all end-to-end tests of a worker; a cluster of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from quarantine.sandbox.prometheus import PrometheusServer
from tests.e2e.worlds import World, world

_numbers = count()


@pytest.fixture(scope="session")
def live_prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        yield server


@pytest.fixture
def cluster(live_prometheus: PrometheusServer, tmp_path: Path) -> Iterator[World]:
    """A healthy cluster of eight nodes, with the shipped policies in enforce mode."""
    with world(tmp_path, f"w{next(_numbers)}", live_prometheus) as made:
        yield made
