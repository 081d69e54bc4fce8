"""One Prometheus for all end-to-end tests of a worker; a cluster of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from quarantine.sandbox.prometheus import PrometheusServer
from tests.e2e.situations import Begin, Situation, situation
from tests.e2e.worlds import World, world
from tests.k8s.rights import only_as_granted
from tests.scenarios.play import HEAD_ONLY

_numbers = count()


@pytest.fixture(scope="session")
def live_prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        yield server


@pytest.fixture(scope="session")
def remembering() -> Iterator[PrometheusServer]:
    """For situations in simulated time: each has years of its own, which all stay in the head."""
    with PrometheusServer(flags=HEAD_ONLY) as server:
        yield server


@pytest.fixture
def begin(remembering: PrometheusServer, tmp_path: Path) -> Iterator[Begin]:
    """Begin a situation; it ends with the test. Whatever happened in it, nothing was asked that is not granted."""
    begun: list[Situation] = []

    def begins(**fields: Any) -> Situation:
        begun.append(stack.enter_context(situation(tmp_path, remembering.url, **fields)))
        return begun[-1]

    with ExitStack() as stack:
        yield begins
    for one in begun:
        only_as_granted(one.stage.api.requests)


@pytest.fixture
def cluster(live_prometheus: PrometheusServer, tmp_path: Path) -> Iterator[World]:
    """A healthy cluster of eight nodes, the shipped policies in enforce mode. Nothing is asked that is not granted."""
    with world(tmp_path, f"w{next(_numbers)}", live_prometheus) as made:
        yield made
    only_as_granted(made.api.requests)
