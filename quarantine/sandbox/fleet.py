"""A simulated fleet of GPU machines: what its exporters would serve at any moment, and what Kubernetes knows of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from threading import Lock
from typing import Any

from quarantine.core.errors import UsageError
from quarantine.sandbox.dice import Dice
from quarantine.sandbox.exporters import dcgm
from quarantine.sandbox.exporters import node as node_exporter
from quarantine.sandbox.faults import (
    CounterReset,
    Exporter,
    ExporterFrozen,
    Fault,
    GhostNode,
    Idle,
    JobChange,
    Sentinel,
)
from quarantine.sandbox.simgpu import Heat
from quarantine.sandbox.simnode import GPUS, SimNode
from quarantine.sandbox.workload import assign

_BEYOND = 3200  # positions, and so addresses, that no machine of the cluster has
_WARM = -3600.0  # jobs began an hour before the fleet did: temperatures have settled


def wall_clock() -> datetime:
    """The time of day, for a fleet that lives in real time."""
    return datetime.now(UTC)  # noqa: TID251  (the sandbox is a world of its own, outside the controller)


class Fleet:
    """Machines `gpu-node-00`… with eight GPUs and eight InfiniBand ports each; safe to use from several threads.

    Everything is a function of the seed, of the faults and when they began, and of the clock: two fleets that are told
    the same at the same times read the same, however often they were scraped in between.
    """

    def __init__(
        self,
        nodes: int = 32,
        seed: int = 7,
        clock: Callable[[], datetime] = wall_clock,
        *,
        modern_every: int = 4,
        gang: int = 8,
        inference_share: float = 0.25,
        prefix: str = "gpu-node-",
    ) -> None:
        """`clock` gives aware datetimes and never runs backwards.

        Every `modern_every`-th machine (0: none) has a dcgm-exporter of 4.6 or newer. The last `inference_share` of the
        machines serve inference, the others train in gangs of `gang` machines.
        """
        if not 1 <= nodes <= _BEYOND:
            raise UsageError(f"a simulated fleet has 1 to {_BEYOND} machines, not {nodes}")
        self._clock = clock
        self._epoch = clock()
        self._dice = Dice(str(seed))
        self._modern_every = modern_every
        self._lock = Lock()  # guards the two dicts below; a machine's own lock guards the machine
        width = max(2, len(str(nodes - 1)))
        self._nodes = {(name := f"{prefix}{i:0{width}}"): self._machine(name, i) for i in range(nodes)}
        self._ghosts: dict[str, SimNode] = {}
        self._positions = count(_BEYOND)  # of ghosts
        pods = assign(self._dice, list(self._nodes), gang=gang, inference_share=inference_share, gpus=GPUS)
        for node, mine in zip(self._nodes.values(), pods, strict=True):
            node.run(_WARM, mine)

    def _machine(self, name: str, position: int, generation: int = 0) -> SimNode:
        modern = self._modern_every > 0 and position % self._modern_every == self._modern_every - 1
        return SimNode(self._dice, name, position, epoch=self._epoch, modern=modern, generation=generation)

    def _t(self) -> float:
        return (self._clock() - self._epoch).total_seconds()

    # --- the machines -------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[SimNode, ...]:
        """The machines that are in service now, in order of their names."""
        with self._lock:
            return tuple(self._nodes.values())

    @property
    def ghosts(self) -> tuple[SimNode, ...]:
        """Machines that have an exporter and are no nodes of the cluster."""
        with self._lock:
            return tuple(self._ghosts.values())

    def node(self, name: str) -> SimNode:
        """A machine by its node's name, ghosts included. Raises UsageError."""
        with self._lock:
            found = self._nodes.get(name) or self._ghosts.get(name)
        if found is None:
            raise UsageError(f"there is no machine {name!r} in the simulated fleet")
        return found

    def pods(self) -> list[dict[str, Any]]:
        """The Pod objects of all jobs, as they run now."""
        return [pod.kubernetes(node.name) for node in self.nodes for pod in node.pods]

    def replace(self, name: str) -> SimNode:
        """Another machine comes under this node's name: new identity, no faults, and a new job if one ran.

        One that comes in for an idle machine gets its work by `job_change`.
        """
        with self._lock:
            old = self._nodes.get(name)
            if old is None:
                raise UsageError(f"there is no machine {name!r} to replace in the simulated fleet")
            new = self._nodes[name] = self._machine(name, old.position, old.generation + 1)
        with new.lock:
            t = self._t()
            new.apply(CounterReset(name, reboot=True), t)
            if old.pods:
                new.next_job(t)
        return new

    # --- what happens to them -----------------------------------------------------------------------------------------

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong now; a spike is over when its samples were scraped."""
        return tuple(fault for node in (*self.nodes, *self.ghosts) for fault in tuple(node.faults))

    def inject(self, fault: Fault) -> None:
        """It begins now. Raises UsageError where there is no such machine or device, or it is so already."""
        if isinstance(fault, GhostNode):
            self._add_ghost(fault)
            return
        if isinstance(fault, Sentinel) and fault.metric not in dcgm.INDEX:
            raise UsageError(f"dcgm-exporter has no metric {fault.metric!r} here: see exporters.dcgm.FIELDS")
        node = self.node(fault.node)
        with node.lock:
            if fault in node.faults:
                raise UsageError(f"{fault} is active already")
            t = self._t()
            node.apply(fault, t)
            if isinstance(fault, ExporterFrozen):
                node.frozen[fault.exporter] = self._render(node, fault.exporter, t)

    def clear(self, fault: Fault) -> bool:
        """It ends now; False where it was not active (any more)."""
        if isinstance(fault, GhostNode):
            with self._lock:
                return self._ghosts.pop(fault.node, None) is not None
        node = self.node(fault.node)
        with node.lock:
            if fault not in node.faults:
                return False
            node.revoke(fault, self._t())
            return True

    def job_change(self, name: str) -> None:
        """Short for injecting JobChange."""
        self.inject(JobChange(name))

    def idle(self, name: str) -> None:
        """Nothing runs there from now on, as after a drain; harmless where nothing does."""
        if Idle(name) not in self.node(name).faults:
            self.inject(Idle(name))

    def _add_ghost(self, fault: GhostNode) -> None:
        with self._lock:
            if fault.node in self._nodes or fault.node in self._ghosts:
                raise UsageError(f"{fault.node} exists already: a ghost needs a name of its own")
            ghost = SimNode(self._dice, fault.node, next(self._positions), epoch=self._epoch, modern=False)
            ghost.next_job(_WARM)
            ghost.gpus[0].heat(self._t(), fault, Heat(fault.celsius, self._t(), 0.0))
            ghost.faults.append(fault)
            self._ghosts[fault.node] = ghost

    # --- what their exporters serve -----------------------------------------------------------------------------------

    def scrape(self, name: str, exporter: Exporter) -> bytes | None:
        """The body of an exporter's /metrics; None where it is dead. Raises UsageError for an unknown machine."""
        node = self.node(name)
        with node.lock:
            t = self._t()
            if node.dead(exporter, t):
                return None
            if node.freezes(exporter):
                return node.frozen[exporter]
            return self._render(node, exporter, t)

    def _render(self, node: SimNode, exporter: Exporter, t: float) -> bytes:
        if exporter == "dcgm":
            return dcgm.render(node, t)
        return node_exporter.render(node, t, self._epoch.timestamp() + t)
