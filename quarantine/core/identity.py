"""From a sample's labels to a node and a device. A name that matches no node is reported, never acted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quarantine.core.model import Device, DeviceKind, Node
from quarantine.core.readings import NODE_PART, Reading
from quarantine.core.selectors import same_name
from quarantine.core.signal import NodeLabel


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A sample whose node cannot be told. `said` is what its label says."""

    said: str
    why: Literal["no-such-node", "ambiguous-node", "unnamed"]


@dataclass(frozen=True, slots=True)
class Directory:
    """The nodes by name and by address; an address of two nodes is ambiguous (a ghost of one that moved)."""

    nodes: Mapping[str, Node]
    by_address: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, nodes: Mapping[str, Node]) -> Directory:
        """Built once per cycle."""
        found: dict[str, tuple[str, ...]] = {}
        for node in nodes.values():
            for address in node.addresses:
                found[address] = (*found.get(address, ()), node.name)
        return cls(nodes, found)

    def node(self, label: NodeLabel, labels: Mapping[str, str]) -> Node | Unmatched:
        """The node that a sample is about."""
        named = named_by(label, labels)
        said = next((labels[name] for name in label.first if labels.get(name)), named or "")
        if not said:
            return Unmatched("", "unnamed")
        if named is None:
            return Unmatched(said, "no-such-node")
        if label.means == "name":
            node = self.nodes.get(named)
            return node if node is not None else Unmatched(said, "no-such-node")
        names = self.by_address.get(named, ())
        if len(names) == 1:
            return self.nodes[names[0]]
        return Unmatched(said, "ambiguous-node" if names else "no-such-node")


def named_by(label: NodeLabel, labels: Mapping[str, str]) -> str | None:
    """The node's name, or its address without a port, as an answer's labels say it; None where they do not."""
    said = next((labels[name] for name in label.first if labels.get(name)), "")
    if label.part is not None:
        # The query took it out, or the value does not match. Never here: Python's engine goes back over a value of
        # somebody else's making in exponential time.
        said = labels.get(NODE_PART, "")
    return (said if label.means == "name" else host_of(said)) or None


def host_of(address: str) -> str:
    """`10.0.0.7:9100` and `[fd00::7]:9100` without their port."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, port = address.rpartition(":")
    return host if host and port.isdigit() and ":" not in host else address


def device_of(reading: Reading, labels: Mapping[str, str]) -> Device | None:
    """The device that a sample is about; None where its labels do not name one."""
    kind = reading.signal.device
    spec = reading.source.device
    if kind is DeviceKind.NODE or spec is None:
        return Device(DeviceKind.NODE, "")
    index = labels.get(spec.index, "") if spec.index else ""
    if spec.join:
        parts = [labels.get(part, "") for part in spec.join]
        return Device(kind, "/".join(same_name(kind, part) for part in parts), index) if all(parts) else None
    name = next((labels[label] for label in spec.first if labels.get(label)), "")
    return Device(kind, same_name(kind, name), index) if name else None


def gpu_of(device: Device) -> str | None:
    """The UUID of the GPU that a device is, or is a link of; None where its name tells no UUID."""
    if device.kind not in (DeviceKind.GPU, DeviceKind.NVLINK):
        return None
    name = device.name.partition("/")[0]
    return name if name.startswith("GPU-") else None


def position_of(device: Device) -> str | None:
    """Where in its machine a device sits, whichever machine that is: `GPU 3`; None where that is not known.

    A UUID says nothing of it, so a GPU needs its index. A port has the same name in every machine of a kind.
    """
    match device.kind:
        case DeviceKind.GPU:
            return f"GPU {device.index}" if device.index else None
        case DeviceKind.NVLINK:
            return f"NVLink {device.name.partition('/')[2]} of GPU {device.index}" if device.index else None
        case DeviceKind.IB_PORT | DeviceKind.NODE:
            return str(device)
