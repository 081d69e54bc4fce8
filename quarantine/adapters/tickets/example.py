"""Examples of a case's report, which a target's templates are tried on before the first machine is bad."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quarantine.core.letters import CaseReport, Fault
from quarantine.core.model import Machine

_OPENED = datetime(2026, 1, 1, 3, 12, 5, tzinfo=UTC)
_UUID = "GPU-00000000-0000-4000-8000-000000000003"

# With everything that a report can have.
FULL = CaseReport(
    key="gpu-017-a3",
    cluster="example",
    node="gpu-017",
    machine=Machine(
        node_uid="00000000-0000-4000-8000-000000000001",
        provider_id="example://zone-2/i-0abc",
        system_uuid="00000000-0000-4000-8000-000000000002",
        boot_id="00000000-0000-4000-8000-000000000004",
        gpus=(_UUID,),
        place="rack=r7/slot=4",
    ),
    pool="h100",
    provider="example",
    ask="report",
    title=f"gpu-017: GPU 3 ({_UUID}) suspect, please replace the machine",
    reason="gpu-hot: GPU 3 of gpu-017 was above 78 °C for 5m\nand its siblings were not",
    done="gpu-017 is cordoned and tainted: nothing new is scheduled there",
    opened_at=_OPENED,
    opened_by="controller",
    faults=(
        Fault(
            policy="gpu-hot",
            why="It throttles, and the whole job waits for it.",
            device=f"GPU 3 ({_UUID})",
            category="GPU",
            severity="critical",
            since=_OPENED - timedelta(minutes=7),
            value="91.5 °C",
            threshold="above 78 °C for 5m, 10% tolerated",
            query="DCGM_FI_DEV_GPU_TEMP > 78",
            labels=(("Hostname", "gpu-017"), ("UUID", _UUID), ("gpu", "3")),
        ),
    ),
    provider_description="an example",
    provider_contact="ops@example.com",
    history="out of service twice in the 28 days before",
    tried=("remedy by gpu-reset, begun 2026-01-01 03:20 UTC: failed",),
    evidence_output="s3://evidence/gpu-017-a3",
    assets=(("rack", "B12"), ("serial", "123456")),
    swap="the same machine was returned before",
    earlier=("R-20251101-gpu-017-9c",),
)
# What a person opens about a machine that nothing is known of.
SPARSE = CaseReport(
    key="gpu-018-b1-replace",
    cluster="example",
    node="gpu-018",
    machine=Machine(node_uid="00000000-0000-4000-8000-000000000005"),
    pool="h100",
    provider="example",
    ask="replace",
    title="gpu-018: please replace the machine, machine suspect",
    reason="it smells of smoke",
    done="",
    opened_at=_OPENED,
    opened_by="ops@example.com",
    faults=(),
)
EXAMPLES = (FULL, SPARSE)
