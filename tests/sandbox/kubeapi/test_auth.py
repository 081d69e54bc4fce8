"""Tokens, rules, impersonation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import yaml

from quarantine.sandbox.kubeapi import MASTERS, KubeApi, KubeApiServer, Rule, User, rules_of, serve

ROLE = yaml.safe_load("""
kind: ClusterRole
metadata: {name: controller}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, patch]}
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [leader], verbs: [get, update]}
""")
NAMESPACED = {
    "kind": "Role",
    "metadata": {"name": "r", "namespace": "kube-system"},
    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
}
USERS = (
    User("root", "root-token", (MASTERS,)),
    User("controller", "controller-token", rules=(*rules_of(ROLE), *rules_of(NAMESPACED))),
)


@pytest.fixture
def guarded() -> Iterator[KubeApiServer]:
    api = KubeApi(users=USERS)
    api.create({"kind": "Node", "metadata": {"name": "n"}})
    with serve(api) as server:
        yield server


def status(server: KubeApiServer, method: str, path: str, **headers: str) -> int:
    sent = {"Authorization": "Bearer controller-token"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return requests.request(method, server.url + path, headers=sent, json={}, timeout=10).status_code


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/nodes", 200),
        ("GET", "/api/v1/nodes/n", 200),
        ("GET", "/api/v1/nodes?watch=1&timeoutSeconds=1&resourceVersion=999999", 200),
        ("DELETE", "/api/v1/nodes/n", 403),
        ("DELETE", "/api/v1/nodes", 403),
        ("PATCH", "/api/v1/nodes/n/status", 403),
        ("GET", "/api/v1/pods", 403),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction", 400),  # allowed; the body is not one
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader", 404),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/other", 403),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases", 403),
        ("GET", "/api/v1/namespaces/kube-system/configmaps", 200),
        ("GET", "/api/v1/namespaces/default/configmaps", 403),
        ("GET", "/api/v1/configmaps", 403),
        ("GET", "/api/v1", 200),
        ("GET", "/apis/policy/v1", 200),
        ("GET", "/metrics", 403),
    ],
)
def test_rules_are_those_of_the_role(guarded: KubeApiServer, method: str, path: str, code: int) -> None:
    assert status(guarded, method, path) == code


def test_only_who_may_impersonates(guarded: KubeApiServer) -> None:
    assert status(guarded, "GET", "/api/v1/nodes", Impersonate_User="root") == 403
    as_root = {"Authorization": "Bearer root-token"}
    assert status(guarded, "GET", "/api/v1/pods", **as_root) == 200
    assert status(guarded, "GET", "/api/v1/pods", **as_root, Impersonate_User="controller") == 403
    assert status(guarded, "GET", "/api/v1/nodes", **as_root, Impersonate_User="controller") == 200
    assert status(guarded, "GET", "/api/v1/pods", **as_root, Impersonate_User="x", Impersonate_Group=MASTERS) == 200


def test_health_and_version_are_public_and_discovery_is_not(guarded: KubeApiServer) -> None:
    codes = {path: requests.get(guarded.url + path, timeout=10).status_code for path in ("/livez", "/version", "/api")}
    assert codes == {"/livez": 200, "/version": 200, "/api": 403}


@pytest.mark.parametrize("value", ["Bearer root-toke", "Bearer ", "Basic !!!", "Basic cm9vdDp3cm9uZw==", "Digest x"])
def test_wrong_credentials_are_401(guarded: KubeApiServer, value: str) -> None:
    assert status(guarded, "GET", "/api/v1/nodes", Authorization=value) == 401


def test_the_log_says_who_asked(guarded: KubeApiServer) -> None:
    status(guarded, "GET", "/api/v1/nodes?limit=1")
    assert guarded.api.requests[-1] == ("GET", "/api/v1/nodes", "limit=1", "controller", 200)
    guarded.api.requests.clear()
    assert list(guarded.api.requests) == []


def test_may_i_is_answered_by_the_rules(guarded: KubeApiServer) -> None:
    def may(**wanted: str) -> bool:
        answer = requests.post(
            guarded.url + "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json={"spec": {"resourceAttributes": wanted}},
            headers={"Authorization": "Bearer controller-token"},
            timeout=10,
        )
        assert answer.status_code == 201
        allowed: bool = answer.json()["status"]["allowed"]
        return allowed

    assert may(verb="patch", resource="nodes")
    assert not may(verb="delete", resource="nodes")
    assert may(verb="create", resource="pods", subresource="eviction", namespace="default")
    assert not may(verb="create", resource="pods", namespace="default")


def test_tokens_stay_out_of_reprs() -> None:
    assert "root-token" not in repr(USERS)
    assert Rule(("get",), ("*",)) == Rule(("get",), ("*",), ("",))


def test_without_an_admin_there_is_no_admin_token() -> None:
    server = serve(KubeApi(users=[USERS[1]]))
    with pytest.raises(ValueError, match="no user of this server is in the group system:masters"):
        _ = server.token
