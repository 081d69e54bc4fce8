"""A written history for the backtest's tests: three hours of a few machines, with what went wrong on them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from quarantine.sandbox.notation import series
from quarantine.sandbox.remotewrite import Series

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(hours=3)
STEP = timedelta(seconds=30)
COUNT = 361  # samples of a series
NODES = 12
GPUS = 4


def gpu(metric: str, node: str, number: int, text: str) -> Series:
    labels = {"__name__": metric, "Hostname": node, "UUID": f"GPU-{node}-{number}", "gpu": str(number)}
    return series(labels, text, start=START, interval=STEP)


def fleet(*, hot: dict[str, str] | None = None, nodes: int = NODES) -> Iterator[Series]:
    """Healthy GPUs under load; `hot` gives the temperatures of a node's GPU 1 in promtool's notation."""
    for position in range(nodes):
        name = f"node-{position}"
        for number in range(GPUS):
            odd = (hot or {}).get(name) if number == 1 else None
            yield gpu("DCGM_FI_DEV_GPU_TEMP", name, number, odd or f"60x{COUNT - 1}")
            yield gpu("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", name, number, f"0.6x{COUNT - 1}")
            yield gpu("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", name, number, f"0+9000x{COUNT - 1}")
