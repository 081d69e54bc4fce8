"""A fleet's past, written to Prometheus: healthy GPUs under load, and among them a few whose trouble is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarantine.core.model import Machine, Node
from quarantine.sandbox.remotewrite import Series, write

GPUS = 8  # of a node
SCRAPE = timedelta(seconds=30)
_SLICE = timedelta(minutes=30)  # written at once, whatever the length of the whole
_VARIANTS = 16  # of a healthy GPU's temperature: the samples are made once for all that share it
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TENSOR = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
NVLINK = tuple(
    f"DCGM_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL" for kind in ("REPLAY", "RECOVERY", "CRC_FLIT", "CRC_DATA")
)
Samples = list[tuple[datetime | int, float]]


@dataclass(frozen=True, slots=True)
class Past:
    """`nodes` machines of eight GPUs over a stretch of time. Troubles repeat daily on the first few machines."""

    nodes: int
    start: datetime
    length: timedelta

    def inventory(self) -> dict[str, Node]:
        """The machines as the cluster shows them."""
        return {name: _node(name) for name in map(name_of, range(self.nodes))}

    @property
    def series(self) -> int:
        """How many series it has."""
        return self.nodes * GPUS * (3 + len(NVLINK))

    def fill(self, url: str) -> int:
        """Write it; returns how many samples it has."""
        sent, at, end = 0, self.start, self.start + self.length
        while at < end:
            until = min(at + _SLICE, end)
            sent += write(url, self._slice([at + i * SCRAPE for i in range((until - at) // SCRAPE)]))
            at = until
        return sent

    def _slice(self, times: Sequence[datetime]) -> Iterator[Series]:
        seconds = [(at - self.start).total_seconds() for at in times]
        stamps = [round(at.timestamp() * 1000) for at in times]
        energy: Samples = [(stamp, 1e9 + 21_000 * s) for stamp, s in zip(stamps, seconds, strict=True)]
        busy: Samples = [(stamp, 0.62) for stamp in stamps]
        quiet: Samples = [(stamp, 3.0) for stamp in stamps]
        warm: list[Samples] = [
            [(stamp, float(58 + (variant + stamp // 60_000) % 9)) for stamp in stamps] for variant in range(_VARIANTS)
        ]
        for node in range(self.nodes):
            for gpu in range(GPUS):
                labels = {"Hostname": name_of(node), "UUID": f"GPU-{node:04d}-{gpu}", "gpu": str(gpu)}
                heat = [_heat(node, gpu, s) for s in seconds] if node < 4 else []
                hot: Samples = [(stamp, value) for stamp, value in zip(stamps, heat, strict=True)] if any(heat) else []
                yield Series({"__name__": TEMPERATURE, **labels}, hot or warm[(node * GPUS + gpu) % _VARIANTS])
                yield Series({"__name__": ENERGY, **labels}, energy)
                yield Series({"__name__": TENSOR, **labels}, busy)
                for metric in NVLINK:
                    failing = metric == NVLINK[0] and (node, gpu) == (5, 2)
                    errors: Samples = [(t, _errors(s)) for t, s in zip(stamps, seconds, strict=True)] if failing else []
                    yield Series({"__name__": metric, **labels}, errors or quiet)


def _heat(node: int, gpu: int, seconds: float) -> float:
    """Of the machines with a hot GPU; 0 of others."""
    hour = seconds / 3600 % 24
    match (node, gpu):
        case (0, 3):  # hot from the ninth hour of the first day on, for good
            return 84.0 if seconds > 9 * 3600 else 64.0
        case (1, 0):  # for two hours a day
            return 83.0 if 14 <= hour < 16 else 63.0
        case (2, 7):  # for three minutes an hour: too short to matter
            return 90.0 if seconds % 3600 < 180 else 66.0
        case (3, 1):  # to and fro about the threshold
            return 78.0 + (1 if seconds % 1200 < 700 else -1)
    return 0.0


def _errors(seconds: float) -> float:
    """Two a minute through the eleventh hour of each day."""
    day, rest = divmod(seconds, 24 * 3600)
    return 120.0 * day + 2 * min(60.0, max(0.0, rest / 60 - 600)) // 1


def name_of(number: int) -> str:
    """A node's name."""
    return f"gpu-node-{number:04d}"


def _node(name: str) -> Node:
    return Node(
        name=name,
        machine=Machine(node_uid=f"uid-{name}"),
        resource_version="1",
        labels={"nvidia.com/gpu.present": "true"},
        annotations={},
        taints=(),
        unschedulable=False,
        ready=True,
        gpus=GPUS,
    )
