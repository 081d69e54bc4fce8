"""One simulated machine: its identity, its devices, what runs on it, and what is wrong with it.

Not safe for threads by itself: `Fleet` holds the machine's `lock` around every call.
"""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any, assert_never

from quarantine.core.errors import UsageError
from quarantine.sandbox.dice import Dice
from quarantine.sandbox.faults import (
    CounterReset,
    Exporter,
    ExporterDies,
    ExporterFrozen,
    Fault,
    GhostNode,
    GpuHot,
    GpuHotFor,
    GpuLost,
    IbCollectorFails,
    IbFlap,
    Idle,
    JobChange,
    NvlinkErrors,
    Sentinel,
    SparePort,
    Spike,
    Xid,
)
from quarantine.sandbox.nodeobject import node_object
from quarantine.sandbox.simgpu import Heat, SimGpu
from quarantine.sandbox.simport import Flap, SimPort
from quarantine.sandbox.workload import SimPod, training_pod

GPUS = 8
SPARE = "mlx5_8"  # the device of a port without a cable


class SimNode:
    """A machine. Public fields are its identity; `replace` of the fleet makes another machine of the same name."""

    def __init__(
        self, dice: Dice, name: str, position: int, *, epoch: datetime, modern: bool, generation: int = 0
    ) -> None:
        """`epoch`: the moment that t = 0 stands for.

        `modern`: its dcgm-exporter is 4.6 or newer (`hostname`, and no XID series while there was no XID).
        """
        machine = dice.at(f"{name}/{generation}")
        self.name = name
        self.position = position
        self.generation = generation
        self.modern = modern
        self.address = f"10.20.{position // 16}.{position % 16 + 1}"
        self.zone = f"zone-{'ab'[position // 8 % 2]}"
        self.leaf = f"leaf-{position // 8:02d}"
        self.provider_id = f"sandbox://{self.zone}/m-{machine.hex('provider', 16)}"
        self.system_uuid = machine.uuid("system")
        self.machine_id = machine.hex("machine", 32)
        self.boots = 0
        self.uptime_s = machine.uniform("uptime", 1, 60) * 86_400
        self.booted_at = -self.uptime_s
        inlet = machine.uniform("inlet", 21, 25)
        uptime_s = self.uptime_s
        self.gpus = tuple(SimGpu(machine.at(f"gpu{i}"), i, inlet=inlet, uptime_s=uptime_s) for i in range(GPUS))
        self.ports = [SimPort(machine.at(f"mlx5_{i}"), f"mlx5_{i}", uptime_s=uptime_s) for i in range(8)]
        self.exporter_pods = {
            "dcgm": f"nvidia-dcgm-exporter-{machine.word('dcgm', 5)}",
            "node": f"prometheus-node-exporter-{machine.word('node', 5)}",
        }
        self.lock = threading.Lock()
        self.pods: tuple[SimPod, ...] = ()
        self.faults: list[Fault] = []
        self.frozen: dict[Exporter, bytes] = {}
        self.spikes: dict[Spike, int] = {}  # scrapes that still read it
        self.layout: dict[Exporter, str] = {}  # what exporters keep between scrapes; emptied when labels change
        self._machine = machine
        self._epoch = epoch
        self._since: dict[Fault, float] = {}
        self._jobs = 0

    @property
    def boot_id(self) -> str:
        """Another one after each reboot."""
        return self._machine.uuid(f"boot{self.boots}")

    def kubernetes(self, *, images: bool = True) -> dict[str, Any]:
        """Its Node object, some 14 kB of it; without `images` it is small."""
        return node_object(self, since=self._epoch, images=images)

    # --- what runs on it ----------------------------------------------------------------------------------------------

    def run(self, t: float, pods: tuple[SimPod, ...]) -> None:
        """These pods run now, and no others."""
        self.pods = pods
        load = dict.fromkeys(range(len(self.gpus)), 0.0) | {i: pod.activity for pod in pods for i in pod.gpus}
        for gpu in self.gpus:
            gpu.set_activity(t, load[gpu.index])
        traffic = {"training": 1.0, "inference": 0.05}
        for port in self.ports:
            port.set_activity(t, max((traffic[pod.kind] for pod in pods), default=0.0))
        self.layout.clear()

    def next_job(self, t: float) -> None:
        """A new job of one machine begins. Raises UsageError where the machine is idle on purpose."""
        if any(isinstance(f, Idle) for f in self.faults):
            raise UsageError(f"{self.name} is idle: clear Idle({self.name!r}) first")
        self._jobs += 1
        job = f"finetune-{self._machine.word(f'job{self._jobs}', 5)}"
        self.run(t, (training_pod(self._machine, job, 0, len(self.gpus)),))

    # --- what is wrong with it ----------------------------------------------------------------------------------------

    def dead(self, exporter: Exporter, t: float) -> bool:
        """Whether this exporter does not answer."""
        return any(
            (isinstance(f, ExporterDies) and f.exporter == exporter)
            or (isinstance(f, GpuHotFor) and exporter == "dcgm" and t >= self._since[f] + f.seconds)
            for f in self.faults
        )

    def apply(self, fault: Fault, t: float) -> None:
        """The fault begins. Raises UsageError for a device that the machine has not."""
        match fault:
            case GpuHot() | GpuHotFor() | NvlinkErrors() | GpuLost() | Xid() | Sentinel() | Spike():
                self._begin_on_gpu(fault, t)
            case IbFlap():
                self._begin_flap(fault, t)
            case SparePort():
                if any(port.device == SPARE for port in self.ports):
                    raise UsageError(f"{self.name} has its spare port already")
                state = fault.physical_state
                self.ports.append(SimPort(self._machine.at(SPARE), SPARE, uptime_s=0, never_up=state))
            case CounterReset():
                self._reset(t, reboot=fault.reboot)
            case JobChange():
                self.next_job(t)
            case Idle():
                self.run(t, ())
            case ExporterDies() | ExporterFrozen() | IbCollectorFails() | GhostNode():
                pass
            case _:
                assert_never(fault)
        self.layout.clear()
        if not isinstance(fault, CounterReset | JobChange):
            self.faults.append(fault)
            self._since[fault] = t

    def _begin_on_gpu(
        self, fault: GpuHot | GpuHotFor | NvlinkErrors | GpuLost | Xid | Sentinel | Spike, t: float
    ) -> None:
        gpu = self.gpu(fault.gpu)
        match fault:
            case GpuHot():
                gpu.heat(t, fault, Heat(fault.to_celsius, t, fault.rise_s))
            case GpuHotFor():
                gpu.heat(t, fault, Heat(fault.celsius, t, 0.0))
            case NvlinkErrors():
                self._nvlink(t, fault.gpu, [fault])
            case Spike():
                if fault.samples < 1:
                    raise UsageError(f"a spike is at least one sample, not {fault.samples}")
                self.spikes[fault] = fault.samples
            case GpuLost() | Xid() | Sentinel():
                pass
            case _:
                assert_never(fault)

    def _begin_flap(self, fault: IbFlap, t: float) -> None:
        down_s = fault.period_s / 3 if fault.down_s is None else fault.down_s
        if not 0 < down_s < fault.period_s:
            raise UsageError(f"a flap is down for a part of its period, not {down_s} of {fault.period_s} s")
        self.port(fault.port).flap(t, fault, Flap(t, fault.period_s, down_s, fault.symbol_per_s))

    def revoke(self, fault: Fault, t: float) -> None:
        """The fault ends; what it counted stays counted."""
        self.faults.remove(fault)
        self._since.pop(fault)
        match fault:
            case GpuHot() | GpuHotFor():
                self.gpu(fault.gpu).cool(t, fault)
            case NvlinkErrors():
                self._nvlink(t, fault.gpu)
            case IbFlap():
                self.port(fault.port).steady(t, fault)
            case SparePort():
                self.ports = [port for port in self.ports if port.device != SPARE]
            case Spike():
                self.spikes.pop(fault, None)
            case ExporterFrozen():
                self.frozen.pop(fault.exporter, None)
            case Idle():
                self.next_job(t)
            case ExporterDies() | IbCollectorFails() | GpuLost() | Xid() | Sentinel() | GhostNode():
                pass
            case CounterReset() | JobChange():
                pass  # over as soon as they began
            case _:
                assert_never(fault)
        self.layout.clear()

    def gpu(self, index: int) -> SimGpu:
        """A GPU by index. Raises UsageError."""
        if not 0 <= index < len(self.gpus):
            raise UsageError(f"{self.name} has no GPU {index}: they are 0 to {len(self.gpus) - 1}")
        return self.gpus[index]

    def port(self, name: str) -> SimPort:
        """A port by name, such as `mlx5_3/1`. Raises UsageError."""
        for port in self.ports:
            if port.name == name:
                return port
        raise UsageError(
            f"{self.name} has no InfiniBand port {name!r}: they are {', '.join(p.name for p in self.ports)}"
        )

    def _nvlink(self, t: float, index: int, more: list[NvlinkErrors] | None = None) -> None:
        gpu = self.gpu(index)
        faults = [f for f in self.faults if isinstance(f, NvlinkErrors) and f.gpu == index] + (more or [])
        per_s = sum(f.per_s for f in faults)
        gpu.nvlink_replay.set_rate(t, per_s)
        gpu.nvlink_crc_flit.set_rate(t, 2 * per_s)

    def _reset(self, t: float, *, reboot: bool) -> None:
        if reboot:
            self.boots += 1
            self.booted_at = t
        for gpu in self.gpus:
            gpu.reset_counters(t)
        for port in self.ports:
            port.reset_counters(t)

    def lost(self) -> set[int]:
        """Indices of GPUs that fell off the bus."""
        return {f.gpu for f in self.faults if isinstance(f, GpuLost)}

    def xids(self) -> dict[int, int]:
        """The last XID of each GPU that had one."""
        return {f.gpu: f.code for f in self.faults if isinstance(f, Xid)}

    def sentinels(self) -> dict[tuple[int, str], int]:
        """Readings that are blank, by GPU and metric."""
        return {(f.gpu, f.metric): f.value for f in self.faults if isinstance(f, Sentinel)}

    def spiked(self) -> dict[int, int]:
        """Temperatures that this scrape reads wrongly, by GPU; each call uses up one sample."""
        out: dict[int, int] = {}
        for fault, left in list(self.spikes.items()):
            out[fault.gpu] = fault.celsius
            self.spikes[fault] = left - 1
            if left <= 1:
                del self.spikes[fault]
                self.faults.remove(fault)
        return out

    def collects_infiniband(self) -> bool:
        """Whether node_exporter's InfiniBand collector works."""
        return not any(isinstance(f, IbCollectorFails) for f in self.faults)

    def freezes(self, exporter: Exporter) -> bool:
        """Whether this exporter serves its cache."""
        return any(isinstance(f, ExporterFrozen) and f.exporter == exporter for f in self.faults)
