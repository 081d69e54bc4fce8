"""The machines of a soak: what each one is, what is wrong with it, and since when.

No I/O and no clock: whoever asks says when it is. What a fault means to a policy is the policy's own trigger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from quarantine.core.model import DeviceKind

GPUS, PORTS = 8, 1  # of each machine
MODEL = "NVIDIA H100 80GB HBM3"
FORGOTTEN = timedelta(hours=12)  # no recovery looks back further than this


@dataclass(slots=True)
class Fault:
    """What a policy finds on a device of a machine, from its beginning to its end (None: it lasts)."""

    policy: str
    device: int  # of its kind, from 0; of a node 0
    begin: datetime
    end: datetime | None = None

    def stands(self, at: datetime) -> bool:
        """Whether it is there at a moment."""
        return self.begin <= at and (self.end is None or at < self.end)

    def touches(self, since: datetime, until: datetime) -> bool:
        """Whether it is there at any moment of a stretch."""
        return self.begin <= until and (self.end is None or since < self.end)


@dataclass(slots=True)
class Machine:
    """The hardware behind a node's name. `serial` is never used twice."""

    name: str
    address: str
    serial: int
    since: datetime
    faults: list[Fault] = field(default_factory=list)
    dark_until: datetime | None = None  # its exporters are dead until then
    own: dict[str, str] = field(init=False)  # the labels that name the node

    def __post_init__(self) -> None:
        self.own = {"Hostname": self.name, "instance": f"{self.address}:9100", "node": self.name}

    def seen(self, at: datetime) -> bool:
        """Whether its exporters answer."""
        return self.dark_until is None or at >= self.dark_until

    def mended(self, at: datetime) -> None:
        """Nothing is wrong with it any more."""
        for fault in self.faults:
            if fault.end is None or fault.end > at:
                fault.end = at

    def labels(self, kind: DeviceKind, device: int) -> dict[str, str]:
        """Every label by which an exporter may tell of a device of this machine."""
        own = self.own
        if kind is DeviceKind.GPU:
            return {**own, "UUID": self.gpu(device), "gpu": str(device), "modelName": MODEL}
        return {**own, "device": f"mlx5_{device}", "port": "1"} if kind is DeviceKind.IB_PORT else own

    def gpu(self, device: int) -> str:
        """The UUID of a GPU."""
        return f"GPU-{self.serial:08x}-0000-4000-8000-{device:012x}"


def devices(kind: DeviceKind) -> int:
    """How many a machine has."""
    return {DeviceKind.GPU: GPUS, DeviceKind.IB_PORT: PORTS}.get(kind, 1)


class Fleet:
    """The machines by the names of their nodes."""

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self._serials = count(1)

    def join(self, name: str, at: datetime) -> Machine:
        """Another machine comes under this name."""
        serial = next(self._serials)
        number = 1 + int(name.rpartition("-")[2])
        address = f"10.{number >> 14}.{number >> 7 & 127}.{number & 127}"
        made = self.machines[name] = Machine(name, address, serial, at)
        return made

    def leave(self, name: str) -> None:
        """The machine is taken away."""
        del self.machines[name]

    def faults(self, policy: str) -> Iterator[tuple[Machine, Fault]]:
        """All that a policy could be asked about."""
        for machine in self.machines.values():
            for fault in machine.faults:
                if fault.policy == policy:
                    yield machine, fault

    def forget(self, at: datetime) -> None:
        """What ended so long ago that no question reaches it."""
        for machine in self.machines.values():
            if machine.faults:
                machine.faults = [f for f in machine.faults if f.end is None or f.end > at - FORGOTTEN]
