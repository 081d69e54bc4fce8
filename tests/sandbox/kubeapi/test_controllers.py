"""What other programs of a cluster do after a write."""

from __future__ import annotations

from typing import Any

from quarantine.sandbox.kubeapi import KubeApi

JOB_POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}


def taints(api: KubeApi, name: str = "n") -> list[str]:
    return [taint["key"] for taint in api.get("Node", name)["spec"].get("taints", ())]


def ready(api: KubeApi, status: str) -> None:
    conditions = [{"type": "Ready", "status": status}]
    api.patch_merge("Node", "n", {"status": {"conditions": conditions}}, subresource="status")


def test_the_life_cycle_controller_taints_by_condition_and_cordon_and_spares_foreign_taints(api: KubeApi) -> None:
    api.lifecycle_taints = True
    ours = {"key": "ours", "value": "1", "effect": "NoSchedule"}
    api.create({"kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [ours]}})
    assert taints(api) == ["ours", "node.kubernetes.io/not-ready"]
    ready(api, "True")
    assert taints(api) == ["ours"]
    api.patch_merge("Node", "n", {"spec": {"unschedulable": True}})
    assert taints(api) == ["ours", "node.kubernetes.io/unschedulable"]
    api.patch_merge("Node", "n", {"spec": {"unschedulable": None}})
    ready(api, "Unknown")
    assert taints(api) == ["ours", "node.kubernetes.io/unreachable"]


def test_without_the_life_cycle_controller_a_cordon_is_only_a_field(api: KubeApi) -> None:
    api.create({"kind": "Node", "metadata": {"name": "n"}, "spec": {"unschedulable": True}})
    assert taints(api) == ["node.kubernetes.io/not-ready"]


def test_held_back_controllers_catch_up_even_when_the_history_is_gone(api: KubeApi) -> None:
    api.auto_settle = False
    api.create({"kind": "Node", "metadata": {"name": "n"}})
    api.compact()
    assert "annotations" not in api.get("Node", "n")["metadata"]
    api.settle()
    assert api.get("Node", "n")["metadata"]["annotations"] == {"node.alpha.kubernetes.io/ttl": "0"}
    revision = api.store.revision
    api.settle()
    assert api.store.revision == revision


def test_a_node_whose_annotations_are_full_stays_as_it_is(api: KubeApi) -> None:
    full = {"a": "x" * (256 * 1024 - 1)}
    api.create({"kind": "Node", "metadata": {"name": "n", "annotations": full}})
    assert api.get("Node", "n")["metadata"]["annotations"] == full


def test_a_terminating_pod_stays_while_its_kubelet_is_dead(api: KubeApi, http: Any) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}
    api.create({"kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    api.dead_kubelets.add("n")
    api.delete("Pod", "p")
    assert api.get("Pod", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    assert http("DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0").status_code == 200
    assert api.list("Pod") == []


def test_what_an_owner_leaves_behind_is_collected(api: KubeApi) -> None:
    job = api.create({"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": JOB_POD}}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job["metadata"]["uid"], "controller": True}
    spec = {"containers": [{"name": "c", "image": "x"}]}
    api.create({"kind": "Pod", "metadata": {"name": "owned", "ownerReferences": [owner]}, "spec": spec})
    other = owner | {"uid": "somebody-else"}
    api.create({"kind": "Pod", "metadata": {"name": "shared", "ownerReferences": [owner, other]}, "spec": spec})
    api.delete("Job", "j")
    assert [pod["metadata"]["name"] for pod in api.list("Pod")] == ["shared"]


def test_a_namespace_goes_with_its_content(api: KubeApi, http: Any) -> None:
    api.create({"kind": "Namespace", "metadata": {"name": "team"}})
    api.create({"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}})
    api.auto_settle = False
    assert http("DELETE", "/api/v1/namespaces/team").json()["status"]["phase"] == "Terminating"
    answer = http("POST", "/api/v1/namespaces/team/configmaps", {"kind": "ConfigMap", "metadata": {"name": "d"}})
    assert answer.status_code == 403
    assert "because it is being terminated" in answer.json()["message"]
    api.settle()
    assert api.list("ConfigMap") == []
    assert "team" not in [namespace["metadata"]["name"] for namespace in api.list("Namespace")]
