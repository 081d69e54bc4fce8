"""A case's report, as the planner would hand it over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quarantine.adapters.tickets.directory import DirectoryTickets
from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine

OPENED = datetime(2026, 11, 29, 3, 12, 5, tzinfo=UTC)
UUID = "GPU-5f1c7c1e-93f3-1d0e-8d0c-0c6a8a0b9d11"


Clock = Callable[[], datetime]


class Hands:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = OPENED + timedelta(seconds=10)

    def __call__(self) -> datetime:
        return self.at

    def advance(self, by: timedelta) -> None:
        self.at += by


@pytest.fixture
def clock() -> Clock:
    return Hands()


@pytest.fixture
def advance(clock: Hands) -> Callable[[timedelta], None]:
    return clock.advance


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tickets"


@pytest.fixture
def tickets(folder: Path, clock: Clock) -> DirectoryTickets:
    return DirectoryTickets(folder, clock, patience=0.0)


ReportMaker = Callable[..., CaseReport]


@pytest.fixture
def make_fault() -> Callable[..., Fault]:
    def make(**changes: object) -> Fault:
        fields: dict[str, object] = {
            "policy": "gpu-hot",
            "why": "A GPU that runs hotter than its peers throttles, and the whole job waits for it.",
            "device": f"GPU 3 ({UUID})",
            "category": "GPU",
            "severity": "critical",
            "since": OPENED - timedelta(minutes=7),
            "value": "91.5 °C",
            "threshold": "above 78 °C for 5m, 10% tolerated",
            "query": 'max by (Hostname, UUID) (\n  DCGM_FI_DEV_GPU_TEMP{cluster="lab"}\n) > 78',
            "labels": (
                ("Hostname", "gpu-017"),
                ("UUID", UUID),
                ("container", "train"),
                ("exported_namespace", "secret-project"),
                ("exported_pod", "llm-900b-worker-12"),
                ("gpu", "3"),
                ("hpc_job", "4711"),
                ("job", "dcgm"),
                ("modelName", "NVIDIA H100 80GB HBM3"),
                ("namespace", "secret-project"),
                ("pod", "llm-900b-worker-12"),
            ),
        }
        return Fault(**(fields | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_report(make_fault: Callable[..., Fault]) -> ReportMaker:
    def make(**changes: object) -> CaseReport:
        fields: dict[str, object] = {
            "key": "gpu-017-a3",
            "cluster": "lab",
            "node": "gpu-017",
            "machine": Machine(
                node_uid="0c0ffee0-1111-4222-8333-944444444444",
                provider_id="acme://zone-2/i-0abc",
                system_uuid="4c4c4544-0042-3510-8052-b4c04f4d4d32",
                boot_id="7e0e2a5e-1c1b-4c84-8f0c-64d7c7c2f0f1",
            ),
            "pool": "h100",
            "provider": "acme",
            "ask": "report",
            "title": f"gpu-017: GPU 3 ({UUID}) suspect, please replace the machine",
            "done": "the node is cordoned and tainted: nothing new is scheduled there",
            "reason": "gpu-hot: GPU 3 of gpu-017 was above 78 °C for 5m",
            "opened_at": OPENED,
            "opened_by": "controller",
            "faults": (make_fault(),),
        }
        return CaseReport(**(fields | changes))  # type: ignore[arg-type]

    return make
