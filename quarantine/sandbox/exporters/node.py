"""The text that node_exporter serves: the InfiniBand collector, and enough of the others to know the machine."""

from __future__ import annotations

from collections.abc import Callable

from quarantine.sandbox.exporters.gofloat import go_float
from quarantine.sandbox.nodeobject import KERNEL
from quarantine.sandbox.simnode import SimNode
from quarantine.sandbox.simport import SimPort

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_COLLECTORS = ("boottime", "infiniband", "loadavg", "meminfo", "time", "uname")
_BOARD = 'board_id="MT_0000000838",device="{}",firmware_version="28.43.2566",hca_type="MT4129"'
_BUILD = (
    'branch="HEAD",goarch="amd64",goos="linux",goversion="go1.23.7",'
    'revision="02afa5c53c36123611533f2defea6ccd4546a9bb",tags="unknown",version="1.9.1"'
)
_MEMORY = 2_164_192_301_056  # bytes

_PORT: tuple[tuple[str, str, str], ...] = (
    (
        "excessive_buffer_overrun_errors_total",
        "counter",
        "Number of times that OverrunErrors consecutive flow control update periods occurred, each having at least one "
        "overrun error.",
    ),
    (
        "link_downed_total",
        "counter",
        "Number of times the link failed to recover from an error state and went down",
    ),
    (
        "link_error_recovery_total",
        "counter",
        "Number of times the link successfully recovered from an error state",
    ),
    (
        "local_link_integrity_errors_total",
        "counter",
        "Number of times that the count of local physical errors exceeded the threshold specified by LocalPhyErrors.",
    ),
    ("multicast_packets_received_total", "counter", "Number of multicast packets received (including errors)"),
    ("multicast_packets_transmitted_total", "counter", "Number of multicast packets transmitted (including errors)"),
    (
        "physical_state_id",
        "gauge",
        "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, "
        "6: link error recover, 7: phytest)",
    ),
    (
        "port_constraint_errors_received_total",
        "counter",
        "Number of packets received on the switch physical port that are discarded",
    ),
    (
        "port_constraint_errors_transmitted_total",
        "counter",
        "Number of packets not transmitted from the switch physical port",
    ),
    ("port_data_received_bytes_total", "counter", "Number of data octets received on all links"),
    ("port_data_transmitted_bytes_total", "counter", "Number of data octets transmitted on all links"),
    (
        "port_discards_received_total",
        "counter",
        "Number of inbound packets discarded by the port because the port is down or congested",
    ),
    (
        "port_discards_transmitted_total",
        "counter",
        "Number of outbound packets discarded by the port because the port is down or congested",
    ),
    (
        "port_errors_received_total",
        "counter",
        "Number of packets containing an error that were received on this port",
    ),
    (
        "port_packets_received_total",
        "counter",
        "Number of packets received on all VLs by this port (including errors)",
    ),
    (
        "port_packets_transmitted_total",
        "counter",
        "Number of packets transmitted on all VLs from this port (including errors)",
    ),
    (
        "port_receive_remote_physical_errors_total",
        "counter",
        "Number of packets marked with the EBP (End of Bad Packet) delimiter received on the port.",
    ),
    (
        "port_receive_switch_relay_errors_total",
        "counter",
        "Number of packets that could not be forwarded by the switch.",
    ),
    (
        "port_transmit_wait_total",
        "counter",
        "Number of ticks during which the port had data to transmit but no data was sent during the entire tick",
    ),
    ("rate_bytes_per_second", "gauge", "Maximum signal transfer rate"),
    (
        "state_id",
        "gauge",
        "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)",
    ),
    ("symbol_error_total", "counter", "Number of minor link errors detected on one or more physical lanes."),
    ("unicast_packets_received_total", "counter", "Number of unicast packets received (including errors)"),
    ("unicast_packets_transmitted_total", "counter", "Number of unicast packets transmitted (including errors)"),
    ("vl15_dropped_total", "counter", "Number of incoming VL15 packets dropped due to resource limitations."),
)


def _readings(port: SimPort, t: float) -> tuple[str, ...]:
    """Values of one port, in the order of `_PORT`."""
    state, physical, rate = port.state(t)
    sent, sent_packets, wait = port.traffic(t)
    received, received_packets = int(sent * 0.9971) & ~3, int(sent_packets * 0.9971)
    out = (
        0, port.count("link_downed", t), port.count("link_error_recovery", t), 0, 0, 0, physical, 0, 0, received, sent,
        0, port.discards, 0, received_packets, sent_packets, 0, 0, wait, rate, state, port.count("symbol_error", t),
        received_packets, sent_packets, 0,
    )  # fmt: skip
    return tuple(go_float(value) for value in out)


def render(node: SimNode, t: float, now: float) -> bytes:
    """The body of /metrics. `now` is the Unix time that `t` stands for."""
    layout = node.layout.get("node")
    if layout is None:
        layout = node.layout["node"] = _layout(node)
    rows = [_readings(port, t) for port in node.ports] if node.collects_infiniband() else []
    load = sum(pod.activity * len(pod.gpus) for pod in node.pods) * 2.3 + 0.35
    values = [go_float(round(now - t + node.booted_at))]
    values += [value for column in zip(*rows, strict=True) for value in column]
    values += [go_float(round(load, 2)), go_float(round(load * 0.99, 2)), go_float(round(load * 1.01, 2))]
    values += [go_float(int(_MEMORY * (0.41 if node.pods else 0.97)) & ~1023), go_float(round(now, 7))]
    return (layout % tuple(values)).encode()


def _layout(node: SimNode) -> str:
    """Everything but the values, sorted by name as node_exporter does; see `dcgm._layout`."""
    infiniband = node.collects_infiniband()
    families: list[tuple[str, str, str, list[str]]] = [
        ("node_boot_time_seconds", "gauge", "Node boot time, in unixtime.", [" %s"]),
        (
            "node_exporter_build_info",
            "gauge",
            "A metric with a constant '1' value labeled by version, revision, branch, goversion from which "
            "node_exporter was built, and the goos and goarch for the build.",
            [f"{{{_BUILD}}} 1"],
        ),
        ("node_load1", "gauge", "1m load average.", [" %s"]),
        ("node_load15", "gauge", "15m load average.", [" %s"]),
        ("node_load5", "gauge", "5m load average.", [" %s"]),
        ("node_memory_MemAvailable_bytes", "gauge", "Memory information field MemAvailable_bytes.", [" %s"]),
        ("node_memory_MemTotal_bytes", "gauge", "Memory information field MemTotal_bytes.", [f" {go_float(_MEMORY)}"]),
        (
            "node_scrape_collector_duration_seconds",
            "gauge",
            "node_exporter: Duration of a collector scrape.",
            _by_collector(lambda name: "0.002893114" if name == "infiniband" else "4.1377e-05"),
        ),
        (
            "node_scrape_collector_success",
            "gauge",
            "node_exporter: Whether a collector succeeded.",
            _by_collector(lambda name: "0" if name == "infiniband" and not infiniband else "1"),
        ),
        ("node_time_seconds", "gauge", "System time in seconds since epoch (1970).", [" %s"]),
        (
            "node_uname_info",
            "gauge",
            "Labeled system information as provided by the uname system call.",
            [
                f'{{domainname="(none)",machine="x86_64",nodename="{node.name}",release="{KERNEL}",sysname="Linux",'
                'version="#163-Ubuntu SMP Mon Jul 7 17:02:05 UTC 2025"} 1'
            ],
        ),
    ]
    if infiniband:
        families += _infiniband(node)
    return "".join(
        f"# HELP {name} {text}\n# TYPE {name} {kind}\n" + "".join(f"{name}{line}\n" for line in lines)
        for name, kind, text, lines in sorted(families)
    )


def _infiniband(node: SimNode) -> list[tuple[str, str, str, list[str]]]:
    about = "Non-numeric data from /sys/class/infiniband/<device>, value is always 1."
    info = [f"{{{_BOARD.format(port.device)}}} 1" for port in node.ports]
    ports = [f'{{device="{port.device}",port="{port.port}"}} %s' for port in node.ports]
    return [("node_infiniband_info", "gauge", about, info)] + [
        (f"node_infiniband_{name}", kind, text, ports) for name, kind, text in _PORT
    ]


def _by_collector(value: Callable[[str], str]) -> list[str]:
    return [f'{{collector="{name}"}} {value(name)}' for name in _COLLECTORS]
