"""The server as a program: starting, stopping, and bad days."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import requests
from kubernetes import client, config

from quarantine.core.errors import UsageError
from quarantine.sandbox.kubeapi import Fault, KubeApi, KubeApiServer, serve
from tests.adapters.kube.support import eventually

NODES = "/api/v1/nodes"


def test_it_stops_at_once_with_open_watches_and_hanging_requests() -> None:
    api = KubeApi()
    outcomes: list[str] = []

    def use(server: KubeApiServer, path: str) -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        answer = requests.get(server.url + path, headers=headers, timeout=20)
        outcomes.append(f"{path} {answer.status_code}")

    hangs = threading.Event()

    def hang(_method: str, path: str) -> Fault | None:
        if path != "/api/v1/pods":
            return None
        hangs.set()
        return Fault(hang=60)

    api.fault = hang
    with serve(api) as server:
        session = requests.Session()
        session.get(f"{server.url}/livez", timeout=5)  # a connection that is kept alive
        threads = [
            threading.Thread(target=use, args=(server, path))
            for path in (f"{NODES}?watch=1", f"{NODES}?watch=1&resourceVersion=5000", "/api/v1/pods")
        ]
        for thread in threads:
            thread.start()
        wait_for(lambda: sum(request.path == NODES for request in api.requests) == 2)
        assert hangs.wait(20)
        started = monotonic()
    assert monotonic() - started < 2  # a fifth of a second where the machine is not busy
    for thread in threads:
        thread.join(10)
    session.close()
    assert sorted(outcomes) == [f"{NODES}?watch=1 200", f"{NODES}?watch=1&resourceVersion=5000 200", "/api/v1/pods 503"]


def wait_for(condition: Any) -> None:
    deadline, pause = monotonic() + 10, threading.Event()
    while not condition():
        assert monotonic() < deadline, "the condition did not come true in time"
        pause.wait(0.01)


def test_it_comes_back_on_the_same_port_with_the_same_state() -> None:
    api = KubeApi()
    with serve(api) as first:
        api.create({"kind": "Node", "metadata": {"name": "n"}})
        port = int(first.url.rpartition(":")[2])
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{first.url}/livez", timeout=5)
    with serve(api, port=port) as second:
        headers = {"Authorization": f"Bearer {second.token}"}
        assert requests.get(f"{second.url}{NODES}/n", headers=headers, timeout=5).ok


def test_a_port_that_is_taken_is_said_in_a_sentence(server: KubeApiServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another port, or 0"):
        serve(KubeApi(), port=port).start()


def test_faults_answer_hang_and_drop(api: KubeApi, http: Any) -> None:
    api.fault = lambda _method, _path: Fault(status=503, body="no backend", headers={"Retry-After": "7"})
    answer = http("GET", NODES)
    assert (answer.status_code, answer.text, answer.headers["Retry-After"]) == (503, "no backend", "7")
    api.fault = lambda method, _path: Fault(status=429, body={"kind": "Status"}) if method == "PATCH" else None
    assert http.merge(f"{NODES}/n", {}).json() == {"kind": "Status"}
    assert http("GET", NODES).status_code == 200
    api.fault = None
    api.faults.append(lambda _method, path: Fault(drop=True) if path == NODES else None)
    with pytest.raises(requests.ConnectionError):
        http("GET", NODES)
    eventually(lambda: api.requests[-1].status == 0)  # the client may know before the log does
    api.faults.clear()
    api.fault = lambda _method, _path: Fault(hang=0.05)
    assert http("GET", NODES).status_code == 200


def test_a_write_whose_answer_is_lost_has_happened(api: KubeApi, http: Any) -> None:
    api.fault = lambda method, _path: Fault(drop=True, after=True) if method == "POST" else None
    with pytest.raises(requests.ConnectionError):
        http("POST", NODES, {"kind": "Node", "metadata": {"name": "n"}})
    assert api.get("Node", "n")["metadata"]["name"] == "n"


def test_a_watch_can_fail_where_a_list_does_not(api: KubeApi, http: Any) -> None:
    api.fault = lambda method, _path: Fault(status=500) if method == "WATCH" else None
    assert http("GET", f"{NODES}?watch=1").status_code == 500
    assert http("GET", NODES).status_code == 200


def test_open_watches_can_be_reset(api: KubeApi, server: KubeApiServer, http: Any) -> None:
    with http("GET", f"{NODES}?watch=1", stream=True) as answer:
        server.drop_connections()
        with pytest.raises(requests.exceptions.RequestException):
            list(answer.iter_lines())
    assert http("GET", NODES).status_code == 200


def test_the_kubeconfig_is_private_and_the_official_client_works_with_it(
    api: KubeApi, server: KubeApiServer, tmp_path: Path
) -> None:
    path = server.write_kubeconfig(tmp_path / "config")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    api.create({"kind": "Node", "metadata": {"name": "n"}})
    with config.new_client_from_config(str(path)) as connection:  # type: ignore[no-untyped-call]
        core = client.CoreV1Api(connection)
        assert [
            node["metadata"]["name"] for node in connection.sanitize_for_serialization(core.list_node())["items"]
        ] == ["n"]
        core.patch_node("n", {"spec": {"unschedulable": True}}, field_manager="us")
    assert api.get("Node", "n")["spec"]["unschedulable"] is True
    managers = [entry["manager"] for entry in api.get("Node", "n")["metadata"]["managedFields"]]
    assert managers == ["kube-controller-manager", "us"]
    assert {request.user for request in api.requests} == {"admin"}
    with pytest.raises(ValueError, match="no user 'nobody' on this server: it knows admin"):
        server.write_kubeconfig(tmp_path / "other", user="nobody")


def test_a_history_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="keep at least 1"):
        KubeApi(history=0)
