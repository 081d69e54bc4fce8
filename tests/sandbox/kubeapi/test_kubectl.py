"""Stock kubectl against the emulator: what an engineer on call types."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from quarantine.sandbox.kubeapi import KubeApi, KubeApiServer, Rule, User, serve

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def node(api: KubeApi, name: str = "n1", **labels: str) -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Linux"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }
    api.create({"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})


def running_pod(api: KubeApi, name: str = "p1", node_name: str = "n1") -> None:
    spec = {"nodeName": node_name, "containers": [{"name": "c", "image": "x"}]}
    api.create({"kind": "Pod", "metadata": {"name": name, "labels": {"app": "train"}}, "spec": spec})
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "ready": True, "restartCount": 2}],
    }
    api.patch_merge("Pod", name, {"status": status}, subresource="status")


def test_get_reads_well(api: KubeApi, clock: Any, kubectl: Kubectl) -> None:
    node(api, "n1", **{"node-role.kubernetes.io/gpu": ""})
    running_pod(api)
    about = {"kind": "Node", "name": "n1"}
    event = {"type": "Warning", "reason": "Quarantined", "message": "GPU 3 at 84 °C", "involvedObject": about}
    api.create({"kind": "Event", "metadata": {"name": "e"}} | event)
    clock.tick(300)
    assert columns(kubectl("get", "nodes").stdout) == [
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
        ["n1", "Ready", "gpu", "5m", "v1.36.0"],
    ]
    wide = columns(kubectl("get", "nodes", "-o", "wide").stdout)
    assert wide[1][5:8] == ["10.0.0.1", "<none>", "Linux"]
    assert columns(kubectl("get", "pods", "-A").stdout) == [
        ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["default", "p1", "1/1", "Running", "2", "5m"],
    ]
    events = columns(kubectl("get", "events").stdout)
    assert events[1][1:] == ["Warning", "Quarantined", "node/n1", "GPU", "3", "at", "84", "°C"]


def test_cordon_and_uncordon(api: KubeApi, kubectl: Kubectl) -> None:
    node(api)
    assert kubectl("cordon", "n1").stdout == "node/n1 cordoned\n"
    assert columns(kubectl("get", "nodes").stdout)[1][1] == "Ready,SchedulingDisabled"
    assert kubectl("cordon", "n1").stdout == "node/n1 already cordoned\n"
    assert kubectl("uncordon", "n1").stdout == "node/n1 uncordoned\n"
    assert "unschedulable" not in api.get("Node", "n1")["spec"]
    missing = kubectl("cordon", "absent")
    assert (missing.returncode, missing.stderr) == (1, 'Error from server (NotFound): nodes "absent" not found\n')


def test_taints_labels_and_annotations_leave_their_managers(api: KubeApi, kubectl: Kubectl) -> None:
    node(api)
    for command in (
        "taint node n1 a=b:NoSchedule",
        "label node n1 pool=p",
        "annotate node n1 why=because",
    ):
        done = kubectl(*command.split())
        assert (done.returncode, done.stderr) == (0, "")
    changed = api.get("Node", "n1")
    assert changed["spec"]["taints"][0] == {"key": "a", "value": "b", "effect": "NoSchedule"}
    assert changed["metadata"]["labels"] == {"pool": "p"}
    fields = {entry["manager"]: entry["fieldsV1"] for entry in changed["metadata"]["managedFields"]}
    assert fields["kubectl-taint"] == {"f:spec": {"f:taints": {}}}
    assert fields["kubectl-label"] == {"f:metadata": {"f:labels": {".": {}, "f:pool": {}}}}
    assert fields["kubectl-annotate"] == {"f:metadata": {"f:annotations": {"f:why": {}}}}
    bad = kubectl("taint", "node", "n1", "a=has space:NoSchedule")
    assert bad.returncode == 1


def test_a_drain_waits_for_the_budget_and_ends(
    api: KubeApi, server: KubeApiServer, kubectl_path: Path, tmp_path: Path
) -> None:
    node(api)
    running_pod(api, "p1")
    running_pod(api, "elsewhere", "n2")
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "train"}}}
    api.create({"kind": "PodDisruptionBudget", "metadata": {"name": "train"}, "spec": budget})
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment["KUBECONFIG"] = str(server.write_kubeconfig(tmp_path / "config"))
    command = [str(kubectl_path), "drain", "n1", "--force", "--timeout=60s"]
    refused = threading.Event()

    def watch_log() -> None:
        pause = threading.Event()
        deadline = monotonic() + 30
        while monotonic() < deadline and not any(r.status == 429 for r in api.requests):
            pause.wait(0.02)
        refused.set()
        api.patch_merge("PodDisruptionBudget", "train", {"spec": {"minAvailable": 1}})

    allower = threading.Thread(target=watch_log)
    allower.start()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    allower.join(30)
    assert refused.is_set()
    assert done.returncode == 0, done.stderr
    assert "Cannot evict pod as it would violate the pod's disruption budget" in done.stderr
    assert "node/n1 drained" in done.stdout
    assert [pod["metadata"]["name"] for pod in api.list("Pod")] == ["elsewhere"]
    evictions = [request.status for request in api.requests if request.path.endswith("/p1/eviction")]
    assert evictions == [429, 201]


def test_describe_create_and_delete(api: KubeApi, kubectl: Kubectl) -> None:
    node(api)
    running_pod(api)
    about = {"kind": "Node", "name": "n1", "uid": api.get("Node", "n1")["metadata"]["uid"]}
    event = {"type": "Warning", "reason": "Quarantined", "message": "hot", "involvedObject": about}
    api.create({"kind": "Event", "metadata": {"name": "e"}} | event)
    described = kubectl("describe", "node", "n1").stdout
    assert "node.kubernetes.io/not-ready:NoSchedule" in described
    assert "Quarantined" in described
    assert "p1" in described
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"mode": "observe"}}
    created = kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    assert (created.stdout, created.stderr) == ("configmap/c created\n", "")
    assert json.loads(kubectl("get", "configmap", "c", "-o", "json").stdout)["data"] == {"mode": "observe"}
    assert kubectl("delete", "node", "n1").returncode == 0
    assert api.list("Node") == []


@pytest.mark.parametrize("user", ["viewer"])
def test_a_user_with_few_rights_is_told_so(kubectl_path: Path, tmp_path: Path, user: str) -> None:
    rules = (Rule(("get", "list"), ("nodes",)),)
    api = KubeApi(users=[User("admin", "t1", ("system:masters",)), User(user, "t2", rules=rules)])
    node(api)
    with serve(api) as server:
        config = server.write_kubeconfig(tmp_path / "config", user=user)
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(config)}
        command = [str(kubectl_path), "cordon", "n1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert 'User "viewer" cannot patch resource "nodes" in API group "" at the cluster scope' in done.stderr
    assert "unschedulable" not in api.get("Node", "n1")["spec"]
