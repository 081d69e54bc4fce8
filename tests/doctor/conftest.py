"""A small cluster with everything that the controller talks to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from quarantine.cli.doctor import _exit
from quarantine.doctor import CHECKS, Patient
from quarantine.doctor import examine as diagnose
from quarantine.sandbox.kubeapi.auth import default_users
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.settings import load
from tests.e2e.worlds import TOKEN, World, world

LONG = timedelta(minutes=1)
_NUMBERS = count()


@pytest.fixture(scope="session")
def live_prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, live_prometheus: PrometheusServer) -> Iterator[World]:
    """One for tests that change nothing of it but what `cluster` puts back."""
    with world(tmp_path_factory.mktemp("doctor"), f"doc{next(_NUMBERS)}", live_prometheus, size=3) as made:
        yield made


@pytest.fixture
def cluster(shared: World) -> World:
    shared.api.gate.users = default_users()
    shared.api.fault = None
    shared.kube.write_kubeconfig(shared.folder / "kubeconfig")
    shared.slack.reset()
    shared.write_policies()
    shared.write_settings()
    return shared


Examine = Callable[..., list[dict[str, str]]]


@pytest.fixture
def examine(cluster: World) -> Examine:
    """Its findings, of all checks by the command, or of those that are named; `exit_code` is what it must end with."""

    def run(*checks: str, exit_code: int = 0, env: Mapping[str, str] | None = None) -> list[dict[str, str]]:
        if checks:
            environment = {"QUARANTINE_SLACK__TOKEN": TOKEN, **(env or {})}
            given = load(cluster.config, {"database_url": cluster.database_url}, environment)
            with Patient(given, real_now) as patient:
                found = diagnose(patient, LONG, [each for each in CHECKS if each[0] in checks])
            assert _exit(found) == exit_code, found
            return [{**asdict(finding), "level": str(finding.level)} for finding in found]
        done = cluster.quarantine("doctor", "--output", "json", env=env)
        assert done.exit_code == exit_code, done.output
        told: dict[str, Any] = json.loads(done.stdout)
        assert told["exit"] == exit_code
        findings: list[dict[str, str]] = told["findings"]
        return findings

    return run


def real_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  (the servers go by it)


def of(findings: list[dict[str, str]], check: str, level: str | None = None) -> str:
    """What a check said, a line each."""
    found = [f for f in findings if f["check"] == check and level in (None, f["level"])]
    return "\n".join(f"{f['level']}: {f['sentence']} > {f['advice']}" for f in found)
