"""What can go wrong with a simulated machine or its exporters: data for `Fleet.inject` and `Fleet.clear`.

Times are seconds of the fleet's clock, temperatures °C. A port is named as the controller names it: `mlx5_3/1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Exporter = Literal["dcgm", "node"]
BLANK = 9223372036854775794  # DCGM's "not supported" for an int64, as exporters have been seen to print it


@dataclass(frozen=True, slots=True)
class GpuHot:
    """A GPU cools badly: it warms to `to_celsius` within `rise_s` and throttles a little; idle, it is cool."""

    node: str
    gpu: int
    to_celsius: float = 84.0
    rise_s: float = 60.0


@dataclass(frozen=True, slots=True)
class GpuHotFor:
    """A GPU is hot at once, and after `seconds` its exporter dies: the alert ends and nothing is well."""

    node: str
    gpu: int
    celsius: float = 84.0
    seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class NvlinkErrors:
    """NVLink replays, and flit CRC errors at twice their rate."""

    node: str
    gpu: int
    per_s: float = 1.0


@dataclass(frozen=True, slots=True)
class IbFlap:
    """A port goes down at the start of every `period_s` for `down_s` (a third of it); symbol errors while it is up."""

    node: str
    port: str
    period_s: float = 30.0
    symbol_per_s: float = 0.0
    down_s: float | None = None


@dataclass(frozen=True, slots=True)
class SparePort:
    """A ninth port, `mlx5_8/1`, that was never up: physical state 2 (polling) or 3 (disabled)."""

    node: str
    physical_state: Literal[2, 3] = 2


@dataclass(frozen=True, slots=True)
class IbCollectorFails:
    """node_exporter's InfiniBand collector fails: its series are gone and the collector's success is 0."""

    node: str


@dataclass(frozen=True, slots=True)
class GpuLost:
    """A GPU falls off the bus: its series vanish while its siblings report."""

    node: str
    gpu: int


@dataclass(frozen=True, slots=True)
class Xid:
    """The gauge of the last XID shows `code`, and does until it is cleared."""

    node: str
    gpu: int
    code: int = 79


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A metric reads a blank value instead of a measurement."""

    node: str
    gpu: int
    metric: str = "DCGM_FI_DEV_GPU_TEMP"
    value: int = BLANK


@dataclass(frozen=True, slots=True)
class Spike:
    """The next `samples` scrapes read `celsius`, and none after them."""

    node: str
    gpu: int
    celsius: int = 96
    samples: int = 1


@dataclass(frozen=True, slots=True)
class ExporterDies:
    """The exporter does not answer any more."""

    node: str
    exporter: Exporter = "dcgm"


@dataclass(frozen=True, slots=True)
class ExporterFrozen:
    """The exporter answers, always with what it last knew: up is 1 and nothing moves."""

    node: str
    exporter: Exporter = "dcgm"


@dataclass(frozen=True, slots=True)
class GhostNode:
    """An exporter whose Hostname is no node of the cluster, with a hot GPU."""

    node: str
    celsius: float = 84.0


@dataclass(frozen=True, slots=True)
class CounterReset:
    """Every counter starts again at zero, at once: a driver reload, or with `reboot` a new boot id too."""

    node: str
    reboot: bool = False


@dataclass(frozen=True, slots=True)
class JobChange:
    """The machine's job ends and another begins: the workload's labels, and so every GPU series, change. At once."""

    node: str


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing runs on the machine: it is cool and moves no data. Cleared, another job begins."""

    node: str


Fault = (
    GpuHot
    | GpuHotFor
    | NvlinkErrors
    | IbFlap
    | SparePort
    | IbCollectorFails
    | GpuLost
    | Xid
    | Sentinel
    | Spike
    | ExporterDies
    | ExporterFrozen
    | GhostNode
    | CounterReset
    | JobChange
    | Idle
)
