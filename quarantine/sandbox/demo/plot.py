"""What happens in the demo: three faults to be caught, five decoys to be left alone, and when each begins."""

from __future__ import annotations

from dataclasses import dataclass, field

from quarantine.core.model import Device, DeviceKind
from quarantine.sandbox.faults import (
    Fault,
    GhostNode,
    GpuHot,
    GpuHotFor,
    IbFlap,
    NvlinkErrors,
    Sentinel,
    SparePort,
    Spike,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One fault or decoy. `at_s`: seconds after the fleet has warmed up; `ask_s`: when, after that, it shows most."""

    node: str
    title: str
    at_s: float
    fault: Fault
    caught_by: str | None  # the policy that must take the node out; None: a decoy
    device: str = ""
    ask_s: float = 0.0
    about: Device | None = field(default=None)
    judged_by: str = "gpu-hot"  # the policy that a decoy might have misled
    shows: str = ""  # what the explanation of a decoy must say: that it was there to be mistaken, and why it was not


def scenes(prefix: str, uuids: dict[tuple[str, int], str], window_s: float) -> tuple[Scene, ...]:
    """The plot. `window_s` is the time for which the heat policy wants a GPU to be hot, as the demo runs it."""

    def node(number: int) -> str:
        return f"{prefix}{number:02d}"

    def gpu(name: str, index: int) -> Device:
        return Device(DeviceKind.GPU, uuids[name, index], str(index))

    hot, links, port = node(7), node(13), node(21)
    dies, blank, spike, spare = node(3), node(11), node(17), node(26)
    ghost = f"{prefix}99"
    short = window_s * 0.55
    return (
        Scene(hot, "GPU 3 warms to 84 °C", 0, GpuHot(hot, 3, 84.0, rise_s=window_s / 3), "gpu-hot", "GPU 3"),
        Scene(
            links, "GPU 5's NVLinks replay and fail CRC", 2, NvlinkErrors(links, 5, per_s=2.0), "nvlink-errors", "GPU 5"
        ),
        Scene(
            port,
            "port mlx5_2/1 flaps, with symbol errors",
            4,
            IbFlap(port, "mlx5_2/1", period_s=9.0, symbol_per_s=40.0, down_s=2.5),
            "infiniband-link-flapping",
            "mlx5_2/1",
        ),
        Scene(
            dies,
            "its exporter dies while GPU 1 is hot, before the policy's time is up",
            1,
            GpuHotFor(dies, 1, 84.0, seconds=short),
            None,
            "GPU 1",
            short + window_s * 0.3,
            gpu(dies, 1),
            shows="nothing fresh since",
        ),
        Scene(
            blank,
            "GPU 6 reports 9223372036854775794",
            3,
            Sentinel(blank, 6),
            None,
            "GPU 6",
            8,
            gpu(blank, 6),
            shows="no measurement",
        ),
        Scene(
            spike,
            "GPU 0 touches 79 °C for one sample",
            5,
            Spike(spike, 0, 79),
            None,
            "GPU 0",
            6,
            gpu(spike, 0),
            shows="79 °C",
        ),
        Scene(
            spare,
            "spare port mlx5_8/1 that was never up",
            0,
            SparePort(spare),
            None,
            "mlx5_8/1",
            10,
            Device(DeviceKind.IB_PORT, "mlx5_8/1"),
            "infiniband-link-flapping",
            shows="saw 0 new link failures of InfiniBand port mlx5_8/1",
        ),
        Scene(
            ghost,
            "an exporter whose node no cluster knows, at 84 °C",
            0,
            GhostNode(ghost),
            None,
            "GPU",
            shows="no node of this cluster",
        ),
    )
