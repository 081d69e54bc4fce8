"""Creates, updates and deletes: preconditions, validation, dry runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import requests

from quarantine.sandbox.kubeapi import ApiError, KubeApi

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture
def node(api: KubeApi) -> dict[str, Any]:
    api.create({"kind": "Node", "metadata": {"name": "n"}})
    return api.get("Node", "n")


def race(http: Any, version: str) -> list[int]:
    """The statuses of two patches of the same version, sent at the same time over two connections."""
    start = threading.Barrier(2)
    statuses: list[int] = []

    def write(who: str) -> None:
        body = {"metadata": {"resourceVersion": version, "annotations": {"by": f"{who} from {version}"}}}
        headers = {"Authorization": f"Bearer {http.token}", "Content-Type": "application/merge-patch+json"}
        with requests.Session() as session:
            start.wait(10)
            answer = session.patch(http.url + f"{NODES}/n", json=body, headers=headers, timeout=10)
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=write, args=(who,)) for who in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return statuses


def test_of_two_conditional_writes_exactly_one_wins(api: KubeApi, http: Any, node: dict[str, Any]) -> None:
    for _ in range(10):
        version = api.get("Node", "n")["metadata"]["resourceVersion"]
        assert sorted(race(http, version)) == [200, 409]


def test_concurrent_writes_without_a_precondition_all_count(api: KubeApi, node: dict[str, Any]) -> None:
    def write(who: int) -> None:
        for number in range(20):
            api.patch_merge("Node", "n", {"metadata": {"annotations": {f"{who}-{number}": "1"}}})

    threads = [threading.Thread(target=write, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(api.get("Node", "n")["metadata"]["annotations"]) == 61


def test_a_new_node_is_stale_a_moment_later(api: KubeApi, http: Any) -> None:
    made = http("POST", NODES, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}}).json()
    assert "annotations" not in made["metadata"]
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"a": "b"}}}
    assert http.merge(f"{NODES}/x", patch).status_code == 409


def test_a_put_is_conditional_on_version_and_uid(api: KubeApi, http: Any, node: dict[str, Any]) -> None:
    node["metadata"]["labels"] = {"a": "b"}
    assert http("PUT", f"{NODES}/n", node).status_code == 200
    assert http("PUT", f"{NODES}/n", node).status_code == 409
    del node["metadata"]["resourceVersion"]
    node["metadata"]["labels"] = {"a": "c"}
    assert http("PUT", f"{NODES}/n", node).json()["metadata"]["labels"] == {"a": "c"}
    node["metadata"]["uid"] = "another"
    answer = http("PUT", f"{NODES}/n", node)
    assert answer.status_code == 409
    assert "Precondition failed: UID in precondition: another" in answer.json()["message"]


def test_a_patch_for_another_uid_is_refused(http: Any, node: dict[str, Any]) -> None:
    answer = http.merge(f"{NODES}/n", {"metadata": {"uid": "another", "annotations": {"a": "b"}}})
    assert answer.status_code == 422
    assert "metadata.uid: Invalid value" in answer.json()["message"]
    good = {"metadata": {"uid": node["metadata"]["uid"], "annotations": {"a": "b"}}}
    assert http.merge(f"{NODES}/n", good).status_code == 200


def test_the_version_is_checked_before_the_uid(http: Any, node: dict[str, Any]) -> None:
    assert http.merge(f"{NODES}/n", {"metadata": {"uid": "another", "resourceVersion": "1"}}).status_code == 409


def test_a_name_other_than_the_urls_is_400(http: Any, node: dict[str, Any]) -> None:
    assert http.merge(f"{NODES}/n", {"metadata": {"name": "m"}}).status_code == 400


def test_a_lease_put_needs_a_version_and_creates_what_is_not_there(http: Any) -> None:
    lease = {"kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    assert http("PUT", f"{LEASES}/l", lease).status_code == 201
    answer = http("PUT", f"{LEASES}/l", lease)
    assert answer.status_code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.json()["message"]


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "yesterday"])
def test_a_lease_wants_microseconds(http: Any, time: str) -> None:
    answer = http("POST", LEASES, {"kind": "Lease", "metadata": {"name": "l"}, "spec": {"renewTime": time}})
    assert answer.status_code == 400
    assert f'parsing time "{time}"' in answer.json()["message"]


def test_a_dry_run_changes_nothing(api: KubeApi, http: Any, node: dict[str, Any]) -> None:
    before = api.store.revision
    answer = http.merge(f"{NODES}/n?dryRun=All", {"spec": {"unschedulable": True}})
    assert answer.json()["spec"]["unschedulable"] is True
    body = {"kind": "Node", "metadata": {"name": "m"}}
    assert http("POST", f"{NODES}?dryRun=All", body).status_code == 201
    assert http("DELETE", f"{NODES}/n?dryRun=All").status_code == 200
    assert http("DELETE", f"{NODES}/n", {"dryRun": ["All"]}).status_code == 200
    assert http.merge(f"{NODES}/n?dryRun=some", {}).status_code == 400
    assert (api.store.revision, api.get("Node", "n")) == (before, node)


def test_a_false_unschedulable_is_no_field_and_has_no_owner(api: KubeApi, http: Any, node: dict[str, Any]) -> None:
    http.merge(f"{NODES}/n?fieldManager=us", {"spec": {"unschedulable": True}})
    back = http.merge(f"{NODES}/n?fieldManager=them", {"spec": {"unschedulable": False}}).json()
    assert "unschedulable" not in back["spec"]
    assert [entry["manager"] for entry in back["metadata"]["managedFields"]] == ["kube-controller-manager"]


def test_the_status_of_the_main_resource_is_ignored(http: Any, node: dict[str, Any]) -> None:
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert http.merge(f"{NODES}/n", patch).json() == node
    condition = http.merge(f"{NODES}/n/status?fieldManager=us", patch).json()
    assert condition["status"]["conditions"] == patch["status"]["conditions"]
    [entry] = [e for e in condition["metadata"]["managedFields"] if e["manager"] == "us"]
    assert entry["subresource"] == "status"
    owned: dict[str, Any] = {".": {}, 'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}}
    assert entry["fieldsV1"] == {"f:status": {"f:conditions": owned}}


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"metadata": {"labels": {"a": 1}}}, "cannot unmarshal number into Go struct field Node.metadata.labels"),
        ({"metadata": {"annotations": {"a": True}}}, "cannot unmarshal bool"),
        ({"spec": {"unschedulable": "true"}}, "cannot unmarshal string"),
        ({"spec": {"taints": {"key": "a"}}}, "cannot unmarshal object"),
    ],
)
def test_wrong_types_are_refused(http: Any, node: dict[str, Any], patch: Any, words: str) -> None:
    answer = http.merge(f"{NODES}/n", patch)
    assert answer.status_code == 422
    assert words in answer.json()["message"]
    body = {"kind": "Node", "metadata": {"name": "m"}} | patch
    body["metadata"] |= {"name": "m"}
    assert http("POST", NODES, body).status_code == 400


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"metadata": {"labels": {"bad key": "v"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"/x": "v"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"UPPER/x": "v"}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"a/b/c": "v"}}}, "metadata.annotations"),
        ({"metadata": {"labels": {"x" * 64: "v"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"a": "-v"}}}, "metadata.labels"),
        ({"spec": {"taints": [{"key": "a"}]}}, "metadata.taints[0].effect"),
        ({"spec": {"taints": [{"effect": "NoSchedule"}]}}, "metadata.taints[0].key"),
        ({"spec": {"taints": [{"key": "a", "value": "x" * 64, "effect": "NoExecute"}]}}, "metadata.taints[0].value"),
    ],
)
def test_invalid_fields_are_named(http: Any, node: dict[str, Any], patch: Any, field: str) -> None:
    answer = http.merge(f"{NODES}/n", patch)
    assert answer.status_code == 422
    assert {cause["field"] for cause in answer.json()["details"]["causes"]} == {field}


def test_a_provider_id_is_set_once(http: Any, node: dict[str, Any]) -> None:
    assert http.merge(f"{NODES}/n", {"spec": {"providerID": "p://1"}}).status_code == 200
    answer = http.merge(f"{NODES}/n", {"spec": {"providerID": "p://2"}})
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][-1]["field"] == "spec.providerID"


@pytest.mark.parametrize("name", ["", "Upper", "under_score", "-a", "a" * 254])
def test_a_name_is_a_subdomain(api: KubeApi, name: str) -> None:
    with pytest.raises(ApiError) as caught:
        api.create({"kind": "Node", "metadata": {"name": name}})
    assert caught.value.code == 422
    assert caught.value.details is not None
    assert caught.value.details["causes"][0]["field"] == "metadata.name"


def test_a_namespace_must_be_there_and_the_same(http: Any) -> None:
    cm = {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "nowhere"}}
    answer = http("POST", "/api/v1/namespaces/nowhere/configmaps", cm)
    assert (answer.status_code, answer.json()["message"]) == (404, 'namespaces "nowhere" not found')
    assert http("POST", "/api/v1/namespaces/default/configmaps", cm).status_code == 400


def test_an_event_about_a_node_lives_in_default(api: KubeApi) -> None:
    about = {"kind": "Node", "name": "n"}
    with pytest.raises(ApiError, match=r"does not match event\.namespace"):
        api.create({"kind": "Event", "metadata": {"name": "e", "namespace": "kube-system"}, "involvedObject": about})


def test_the_spec_of_a_pod_stays(api: KubeApi) -> None:
    api.create({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    with pytest.raises(ApiError) as caught:
        api.patch_merge("Pod", "p", {"spec": {"nodeName": "elsewhere"}})
    assert (caught.value.code, "pod updates may not change fields" in caught.value.message) == (422, True)
    assert api.patch_merge("Pod", "p", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1


def test_finalizers_hold_an_object_until_the_last_is_gone(api: KubeApi, http: Any) -> None:
    api.create({"kind": "ConfigMap", "metadata": {"name": "c", "finalizers": ["x/y"]}})
    path = "/api/v1/namespaces/default/configmaps/c"
    assert http("DELETE", path).json()["metadata"]["deletionTimestamp"] == "2026-11-29T12:00:00Z"
    assert http.merge(path, {"metadata": {"finalizers": None}}).status_code == 200
    assert http("GET", path).status_code == 404


def test_a_deletion_has_preconditions(http: Any, node: dict[str, Any]) -> None:
    for precondition in ({"uid": "another"}, {"resourceVersion": "1"}):
        answer = http("DELETE", f"{NODES}/n", {"preconditions": precondition})
        assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    good = {"uid": node["metadata"]["uid"], "resourceVersion": node["metadata"]["resourceVersion"]}
    assert http("DELETE", f"{NODES}/n", {"preconditions": good}).status_code == 200


def test_the_body_has_a_format_and_a_size(http: Any, node: dict[str, Any]) -> None:
    assert http("PATCH", f"{NODES}/n", {}, content_type="application/json").status_code == 415
    assert http("POST", NODES, {}, content_type="application/vnd.kubernetes.protobuf").status_code == 415
    assert http("POST", NODES, ["no object"]).status_code == 400
    huge = {"kind": "Node", "metadata": {"name": "m", "annotations": {"a": "x" * (3 * 1024 * 1024)}}}
    assert http("POST", NODES, huge).status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/gadgets", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("GET", "/api/v1/nodes/n/proxy", 404),
        ("PUT", "/api/v1/nodes", 405),
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api/v1/nodes/n", 405),
        ("GET", "/api/v1/namespaces/default/pods/p/eviction", 405),
    ],
)
def test_what_is_not_there_and_what_cannot_be_done(http: Any, method: str, path: str, code: int) -> None:
    answer = http(method, path)
    assert (answer.status_code, answer.json()["kind"]) == (code, "Status")


def test_direct_calls_are_the_same_path(api: KubeApi, http: Any) -> None:
    made = api.create({"kind": "Lease", "metadata": {"name": "l", "namespace": "kube-system"}, "spec": {}})
    over_http = http("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l").json()
    assert over_http == made == api.get("Lease", "l", "kube-system")
    made["spec"]["leaseTransitions"] = 2
    changed = api.update(made)
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    with pytest.raises(ApiError) as caught:
        api.update(made | {"spec": {}})
    assert caught.value.code == 409
    api.delete("Lease", "l", "kube-system")
    with pytest.raises(ApiError, match=r'leases.coordination.k8s.io "l" not found'):
        api.get("Lease", "l", "kube-system")
    with pytest.raises(ValueError, match="no kind 'Gadget' here"):
        api.get("Gadget", "g")


def test_what_is_handed_out_is_a_copy(api: KubeApi, node: dict[str, Any]) -> None:
    node["metadata"]["labels"] = {"mine": "only"}
    api.list("Node")[0]["spec"]["taints"].clear()
    assert "labels" not in api.get("Node", "n")["metadata"]
    assert len(api.get("Node", "n")["spec"]["taints"]) == 1
