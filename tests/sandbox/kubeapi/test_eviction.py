"""Evictions and disruption budgets: the sums of the disruption controller, and what they allow."""

from __future__ import annotations

from typing import Any

import pytest

from quarantine.sandbox.kubeapi import ApiError, KubeApi

JOB_POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
BUDGET_PATH = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def pod(api: KubeApi, name: str, *, owner: dict[str, Any] | None = None, ready: bool = True, grace: int = 0) -> None:
    meta: dict[str, Any] = {"name": name, "labels": {"app": "a"}}
    if owner:
        about = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        meta["ownerReferences"] = [about | {"apiVersion": owner["apiVersion"], "controller": True}]
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": grace, "containers": [{"name": "c", "image": "x"}]}
    api.create({"kind": "Pod", "metadata": meta, "spec": spec})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    api.patch_merge("Pod", name, {"status": status}, subresource="status")


def budget(api: KubeApi, name: str = "b", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "a"}}
    api.create({"kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": {"selector": selector} | spec})
    status: dict[str, Any] = api.get("PodDisruptionBudget", name)["status"]
    return status


def refused(api: KubeApi, name: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        api.evict(name)
    return caught.value


def causes(error: ApiError) -> list[str]:
    assert error.details is not None
    return [cause["message"] for cause in error.details["causes"]]


@pytest.fixture
def stateful(api: KubeApi) -> dict[str, Any]:
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "a"}}}
    return api.create({"kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec})


def test_a_budget_allows_so_many_and_no_more(api: KubeApi) -> None:
    for number in range(3):
        pod(api, f"p{number}")
    status = budget(api, minAvailable=2)
    assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (3, 3, 1)
    assert status["conditions"][0]["reason"] == "SufficientPods"
    api.evict("p0")
    error = refused(api, "p1")
    assert (error.code, error.reason) == (429, "TooManyRequests")
    assert causes(error) == ["The disruption budget b does not allow evicting pods currently"]
    pod(api, "p3")
    api.evict("p1")
    assert [p["metadata"]["name"] for p in api.list("Pod")] == ["p2", "p3"]


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": "25%"}, 3, 1),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"minAvailable": "60%"}, 3, 1),
        ({"minAvailable": 5}, 5, 0),
        ({"maxUnavailable": "100%"}, 0, 4),
    ],
)
def test_shares_are_of_the_scale_and_rounded_up(
    api: KubeApi, stateful: dict[str, Any], spec: dict[str, Any], desired: int, allowed: int
) -> None:
    for number in range(4):
        pod(api, f"p{number}", owner=stateful)
    status = budget(api, **spec)
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, desired, allowed)


def test_a_budget_that_lacks_healthy_pods_says_how_many(api: KubeApi, stateful: dict[str, Any]) -> None:
    for number in range(4):
        pod(api, f"p{number}", owner=stateful, ready=number > 1)
    budget(api, minAvailable=3)
    assert causes(refused(api, "p2")) == ["The disruption budget b needs 3 healthy pods and has 2 currently"]


def test_a_budget_over_the_pods_of_a_job_never_syncs(api: KubeApi) -> None:
    job = api.create({"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": JOB_POD}}})
    pod(api, "p", owner=job)
    status = budget(api, maxUnavailable=1)
    assert status["disruptionsAllowed"] == 0
    assert status["conditions"][0]["reason"] == "SyncFailed"
    [cause] = causes(refused(api, "p"))
    assert "because it failed sync: jobs.batch does not implement the scale subresource" in cause


def test_before_the_controller_has_seen_a_budget_an_eviction_waits(api: KubeApi, http: Any) -> None:
    pod(api, "p")
    api.auto_settle = False
    budget(api, minAvailable=0)
    answer = http("POST", "/api/v1/namespaces/default/pods/p/eviction", {"metadata": {"name": "p"}})
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "10")
    assert "still being processed" in answer.json()["details"]["causes"][0]["message"]
    api.settle()
    api.evict("p")
    assert api.list("Pod") == []


def test_evictions_between_two_looks_of_the_controller_are_counted(api: KubeApi) -> None:
    for number in range(3):
        pod(api, f"p{number}", grace=30)
    budget(api, minAvailable=2)
    api.auto_settle = False
    api.evict("p0")
    assert api.get("PodDisruptionBudget", "b")["status"]["disruptedPods"] == {"p0": "2026-11-29T12:00:00Z"}
    assert refused(api, "p1").code == 429


def test_unhealthy_and_pending_pods_cost_nothing(api: KubeApi, stateful: dict[str, Any]) -> None:
    for number in range(3):
        pod(api, f"p{number}", owner=stateful, ready=number > 0)
    budget(api, minAvailable=2)
    api.evict("p0")
    assert refused(api, "p1").code == 429
    api.create(
        {
            "kind": "Pod",
            "metadata": {"name": "new", "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }
    )
    api.evict("new")
    assert [p["metadata"]["name"] for p in api.list("Pod")] == ["p1", "p2"]


def test_unhealthy_pods_go_always_where_the_budget_says_so(api: KubeApi) -> None:
    pod(api, "p", ready=False)
    budget(api, minAvailable=1)
    assert refused(api, "p").code == 429
    patch = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
    api.patch_merge("PodDisruptionBudget", "b", patch)
    api.evict("p")
    assert api.list("Pod") == []


def test_an_evicted_pod_says_why_before_it_goes(api: KubeApi) -> None:
    api.dead_kubelets.add("n")
    pod(api, "p", grace=30)
    version = api.store.revision
    api.evict("p")
    left = api.get("Pod", "p")
    assert left["metadata"]["deletionTimestamp"] == "2026-11-29T12:00:30Z"
    [target] = [c for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert [change.type for change in api.store.since(version)] == ["MODIFIED", "MODIFIED"]
    api.dead_kubelets.clear()
    api.settle()
    assert api.list("Pod") == []


def test_a_dry_run_evicts_nothing_and_spends_nothing(api: KubeApi, http: Any) -> None:
    pod(api, "p")
    budget(api, minAvailable=0)
    before = api.store.revision
    body = {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}
    assert http("POST", "/api/v1/namespaces/default/pods/p/eviction", body).status_code == 201
    assert api.store.revision == before


def test_the_uid_names_the_pod(api: KubeApi) -> None:
    pod(api, "p")
    with pytest.raises(ApiError) as caught:
        api.evict("p", uid="an-earlier-one")
    assert caught.value.code == 409
    api.evict("p", uid=api.get("Pod", "p")["metadata"]["uid"])


@pytest.mark.parametrize(
    "spec",
    [
        {"minAvailable": 1, "maxUnavailable": 1},
        {"minAvailable": -1},
        {"maxUnavailable": "half"},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
    ],
)
def test_a_budget_is_validated(api: KubeApi, spec: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        budget(api, **spec)
    assert caught.value.code == 422


def test_the_body_must_name_the_pod_of_the_url(http: Any, api: KubeApi) -> None:
    pod(api, "p")
    answer = http("POST", "/api/v1/namespaces/default/pods/p/eviction", {"metadata": {"name": "q"}})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "name in URL does not match name in Eviction object",
    )
