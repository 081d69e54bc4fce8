"""The exporters' texts are what the real exporters print."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from quarantine.sandbox.exporters import dcgm
from quarantine.sandbox.exporters.gofloat import go_float
from quarantine.sandbox.faults import Exporter, GpuLost, IbCollectorFails, SparePort, Xid
from quarantine.sandbox.fleet import Fleet
from quarantine.sandbox.prometheus import find_binary

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)")


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(nodes=8, clock=lambda: NOW)


def text(fleet: Fleet, name: str, exporter: Exporter) -> str:
    body = fleet.scrape(name, exporter)
    assert body is not None
    return body.decode()


def samples(body: str, metric: str) -> list[str]:
    return [line for line in body.splitlines() if line.startswith((f"{metric}{{", f"{metric} "))]


@pytest.mark.parametrize(
    ("value", "printed"),
    [  # as strconv.FormatFloat(v, 'g', -1, 64) has them
        (0, "0"),
        (1, "1"),
        (61, "61"),
        (0.5, "0.5"),
        (354824, "354824"),
        (999999, "999999"),
        (1e6, "1e+06"),
        (2.0665436e07, "2.0665436e+07"),
        (5e10, "5e+10"),
        (2.5e10, "2.5e+10"),
        (1000001, "1.000001e+06"),
        (1795965110.5, "1.7959651105e+09"),
        (1.2649268224665228e16, "1.2649268224665228e+16"),
        (1e21, "1e+21"),
        (0.002893114, "0.002893114"),
        (4.1377e-05, "4.1377e-05"),
        (-2.5e7, "-2.5e+07"),
        (-3, "-3"),
    ],
)
def test_numbers_are_printed_as_go_does(value: float, printed: str) -> None:
    assert go_float(value) == printed
    assert float(printed) == value


# What promtool's linter says of the real exporters too: matters of taste, which they cannot change any more.
TASTE = {
    'counter metrics should have "_total" suffix',
    "label names should be written in 'snake_case' not 'camelCase'",
    "metric names should be written in 'snake_case' not 'camelCase'",
    "metric name should not include type 'counter'",
}


@pytest.mark.parametrize("exporter", ["dcgm", "node"])
@pytest.mark.parametrize("spoil", [False, True])
def test_promtool_parses_them(fleet: Fleet, exporter: Exporter, spoil: bool) -> None:
    if spoil:
        for fault in (SparePort("gpu-node-02"), GpuLost("gpu-node-02", 3), Xid("gpu-node-02", 1, 45)):
            fleet.inject(fault)
    done = subprocess.run(
        [find_binary("promtool"), "check", "metrics"],
        input=text(fleet, "gpu-node-02", exporter),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in {0, 3}, done.stderr  # 3: it has opinions
    opinions = {line.partition(" ")[2] for line in (done.stdout + done.stderr).splitlines() if line}
    assert opinions <= TASTE


def test_dcgm_prints_labels_in_its_order(fleet: Fleet) -> None:
    node = fleet.node("gpu-node-02")
    (pod,) = node.pods
    line = samples(text(fleet, node.name, "dcgm"), "DCGM_FI_DEV_GPU_TEMP")[3]
    found = LINE.fullmatch(line)
    assert found is not None
    assert found[2] == (
        f'{{gpu="3",UUID="{node.gpus[3].uuid}",pci_bus_id="00000000:5D:00.0",device="nvidia3",'
        'modelName="NVIDIA H100 80GB HBM3",Hostname="gpu-node-02",DCGM_FI_DRIVER_VERSION="570.172.08",'
        f'container="pytorch",namespace="training",pod="{pod.name}"}}'
    )
    assert found[3].isdigit()


def test_dcgm_prints_whole_numbers_and_six_decimals(fleet: Fleet) -> None:
    body = text(fleet, "gpu-node-02", "dcgm")
    decimals = {"DCGM_FI_DEV_POWER_USAGE", *(name for name, _, _ in dcgm.FIELDS if name.startswith("DCGM_FI_PROF_"))}
    for name, _, _ in dcgm.FIELDS:
        lines = samples(body, name)
        assert len(lines) == 8
        pattern = r"\d+\.\d{6}" if name in decimals else r"\d+"
        assert all(re.fullmatch(pattern, line.rsplit(" ", 1)[1]) for line in lines), lines


def families(body: str) -> Iterator[tuple[str, str]]:
    lines = body.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("# HELP "):
            name = line.split()[2]
            kind = lines[at + 1].split()
            assert kind[:3] == ["#", "TYPE", name]
            yield name, kind[3]


def test_every_family_has_help_and_type_before_its_samples(fleet: Fleet) -> None:
    for exporter in ("dcgm", "node"):
        body = text(fleet, "gpu-node-02", exporter)
        known = dict(families(body))
        current = ""
        for line in body.splitlines():
            if line.startswith("# TYPE "):
                current = line.split()[2]
            elif not line.startswith("#"):
                found = LINE.fullmatch(line)
                assert found is not None, line
                assert found[1] == current
        assert all(kind in {"gauge", "counter"} for kind in known.values())
    assert dict(families(text(fleet, "gpu-node-02", "dcgm"))).items() >= {(n, k) for n, k, _ in dcgm.FIELDS}


def test_a_newer_exporter_says_hostname_and_has_no_xid_yet(fleet: Fleet) -> None:
    old, new = text(fleet, "gpu-node-02", "dcgm"), text(fleet, "gpu-node-03", "dcgm")
    assert 'Hostname="gpu-node-02"' in old
    assert 'hostname="' not in old
    assert 'hostname="gpu-node-03"' in new
    assert "Hostname" not in new
    assert all('err_code="0",err_msg="No Error"' in line for line in samples(old, "DCGM_FI_DEV_XID_ERRORS"))
    assert "DCGM_FI_DEV_XID_ERRORS" not in new
    fleet.inject(Xid("gpu-node-03", 5, 74))
    (line,) = samples(text(fleet, "gpu-node-03", "dcgm"), "DCGM_FI_DEV_XID_ERRORS")
    assert line.endswith(" 74")
    assert 'gpu="5"' in line
    assert 'err_code="74",err_msg="NVLINK Error"' in line


def test_two_inference_pods_share_a_node(fleet: Fleet) -> None:
    node = fleet.node("gpu-node-07")
    pods = [re.search(r'pod="([^"]+)"', x) for x in samples(text(fleet, node.name, "dcgm"), "DCGM_FI_DEV_GPU_TEMP")]
    names = [found[1] for found in pods if found]
    assert names == [node.pods[0].name] * 4 + [node.pods[1].name] * 4


def test_node_exporter_sorts_by_name_and_knows_every_port(fleet: Fleet) -> None:
    body = text(fleet, "gpu-node-02", "node")
    names = [name for name, _ in families(body)]
    assert names == sorted(names)
    infiniband = {name.removeprefix("node_infiniband_") for name in names if name.startswith("node_infiniband_")}
    assert infiniband >= {
        "info", "state_id", "physical_state_id", "rate_bytes_per_second", "symbol_error_total", "link_downed_total",
        "link_error_recovery_total", "local_link_integrity_errors_total", "excessive_buffer_overrun_errors_total",
        "port_errors_received_total", "port_receive_remote_physical_errors_total", "port_discards_received_total",
        "port_discards_transmitted_total", "port_constraint_errors_received_total",
        "port_constraint_errors_transmitted_total", "vl15_dropped_total", "port_transmit_wait_total",
        "port_data_received_bytes_total", "port_data_transmitted_bytes_total",
    }  # fmt: skip
    for name in infiniband - {"info"}:
        lines = samples(body, f"node_infiniband_{name}")
        assert [line.partition(" ")[0].partition("{")[2] for line in lines] == [
            f'device="mlx5_{i}",port="1"}}' for i in range(8)
        ]
    assert samples(body, "node_infiniband_rate_bytes_per_second")[0].endswith(" 5e+10")
    assert 'node_scrape_collector_success{collector="infiniband"} 1' in body
    assert 'nodename="gpu-node-02"' in body


def test_one_bad_device_kills_the_whole_collector(fleet: Fleet) -> None:
    fleet.inject(IbCollectorFails("gpu-node-02"))
    body = text(fleet, "gpu-node-02", "node")
    assert "node_infiniband" not in body
    assert 'node_scrape_collector_success{collector="infiniband"} 0' in body
    assert 'node_scrape_collector_success{collector="uname"} 1' in body
