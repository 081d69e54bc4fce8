"""The Node objects of a test."""

from __future__ import annotations

from collections.abc import Mapping

from quarantine.core.capacity import whole_gpus
from quarantine.core.fleet import FleetSpec
from quarantine.core.model import Device, DeviceKind, Node, Taint
from quarantine.core.model import Machine as Hardware
from quarantine.core.policy import LoadedPolicy
from quarantine.core.selectors import same_name
from quarantine.policytest.format import PREFIX, Machine, Machines
from quarantine.policytest.selectors import address

_PLAIN = Machine()


def nodes(
    machines: Machines, different: Mapping[str, Machine], policy: LoadedPolicy, fleet: FleetSpec
) -> Mapping[str, Node]:
    """By name. All are of the fleet's first pool, and such as the policy selects."""
    labels = {**fleet.pools[0].node_selector, **policy.spec.node_selector, **machines.labels}
    names = [f"{PREFIX}{number}" for number in range(1, machines.count + 1)]
    return {
        name: _node(name, number, machines, different.get(name, _PLAIN), labels)
        for number, name in enumerate(names, start=1)
    }


def _node(name: str, number: int, machines: Machines, own: Machine, labels: Mapping[str, str]) -> Node:
    gpus = machines.gpus if own.gpus is None else own.gpus
    every = {**labels, **own.labels}
    return Node(
        name=name,
        machine=Hardware(f"uid-{number}", f"provider://{number}", f"system-{number}", f"boot-{number}"),
        resource_version="1",
        labels=every,
        annotations=own.annotations,
        taints=tuple(Taint(key) for key in own.taints),
        unschedulable=own.unschedulable,
        ready=own.ready,
        addresses=(address(number),),
        gpus=whole_gpus(gpus or None, every),
    )


def device(name: str | None, node: str, kind: DeviceKind) -> Device:
    """The device of a node by its name, or the first that it has of the kind."""
    number = node.removeprefix(PREFIX)
    first = {
        DeviceKind.GPU: f"GPU-{number}-0",
        DeviceKind.NVLINK: f"GPU-{number}-0/0",
        DeviceKind.IB_PORT: "mlx5_0/1",
        DeviceKind.NODE: "",
    }
    said = first[kind] if name is None else name
    return Device(kind, "/".join(same_name(kind, part) for part in said.split("/")))
