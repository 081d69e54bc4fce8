"""Lists: selectors, pages of one snapshot, and the versions that can be read."""

from __future__ import annotations

from time import monotonic
from typing import Any
from urllib.parse import quote

import pytest

from quarantine.sandbox.kubeapi import ApiError, KubeApi
from quarantine.sandbox.kubeapi.dispatch import Call, dispatch
from quarantine.sandbox.kubeapi.selectors import label_selector, selector_object


def fill(api: KubeApi, count: int) -> None:
    for number in range(count):
        labels = {"pool": "even" if number % 2 == 0 else "odd", "n": str(number)}
        api.create({"kind": "Node", "metadata": {"name": f"n{number}", "labels": labels}})


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def test_pages_are_of_one_snapshot(api: KubeApi, http: Any) -> None:
    fill(api, 5)
    page = http("GET", "/api/v1/nodes?limit=2").json()
    assert names(page) == ["n0", "n1"]
    assert page["metadata"]["remainingItemCount"] == 3
    api.delete("Node", "n2")
    api.create({"kind": "Node", "metadata": {"name": "n25"}})
    api.patch_merge("Node", "n3", {"metadata": {"labels": {"later": "yes"}}})
    token = quote(page["metadata"]["continue"])
    rest = http("GET", f"/api/v1/nodes?limit=5&continue={token}").json()
    assert names(rest) == ["n2", "n3", "n4"]
    assert "later" not in rest["items"][1]["metadata"]["labels"]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    assert "continue" not in rest["metadata"]


def test_an_expired_page_is_410_with_a_token_that_goes_on_inconsistently(api: KubeApi, http: Any) -> None:
    fill(api, 4)
    page = http("GET", "/api/v1/nodes?limit=2").json()
    api.delete("Node", "n2")
    api.compact()
    answer = http("GET", f"/api/v1/nodes?limit=2&continue={quote(page['metadata']['continue'])}")
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
    token = answer.json()["metadata"]["continue"]
    assert names(http("GET", f"/api/v1/nodes?limit=2&continue={quote(token)}").json()) == ["n3"]


def test_a_small_history_compacts_by_itself() -> None:
    small = KubeApi(history=3)
    fill(small, 1)
    version = small.store.revision
    for number in range(4):
        small.patch_merge("Node", "n0", {"metadata": {"annotations": {"a": str(number)}}})
    with pytest.raises(ApiError) as caught:
        small.store.since(version)
    assert caught.value.code == 410
    assert len(small.store.since(version + 1)) == 3


def test_an_exact_version_is_read_and_one_to_come_is_504(api: KubeApi, http: Any) -> None:
    fill(api, 1)
    version = api.store.revision
    fill_more = {"kind": "Node", "metadata": {"name": "n9"}}
    api.create(fill_more)
    exact = http("GET", f"/api/v1/nodes?resourceVersion={version}&resourceVersionMatch=Exact").json()
    assert (names(exact), exact["metadata"]["resourceVersion"]) == (["n0"], str(version))
    assert names(http("GET", f"/api/v1/nodes?resourceVersion={version}").json()) == ["n0", "n9"]
    answer = http("GET", f"/api/v1/nodes?resourceVersion={version + 1000}")
    assert answer.status_code == 504
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["Retry-After"] == "1"


def test_a_list_of_version_0_knows_no_pages(api: KubeApi, http: Any) -> None:
    fill(api, 3)
    assert names(http("GET", "/api/v1/nodes?limit=1&resourceVersion=0").json()) == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        ("pool=even", ["n0", "n2"]),
        ("pool==even,n!=0", ["n2"]),
        ("pool in (odd, even),n notin (0,1)", ["n2"]),
        ("!absent", ["n0", "n1", "n2"]),
        ("n", ["n0", "n1", "n2"]),
        ("n>0", ["n1", "n2"]),
        ("absent=", []),
    ],
)
def test_label_selectors(api: KubeApi, http: Any, selector: str, matched: list[str]) -> None:
    fill(api, 3)
    assert names(http("GET", f"/api/v1/nodes?labelSelector={quote(selector)}").json()) == matched


def test_a_broken_label_selector_is_400(http: Any) -> None:
    assert http("GET", "/api/v1/nodes?labelSelector=a%20b").status_code == 400


def test_a_missing_selector_object_matches_nothing_and_an_empty_one_everything() -> None:
    obj = {"metadata": {"labels": {"a": "b"}}}
    assert not selector_object(None)(obj)
    assert selector_object({})(obj)
    terms = [{"key": "a", "operator": "NotIn", "values": ["b"]}]
    assert not selector_object({"matchExpressions": terms})(obj)
    assert label_selector("")(obj)


def test_field_selectors(api: KubeApi, http: Any) -> None:
    fill(api, 3)
    api.patch_merge("Node", "n1", {"spec": {"unschedulable": True}})
    assert names(http("GET", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue").json()) == ["n1"]
    assert names(http("GET", "/api/v1/nodes?fieldSelector=spec.unschedulable!%3Dtrue").json()) == ["n0", "n2"]
    about = {"kind": "Node", "name": "n1", "uid": "u1"}
    event = {"kind": "Event", "metadata": {"name": "e1"}, "involvedObject": about, "source": {"component": "q"}}
    api.create(event)
    both = "involvedObject.name=n1,involvedObject.uid=u1,source=q"
    assert names(http("GET", f"/api/v1/events?fieldSelector={quote(both)}").json()) == ["e1"]
    answer = http("GET", "/apis/coordination.k8s.io/v1/leases?fieldSelector=spec.holderIdentity%3Da")
    assert answer.json()["message"].startswith('"spec.holderIdentity" is not a known field selector')


def test_namespaces_part_lists(api: KubeApi, http: Any) -> None:
    api.create({"kind": "ConfigMap", "metadata": {"name": "a"}})
    api.create({"kind": "ConfigMap", "metadata": {"name": "b", "namespace": "kube-system"}, "data": {"k": "v"}})
    assert names(http("GET", "/api/v1/configmaps").json()) == ["a", "b"]
    assert names(http("GET", "/api/v1/namespaces/kube-system/configmaps").json()) == ["b"]
    assert [c["metadata"]["name"] for c in api.list("ConfigMap", "default")] == ["a"]


def test_a_collection_is_deleted_by_selector(api: KubeApi, http: Any) -> None:
    fill(api, 4)
    assert names(http("DELETE", "/api/v1/nodes?labelSelector=pool%3Dodd").json()) == ["n1", "n3"]
    assert [node["metadata"]["name"] for node in api.list("Node")] == ["n0", "n2"]


def test_a_thousand_full_nodes_are_listed_quickly() -> None:
    big = KubeApi()
    big.auto_settle = False
    images = [{"names": ["registry.example/" + "a" * 1400], "sizeBytes": n} for n in range(10)]
    for number in range(1000):
        big.create({"kind": "Node", "metadata": {"name": f"n{number:04}"}, "status": {"images": images}})
    headers = {"authorization": f"Bearer {big.users[0].token}"}
    started = monotonic()
    reply = dispatch(big, Call("GET", "/api/v1/nodes", {}, headers))
    assert monotonic() - started < 2
    assert len(reply.body) > 1000 * 14_000
