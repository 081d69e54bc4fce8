"""The rights in the manifests are exactly those that the code uses: each is used, and no other is needed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from quarantine.sandbox.kubeapi import KubeApi, Rule, User, serve
from quarantine.sandbox.kubeapi.faults import LoggedRequest
from quarantine.sandbox.prometheus import PrometheusServer
from tests.adapters.kube.support import eventually, open_cluster
from tests.adapters.kube.test_permissions import RULES as DOCUMENTED
from tests.adapters.kube.test_permissions import everything
from tests.e2e.test_process import running, said, until
from tests.e2e.worlds import World, world
from tests.k8s.conftest import OVERLAYS, Manifest, overlay
from tests.k8s.rights import granted, rights, used

NUMBERS = count()
BUSY = timedelta(minutes=1)  # what a machine that does much else may take
LEASES = ("coordination.k8s.io", "leases", "quarantine-system")
LEASE = {(verb, *LEASES) for verb in ("get", "update", "create")}


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_role_is_bound_to_the_controller_alone(name: str) -> None:
    roles = {(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in overlay(name) if is_role(m)}
    bound = set()
    for binding in overlay(name):
        if binding["kind"] in {"ClusterRoleBinding", "RoleBinding"}:
            reference = binding["roleRef"]
            bound.add((reference["kind"], binding["metadata"].get("namespace"), reference["name"]))
            account = {"kind": "ServiceAccount", "name": "quarantine", "namespace": "quarantine-system"}
            assert binding["subjects"] == [account]
    assert bound == roles


def is_role(manifest: Manifest) -> bool:
    return manifest["kind"] in {"ClusterRole", "Role"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_no_right_is_a_wildcard(name: str) -> None:
    for manifest in overlay(name):
        if is_role(manifest):
            assert "*" not in str(manifest["rules"])
            assert "aggregationRule" not in manifest


def test_they_are_those_of_the_documentation() -> None:
    """Of which another test shows that each is needed."""
    assert rights(granted("enforce")) == rights(DOCUMENTED)


def test_what_observes_can_only_look() -> None:
    for name in ("observe", "dev"):
        assert rights(granted(name)) == {
            ("list", "", "nodes", ""),
            ("watch", "", "nodes", ""),
            ("get", "", "namespaces", ""),
            ("list", "", "pods", ""),
            *LEASE,
        }


def test_the_adapter_uses_each_and_no_other(tmp_path: Path) -> None:
    api, rules = KubeApi(), granted("enforce")
    for namespace in ("quarantine", "quarantine-system"):
        api.create({"kind": "Namespace", "metadata": {"name": namespace}})
    api.create({"kind": "Node", "metadata": {"name": "n1"}})
    with serve(api) as server:
        api.gate.users = (User("quarantine", "t0ken", rules=rules),)
        cluster = open_cluster(server.write_kubeconfig(tmp_path / "kubeconfig", user="quarantine"), sync_within=BUSY)
        try:
            api.requests.clear()
            assert everything(api, cluster) == []
            eventually(lambda: any("watch=true" in request.query for request in api.requests))
        finally:
            cluster.close()
        assert used(api.requests, rules) == rights(rules)


@pytest.fixture(scope="module")
def live_prometheus() -> Iterator[PrometheusServer]:
    with PrometheusServer() as server:
        yield server


@pytest.fixture
def cluster(tmp_path: Path, live_prometheus: PrometheusServer) -> Iterator[World]:
    with world(tmp_path, f"k{next(NUMBERS)}", live_prometheus, size=4) as made:
        yield made


def as_granted(cluster: World, name: str, **changes: Any) -> tuple[Rule, ...]:
    """The account of an overlay, in its mode; a GPU is hot. Its rules."""
    rules = granted(name)
    cluster.api.create({"kind": "Namespace", "metadata": {"name": "quarantine-system"}})
    cluster.api.gate.users = (User("quarantine", "t0ken", rules=rules),)
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig", user="quarantine")
    cluster.heat(cluster.nodes[1])
    times = {"lasts": "4s", "renew_within": "3s", "every": "300ms"}
    leader = {"elect": True, "namespace": "quarantine-system", **times}
    cluster.write_settings(mode=name, leader=leader, **changes)
    cluster.api.requests.clear()
    return rules


def refused(cluster: World) -> list[LoggedRequest]:
    return [request for request in cluster.api.requests if request.status in {401, 403}]


def by_job(document: dict[str, Any]) -> None:
    """Look whether machines that run one job fail together: what observes must see pods for it."""
    if document["kind"] == "Policy":
        document["spec"]["correlation"] = {"by": ["job"], "within": "15m"}


def test_an_elected_process_that_observes_uses_all_that_it_has(cluster: World) -> None:
    cluster.write_policies(by_job)
    rules, log = as_granted(cluster, "observe", cycle={"interval": "1s", "deadline": "15s"}), cluster.folder / "run.log"
    with running(cluster) as process:
        until(lambda: said(log, "1 finding on 4 nodes"), "it leads, and has looked", 90)
        until(lambda: used(cluster.api.requests, rules) == rights(rules), "it uses all of it", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert used(cluster.api.requests, rules) == rights(rules)
    assert refused(cluster) == []
    assert cluster.untouched()


def test_an_elected_process_that_acts_has_what_it_needs(cluster: World) -> None:
    """What it does not use here is for drains and procedures."""
    rules, log = as_granted(cluster, "enforce", cycle={"interval": "1s", "deadline": "15s"}), cluster.folder / "run.log"
    with running(cluster) as process:
        until(lambda: len(cluster.told) == 1, "the machine is taken out, and people are asked", 90)
        until(lambda: said(log, "nothing to do"), "all is done", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    left = rights(rules) - used(cluster.api.requests, rules)
    assert {resource for _, _, resource, _ in left} <= {"pods", "pods/eviction", "jobs"}, left
    assert refused(cluster) == []
    assert cluster.marked() == [cluster.nodes[1]]


@pytest.mark.parametrize(("name", "there"), [("observe", 7), ("enforce", 15)])
def test_the_doctor_of_each_overlay_has_no_fault_to_find_in_its_rights(cluster: World, name: str, there: int) -> None:
    """And takes no more of them than the controller has."""
    rules = as_granted(cluster, name)
    done = cluster.quarantine("doctor", "--output", "json")
    found = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "Kubernetes rights"]
    assert f"{there} rights that the controller uses are there" in [one["sentence"] for one in found]
    assert {one["level"] for one in found} <= {"good", "note"}, found
    assert used(cluster.api.requests, rules) == {("list", "", "nodes", ""), ("get", *LEASES)}
    assert refused(cluster) == []
