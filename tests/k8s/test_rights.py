"""The rights in the manifests are exactly those that the code uses: each is used, and no other is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from quarantine.sandbox.kubeapi import KubeApi, Rule, User, rules_of, serve
from quarantine.sandbox.kubeapi.faults import LoggedRequest
from quarantine.sandbox.kubeapi.routing import parse_path
from quarantine.sandbox.prometheus import PrometheusServer
from tests.adapters.kube.support import eventually, open_cluster
from tests.adapters.kube.test_permissions import RULES as DOCUMENTED
from tests.adapters.kube.test_permissions import everything
from tests.e2e.worlds import World, world
from tests.k8s.conftest import OVERLAYS, Manifest, overlay

NUMBERS = count()
LEASE = {(verb, "coordination.k8s.io", "leases", "quarantine-system") for verb in ("get", "update", "create")}
Right = tuple[str, str, str, str]  # verb, API group, resource, namespace ("" where it is everywhere)


def granted(name: str) -> tuple[Rule, ...]:
    """The rules of all roles of an overlay."""
    return tuple(rule for m in overlay(name) if m["kind"] in {"ClusterRole", "Role"} for rule in rules_of(m))


def rights(rules: Iterable[Rule]) -> set[Right]:
    return {
        (verb, group, resource, rule.namespace)
        for rule in rules
        for verb in rule.verbs
        for group in rule.api_groups
        for resource in rule.resources
    }


def used(requests: Iterable[LoggedRequest], rules: Iterable[Rule]) -> set[Right]:
    """What these requests took, each as the right of `rules` that let it by. Fails for one that none lets by."""
    found: set[Right] = set()
    for request in requests:
        target = parse_path(request.path)
        assert target is not None, f"{request.path} is no resource"
        # The log calls a watch WATCH.
        method = "GET" if request.method == "WATCH" else request.method
        asked = target.attributes(method, dict(parse_qsl(request.query)))
        let_by = [rule for rule in rules if rule.allows(asked)]
        assert let_by, f"nothing lets by {asked}"
        found |= {(asked.verb, asked.group, asked.full_resource, rule.namespace) for rule in let_by}
    return found


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
        cluster = open_cluster(server.write_kubeconfig(tmp_path / "kubeconfig", user="quarantine"))
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


def run_as_granted(cluster: World, name: str) -> tuple[set[Right], tuple[Rule, ...]]:
    """One cycle with the rights of an overlay, and in its mode; a GPU is hot. What it used, of what it has."""
    rules = granted(name)
    cluster.api.gate.users = (User("quarantine", "t0ken", rules=rules),)
    cluster.kube.write_kubeconfig(cluster.folder / "kubeconfig", user="quarantine")
    cluster.heat(cluster.nodes[1])
    cluster.write_settings(mode=name)
    cluster.api.requests.clear()
    done = cluster.run_once()
    assert done.exit_code == 0, done.output
    assert not [request for request in cluster.api.requests if request.status in {401, 403}]
    return used(cluster.api.requests, rules), rules


def by_job(document: dict[str, Any]) -> None:
    """Look whether machines that run one job fail together: what observes must see pods for it."""
    if document["kind"] == "Policy":
        document["spec"]["correlation"] = {"by": ["job"], "within": "15m"}


def test_a_cycle_that_observes_uses_all_that_it_has(cluster: World) -> None:
    cluster.write_policies(by_job)
    took, rules = run_as_granted(cluster, "observe")
    assert took == rights(rules) - {("watch", "", "nodes", ""), *LEASE}, "a process watches, and is elected"
    assert cluster.untouched()


def test_a_cycle_that_acts_has_what_it_needs(cluster: World) -> None:
    took, _ = run_as_granted(cluster, "enforce")
    assert took >= {("patch", "", "nodes", ""), ("patch", "", "nodes/status", ""), ("create", "", "events", "default")}
    assert cluster.marked() == [cluster.nodes[1]]
