"""A real Prometheus with the series of a small fleet, some of them not as the signals say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.adapters.prometheus import PrometheusMetrics, PrometheusSettings
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def steady(labels: dict[str, str], value: float, every: int = 30, minutes: int = 60, growing: float = 0) -> Series:
    """One sample each so many seconds until now."""
    count = minutes * 60 // every
    times = [NOW - timedelta(seconds=every * (count - 1 - n)) for n in range(count)]
    return Series(labels, [(at, value + growing * n) for n, at in enumerate(times)])


def fleet_series() -> Iterator[Series]:
    """node-0 to node-3 with two GPUs each; node-3's exporter shows no temperature, and one node is called localhost."""
    for n in range(4):
        for gpu in range(2):
            name = f"node-{n}"
            labels = {"cluster": "a", "Hostname": name, "UUID": f"GPU-{n}-{gpu}", "modelName": "H100"}
            yield steady({"__name__": "DCGM_ENERGY", **labels}, 1, growing=5)
            yield steady({"__name__": "DCGM_TENSOR", **labels}, 0.5)
            yield steady({"__name__": "DCGM_SLOW", **labels}, 50, every=60)
            if n != 3:
                yield steady({"__name__": "DCGM_TEMP", **labels}, 50)
    yield steady({"__name__": "DCGM_TEMP", "cluster": "a", "Hostname": "localhost", "UUID": "GPU-x"}, 50)
    yield steady({"__name__": "DCGM_ENERGY", "cluster": "a", "Hostname": "localhost", "UUID": "GPU-x"}, 1, growing=5)
    yield steady({"__name__": "node_infiniband_port_errors_received_total", "instance": "10.0.0.1:9100"}, 0)
    for n in range(5):
        yield steady({"__name__": "kube_node_info", "node": f"node-{n}", "internal_ip": f"10.0.0.{n}"}, 1)
        labels = {"label_nvidia_com_gpu_present": "true"} if n < 4 else {}
        yield steady({"__name__": "kube_node_labels", "node": f"node-{n}", **labels}, 1)


@pytest.fixture(scope="session")
def prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        write(server.url, fleet_series())
        yield server


@pytest.fixture(scope="session")
def metrics(prometheus: PrometheusServer) -> Iterator[PrometheusMetrics]:
    with PrometheusMetrics(PrometheusSettings(prometheus.url)) as made:
        yield made
