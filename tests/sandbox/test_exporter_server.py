"""The exporters over HTTP: paths, connections, and an end that leaves nothing behind."""

from __future__ import annotations

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import requests

from quarantine.core.errors import UsageError
from quarantine.sandbox.exporters.server import ExporterServer, serve_exporters
from quarantine.sandbox.faults import ExporterDies, GhostNode
from quarantine.sandbox.fleet import Fleet


def connect(server: ExporterServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, str, str]:
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read().decode()


def test_each_exporter_has_its_path_and_connections_are_kept() -> None:
    with serve_exporters(Fleet(nodes=2)) as server:
        connection = connect(server)
        status, kind, body = get(connection, "/dcgm/gpu-node-01/metrics")
        assert (status, kind) == (200, "text/plain; charset=utf-8")
        assert 'Hostname="gpu-node-01"' in body
        socket = connection.sock
        status, kind, body = get(connection, "/node/gpu-node-00/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert 'nodename="gpu-node-00"' in body
        assert connection.sock is socket
        connection.close()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/", "no such path"),
        ("/metrics", "no such path"),
        ("/dcgm/gpu-node-07/metrics", "no machine 'gpu-node-07'"),
        ("/smi/gpu-node-00/metrics", "no such path"),
        ("/dcgm/gpu-node-00/metrics/x", "no such path"),
    ],
)
def test_other_paths_are_not_found(path: str, says: str) -> None:
    with serve_exporters(Fleet(nodes=2)) as server:
        answer = requests.get(server.url + path, timeout=10)
    assert answer.status_code == 404
    assert says in answer.text


def test_a_dead_exporter_fails_and_comes_back() -> None:
    fleet = Fleet(nodes=2)
    with serve_exporters(fleet) as server:
        url = f"{server.url}/dcgm/gpu-node-00/metrics"
        fleet.inject(ExporterDies("gpu-node-00"))
        assert requests.get(url, timeout=10).status_code == 503
        assert requests.get(f"{server.url}/node/gpu-node-00/metrics", timeout=10).status_code == 200
        fleet.clear(ExporterDies("gpu-node-00"))
        assert requests.get(url, timeout=10).status_code == 200


def test_targets_are_labelled_as_service_discovery_would() -> None:
    fleet = Fleet(nodes=8)
    with serve_exporters(fleet) as server:
        targets = server.targets()
        assert len(targets) == 16
        assert {t["targets"][0] for t in targets} == {urlsplit(server.url).netloc}
        labels = targets[12]["labels"]
        assert labels["instance"] == "10.20.0.7:9400"
        assert labels["job"] == "dcgm-exporter"
        assert labels["__metrics_path__"] == "/dcgm/gpu-node-06/metrics"
        assert labels["namespace"] == "gpu-operator"
        assert targets[13]["labels"]["instance"] == "10.20.0.7:9100"
        assert targets[13]["labels"]["job"] == "node-exporter"
        fleet.inject(GhostNode("localhost"))
        assert server.targets()[:16] == targets
        assert [t["labels"]["__metrics_path__"] for t in server.targets()[16:]] == ["/dcgm/localhost/metrics"]
        instances = [t["labels"]["instance"] for t in server.targets()]
        assert len(set(instances)) == 17


def test_it_stops_with_connections_open_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with serve_exporters(Fleet(nodes=1)) as server:
        connections = [connect(server) for _ in range(5)]
        for connection in connections:
            assert get(connection, "/node/gpu-node-00/metrics")[0] == 200
        url = server.url
    assert set(threading.enumerate()) <= before
    for connection in connections:
        connection.close()
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=5)
    with pytest.raises(UsageError, match="not served yet"):
        server.targets()


def test_scrapes_and_faults_from_many_threads_never_break_a_page() -> None:
    fleet = Fleet(nodes=1)
    done = threading.Event()

    def meddle() -> None:
        fault = ExporterDies("gpu-node-00", "node")
        while not done.is_set():
            fleet.inject(fault)
            fleet.job_change("gpu-node-00")
            fleet.clear(fault)

    def scrape(times: int) -> set[int]:
        """How many distinct pods each page names: never two jobs at once."""
        seen: set[int] = set()
        connection = connect(server)
        for _ in range(times):
            status, _, body = get(connection, "/dcgm/gpu-node-00/metrics")
            assert status == 200
            seen.add(
                len({line.rpartition('pod="')[2].partition('"')[0] for line in body.splitlines() if "pod=" in line})
            )
        connection.close()
        return seen

    with serve_exporters(fleet) as server, ThreadPoolExecutor(5) as pool:
        meddling = pool.submit(meddle)
        try:
            assert set().union(*pool.map(scrape, [40] * 4)) == {1}
        finally:
            done.set()
        meddling.result()
