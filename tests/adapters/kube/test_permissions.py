"""The rights that the documentation names are enough, and each of them is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarantine.adapters.kube import KubeCluster
from quarantine.core.case import Purpose, Run
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch
from quarantine.core.procedure import JobTemplate, ProcedureSpec
from quarantine.core.workload import PodRules
from quarantine.ports import LeaseRecord, Order
from quarantine.sandbox.kubeapi import KubeApi, Rule, User, rules_of, serve
from tests.adapters.kube.podworld import create_pod
from tests.adapters.kube.support import AT, eventually, open_cluster

PAGE = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text(encoding="utf-8")
MANIFESTS = [m for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for m in yaml.safe_load_all(block)]
RULES = [rule for manifest in MANIFESTS for rule in rules_of(manifest)]
EACH = [
    Rule((verb,), (resource,), rule.api_groups, rule.resource_names, rule.namespace)
    for rule in RULES
    for verb in rule.verbs
    for resource in rule.resources
]

RUN = Run("q-1-burn-in-1", Purpose.BURN_IN, "burn-in", AT, AT + timedelta(hours=1))
SPEC = ProcedureSpec(description="d", job=JobTemplate(pod={"containers": [{"name": "c", "image": "x"}]}))
LEASE = LeaseRecord("pod-1", timedelta(seconds=15), 0, AT, AT)
ORDER = Order(RUN, SPEC, "q-1", "n1", "", "", "quarantine.gpu/suspect")


@pytest.fixture
def as_granted(emulator: KubeApi, tmp_path: Path) -> Iterator[Callable[[list[Rule]], KubeCluster]]:
    """A cluster that is talked to with these rights alone."""
    for namespace in ("quarantine", "quarantine-system"):
        emulator.create({"kind": "Namespace", "metadata": {"name": namespace}})
    emulator.create({"kind": "Node", "metadata": {"name": "n1"}})
    opened: list[KubeCluster] = []
    with serve(emulator) as server:

        def connect(rules: list[Rule]) -> KubeCluster:
            emulator.gate.users = (User("quarantine", "t0ken", rules=tuple(rules)),)
            kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig", user="quarantine")
            opened.append(open_cluster(kubeconfig, sync_within=timedelta(seconds=2)))
            return opened[-1]

        yield connect
        for cluster in opened:
            cluster.close()


def everything(api: KubeApi, cluster: KubeCluster) -> list[str]:
    """Do all that the adapter can do; what was refused."""
    raw, pod = api.get("Node", "n1")["metadata"], create_pod(api, f"p-{next(NUMBERS)}")
    lease = cluster.lease("quarantine-system", "quarantine-controller")
    found = api.create({"kind": "Lease", "metadata": {"name": lease.name, "namespace": lease.namespace}, "spec": {}})
    patch = NodePatch("n1", raw["uid"], raw["resourceVersion"], unschedulable=True)
    event = NodeEvent(f"n1.{next(NUMBERS)}", "n1", raw["uid"], "Quarantined", "hot", warning=True)
    asks: list[Callable[[], Any]] = [
        cluster.nodes,
        cluster.identity,
        lambda: cluster.patch_node(patch),
        lambda: cluster.set_condition(NodeCondition("n1", raw["uid"], True, "Hot", "hot")),
        lambda: cluster.create_event(event),
        lambda: cluster.workloads(["n1"], PodRules()),
        lambda: cluster.evict(pod),
        lambda: cluster.jobs.start(ORDER),
        lambda: cluster.jobs.look([(RUN, SPEC)]),
        lambda: cluster.jobs.stop(RUN, SPEC),
        lease.read,
        lambda: lease.write(replace(LEASE, version=found["metadata"]["resourceVersion"])),
        lambda: api.delete("Lease", lease.name, lease.namespace),
        lambda: lease.write(LEASE),
    ]
    refused = []
    for ask in asks:
        try:
            ask()
        except (ClusterRefused, ClusterUnavailable) as error:
            refused.append(str(error))
    return refused


NUMBERS = count()


def test_they_are_enough(emulator: KubeApi, as_granted: Callable[[list[Rule]], KubeCluster]) -> None:
    cluster = as_granted(RULES)
    assert everything(emulator, cluster) == []
    assert {"GET", "PATCH", "POST", "PUT", "DELETE"} == {r.method for r in emulator.requests}


@pytest.mark.parametrize("missing", EACH, ids=lambda rule: f"{rule.verbs[0]} {rule.resources[0]}")
def test_each_is_used(emulator: KubeApi, as_granted: Callable[[list[Rule]], KubeCluster], missing: Rule) -> None:
    """And where one is missing, it is what is asked for."""
    cluster = as_granted([rule for rule in EACH if rule != missing])
    (verb,), (resource,) = missing.verbs, missing.resources
    full = f"{resource}.{missing.api_groups[0]}" if missing.api_groups[0] else resource

    refused = everything(emulator, cluster)

    if verb == "watch":  # the list is believed for a while without it
        eventually(lambda: any("watch=true" in r.query and r.status == 403 for r in emulator.requests))
        return
    assert any(f"grant {verb} on {full} " in text for text in refused), refused
