"""Every fault as a real Prometheus sees it, scraping the simulated exporters twice a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from quarantine.sandbox.exporters.server import ExporterServer, serve_exporters
from quarantine.sandbox.faults import (
    BLANK,
    CounterReset,
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
    NvlinkErrors,
    Sentinel,
    SparePort,
    Spike,
    Xid,
)
from quarantine.sandbox.fleet import Fleet
from quarantine.sandbox.prometheus import PrometheusServer, ScrapeJob

EVERY = timedelta(milliseconds=500)
TEMP = "DCGM_FI_DEV_GPU_TEMP"
NODES = 20


class Lab:
    """A fleet under observation. Each test has machines of its own, so that no fault is in another's way."""

    def __init__(self, fleet: Fleet, exporters: ExporterServer, prometheus: PrometheusServer) -> None:
        self.fleet, self.exporters, self.prometheus = fleet, exporters, prometheus

    def values(self, promql: str) -> list[float]:
        return [float(item["value"][1]) for item in self.prometheus.query(promql)]

    def until(self, promql: str, holds: Callable[[list[float]], bool] = bool, seconds: float = 20) -> list[float]:
        """The first answer for which `holds`: by default, one that is not empty."""
        deadline, pause = time.monotonic() + seconds, threading.Event()
        while not holds(got := self.values(promql)):
            assert time.monotonic() < deadline, f"after {seconds} s {promql} is still {got[:5]}"
            pause.wait(0.1)
        return got

    @contextmanager
    def having(self, fault: Fault) -> Iterator[None]:
        self.fleet.inject(fault)
        try:
            yield
        finally:
            self.fleet.clear(fault)

    def instance(self, node: str, port: int = 9400) -> str:
        return f'instance="{self.fleet.node(node).address}:{port}"'


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    fleet = Fleet(nodes=NODES)
    with serve_exporters(fleet) as exporters:
        jobs = [ScrapeJob("exporters", exporters.targets())]
        with PrometheusServer(jobs=jobs, scrape_interval=EVERY) as prometheus:
            lab = Lab(fleet, exporters, prometheus)
            lab.until("count(up == 1)", lambda got: got == [2 * NODES])
            lab.until("min(count_over_time(up[10s]))", lambda got: bool(got) and got[0] >= 3)
            yield lab


def test_all_series_of_all_targets_arrive(lab: Lab) -> None:
    assert lab.values(f"count({TEMP})") == [8 * NODES]
    assert lab.values('count(node_infiniband_state_id{job="node-exporter"} == 4)') == [8 * NODES]
    assert lab.values(f"count(max by (Hostname, hostname) ({TEMP}))") == [NODES]
    assert lab.values(f"count({TEMP} > 78)") == []
    assert lab.values("count(scrape_samples_scraped == scrape_samples_post_metric_relabeling)") == [2 * NODES]


def test_the_workloads_labels_arrive_as_exported(lab: Lab) -> None:
    (item,) = lab.prometheus.query(f'{TEMP}{{Hostname="gpu-node-00",gpu="0"}}')
    labels = item["metric"]
    node = lab.fleet.node("gpu-node-00")
    assert labels["exported_pod"] == node.pods[0].name
    assert labels["exported_namespace"] == "training"
    assert labels["exported_container"] == "pytorch"
    assert labels["pod"] == node.exporter_pods["dcgm"]
    assert labels["namespace"] == "gpu-operator"
    assert labels["instance"] == "10.20.0.1:9400"
    assert labels["job"] == "dcgm-exporter"
    assert labels["UUID"] == node.gpus[0].uuid


def test_a_gpu_gets_hot_by_and_by(lab: Lab) -> None:
    with lab.having(GpuHot("gpu-node-00", 3, to_celsius=84, rise_s=6)):
        lab.until(f'{TEMP}{{Hostname="gpu-node-00",gpu="3"}} > 81')
    # On the way it was seen in between: it warmed, it did not jump.
    between = f'count_over_time(({TEMP}{{Hostname="gpu-node-00",gpu="3"}} > 70 < 80)[20s:500ms])'
    assert lab.values(between)[0] >= 2
    assert lab.values(f'{TEMP}{{Hostname="gpu-node-00",gpu!="3"}} > 75') == []


def test_nvlink_errors_grow(lab: Lab) -> None:
    with lab.having(NvlinkErrors("gpu-node-01", 2, per_s=20)):
        for kind, rate in (("REPLAY", 20), ("CRC_FLIT", 40)):
            metric = f'DCGM_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL{{Hostname="gpu-node-01",gpu="2"}}'
            lab.until(f"rate({metric}[3s])", lambda got, r=rate: bool(got) and abs(got[0] - r) < r / 5)  # type: ignore[misc]
    assert (
        lab.values('increase(DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{Hostname="gpu-node-01",gpu!="2"}[20s]) > 0')
        == []
    )


def test_a_port_flaps(lab: Lab) -> None:
    port = f'{lab.instance("gpu-node-02", 9100)},device="mlx5_4",port="1"'
    with lab.having(IbFlap("gpu-node-02", "mlx5_4/1", period_s=3, symbol_per_s=50)):
        lab.until(f"resets(node_infiniband_link_downed_total{{{port}}}[20s]) == 0 and "
                  f"delta(node_infiniband_link_downed_total{{{port}}}[20s]) > 1")  # fmt: skip
        lab.until(f"changes(node_infiniband_state_id{{{port}}}[20s]) >= 3")
        lab.until(f"rate(node_infiniband_symbol_error_total{{{port}}}[3s]) > 10")
        lab.until(f"min_over_time(node_infiniband_physical_state_id{{{port}}}[20s]) == 2")
    lab.until(f"node_infiniband_state_id{{{port}}} == 4")


def test_a_dead_exporters_series_are_stale_at_once(lab: Lab) -> None:
    node = lab.instance("gpu-node-04")
    assert len(lab.values(f"{TEMP}{{{node}}}")) == 8
    with lab.having(ExporterDies("gpu-node-04")):
        lab.until(f"up{{{node}}} == 0", seconds=5)
        assert lab.values(f"{TEMP}{{{node}}}") == [], "no five minutes of lookback"
        assert len(lab.values(f"last_over_time({TEMP}{{{node}}}[1m])")) == 8
        assert lab.values(f"up{{{lab.instance('gpu-node-04', 9100)}}}") == [1]
    lab.until(f"{TEMP}{{{node}}}", lambda got: len(got) == 8)


def test_hot_and_then_silent(lab: Lab) -> None:
    series = f'{TEMP}{{Hostname="gpu-node-05",gpu="1"}}'
    with lab.having(GpuHotFor("gpu-node-05", 1, celsius=84, seconds=3)):
        lab.until(f"{series} > 78")
        lab.until(f"up{{{lab.instance('gpu-node-05')}}} == 0")
        assert lab.values(series) == []
        assert lab.values(f"max_over_time({series}[20s])")[0] > 81


def test_a_frozen_exporter_is_up_and_stands_still(lab: Lab) -> None:
    node = lab.instance("gpu-node-06")
    energy = f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{node}}}"
    assert len(lab.values(f"changes({energy}[2s]) > 0")) == 8
    with lab.having(ExporterFrozen("gpu-node-06")):
        lab.until(f"changes({energy}[2s]) == 0 and count_over_time({energy}[2s]) >= 3", lambda got: len(got) == 8)
        assert lab.values(f"min_over_time(up{{{node}}}[2s])") == [1]
    lab.until(f"changes({energy}[2s]) > 0", lambda got: len(got) == 8)


def test_a_sentinel_arrives_as_a_huge_float(lab: Lab) -> None:
    with lab.having(Sentinel("gpu-node-08", 0)):
        assert lab.until(f'{TEMP}{{Hostname="gpu-node-08",gpu="0"}} > 200') == [float(BLANK)]
    lab.until(f'{TEMP}{{Hostname="gpu-node-08",gpu="0"}} < 80')


def test_a_spike_is_one_scraped_sample(lab: Lab) -> None:
    series = f'{TEMP}{{Hostname="gpu-node-09",gpu="4"}}'
    lab.fleet.inject(Spike("gpu-node-09", 4, celsius=96))
    lab.until(f"max_over_time({series}[20s]) == 96")
    lab.until(f"{series} < 80")
    (item,) = lab.prometheus.query(f"{series}[20s]")
    assert [value for _, value in item["values"]].count("96") == 1
    assert len(item["values"]) > 5


def test_a_job_change_changes_the_series(lab: Lab) -> None:
    series = f'{TEMP}{{Hostname="gpu-node-10",gpu="0"}}'
    (before,) = lab.prometheus.query(series)
    lab.fleet.job_change("gpu-node-10")
    pod = lab.fleet.node("gpu-node-10").pods[0].name
    lab.until(f'{TEMP}{{Hostname="gpu-node-10",gpu="0",exported_pod="{pod}"}}')
    (after,) = lab.prometheus.query(series)
    assert after["metric"] | {"exported_pod": ""} == before["metric"] | {"exported_pod": ""}
    assert after["metric"] != before["metric"]
    assert len(lab.values(f"last_over_time({series}[20s])")) == 2, "two series of one device in one window"


def test_an_idle_node_is_cool_and_draws_no_power(lab: Lab) -> None:
    with lab.having(Idle("gpu-node-12")):
        lab.until('DCGM_FI_DEV_POWER_USAGE{Hostname="gpu-node-12"} < 100', lambda got: len(got) == 8)
        assert lab.values('DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{Hostname="gpu-node-12"} > 0') == []
        assert lab.values(f'{TEMP}{{Hostname="gpu-node-12",exported_pod!=""}}') == []
        cooling = f'delta({TEMP}{{Hostname="gpu-node-12"}}[4s]) < 0'
        lab.until(cooling, lambda got: len(got) == 8)
        traffic = f"node_infiniband_port_data_received_bytes_total{{{lab.instance('gpu-node-12', 9100)}}}"
        lab.until(f"increase({traffic}[2s]) == 0", lambda got: len(got) == 8)


def test_counters_reset(lab: Lab) -> None:
    node = lab.instance("gpu-node-13")
    lab.fleet.inject(CounterReset("gpu-node-13", reboot=True))
    lab.until(f"resets(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{node}}}[20s]) == 1", lambda got: len(got) == 8)
    boots = f"changes(node_boot_time_seconds{{{lab.instance('gpu-node-13', 9100)}}}[20s]) == 1"
    lab.until(boots)


def test_a_gpu_off_the_bus_vanishes_alone(lab: Lab) -> None:
    series = f'{TEMP}{{Hostname="gpu-node-14"}}'
    with lab.having(GpuLost("gpu-node-14", 6)):
        lab.until(series, lambda got: len(got) == 7)
        gone = lab.prometheus.query(f"last_over_time({series}[20s]) unless on (UUID) {series}")
        assert [item["metric"]["UUID"] for item in gone] == [lab.fleet.node("gpu-node-14").gpus[6].uuid]
        assert lab.values(f"up{{{lab.instance('gpu-node-14')}}}") == [1]
    lab.until(series, lambda got: len(got) == 8)


def test_an_xid_is_a_new_series_on_a_newer_exporter(lab: Lab) -> None:
    metric = 'DCGM_FI_DEV_XID_ERRORS{hostname="gpu-node-15"}'
    assert lab.values(metric) == []
    with lab.having(Xid("gpu-node-15", 0, 79)):
        assert lab.until(metric) == [79]
        (item,) = lab.prometheus.query(metric)
        assert item["metric"]["err_code"] == "79"
    lab.until(metric, lambda got: got == [])


def test_a_spare_port_is_down_and_was_never_active(lab: Lab) -> None:
    node = lab.instance("gpu-node-16", 9100)
    with lab.having(SparePort("gpu-node-16", physical_state=2)):
        assert lab.until(f'node_infiniband_state_id{{{node},device="mlx5_8"}}') == [1]
        assert lab.values(f'node_infiniband_physical_state_id{{{node},device="mlx5_8"}}') == [2]
        assert len(lab.values(f"node_infiniband_state_id{{{node}}} == 4")) == 8


def test_a_failed_collector_leaves_the_exporter_up(lab: Lab) -> None:
    node = lab.instance("gpu-node-17", 9100)
    with lab.having(IbCollectorFails("gpu-node-17")):
        lab.until(f'node_scrape_collector_success{{{node},collector="infiniband"}} == 0')
        assert lab.values(f"node_infiniband_state_id{{{node}}}") == []
        assert lab.values(f"up{{{node}}}") == [1]


def test_a_ghost_is_hot_and_matches_no_node(lab: Lab) -> None:
    with lab.having(GhostNode("localhost")):
        lab.prometheus.set_targets("exporters", lab.exporters.targets())
        lab.until(f'{TEMP}{{Hostname="localhost",gpu="0"}} > 78')
    lab.prometheus.set_targets("exporters", lab.exporters.targets())
    lab.until(f'{TEMP}{{Hostname="localhost"}}', lambda got: got == [])
    assert lab.values("count(up == 1)") == [2 * NODES]
