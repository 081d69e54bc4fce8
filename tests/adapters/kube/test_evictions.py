"""Asking pods to leave: what each answer means, and that nothing is ever deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.core.case import PodRef
from quarantine.core.errors import (
    ClusterRefused,
    ClusterUnavailable,
    EvictionBlocked,
    EvictionImpossible,
    QuarantineError,
)
from quarantine.sandbox.kubeapi import KubeApi, KubeApiServer, Rule, User, serve
from tests.adapters.kube.podworld import comes_back, create_pod
from tests.adapters.kube.scripted import Exchange, Scripted
from tests.adapters.kube.support import failure
from tests.adapters.kube.world import World

Connect = Callable[..., KubeCluster]
POD = PodRef("default", "web-0", "u-1")
LABELS = {"app": "web"}


@pytest.fixture
def cluster(emulated: World) -> KubeCluster:
    return emulated.cluster(watch=False)


def pods(api: KubeApi) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.list("Pod")]


def budget(api: KubeApi, name: str, **spec: Any) -> None:
    selector = {"selector": {"matchLabels": LABELS}}
    api.create({"kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": selector | spec})


def test_a_pod_leaves(emulator: KubeApi, cluster: KubeCluster) -> None:
    pod = create_pod(emulator, "web-0")
    emulator.requests.clear()

    assert cluster.evict(pod) is True
    assert cluster.evict(pod) is False

    assert pods(emulator) == []
    assert [(r.method, r.path) for r in emulator.requests] == [
        ("POST", "/api/v1/namespaces/default/pods/web-0/eviction")
    ] * 2


def test_one_that_came_back_under_its_name_is_another(emulator: KubeApi, cluster: KubeCluster) -> None:
    pod = create_pod(emulator, "web-0", owner="StatefulSet/web")
    assert cluster.evict(pod) is True
    comes_back(emulator, pod)

    assert cluster.evict(pod) is False

    assert pods(emulator) == ["web-0"]


def test_one_that_terminates_may_be_asked_again(emulator: KubeApi, cluster: KubeCluster) -> None:
    emulator.dead_kubelets.add("n1")
    pod = create_pod(emulator, "web-0", terminationGracePeriodSeconds=30)
    assert cluster.evict(pod) is True
    assert cluster.evict(pod) is True


def test_a_disruption_budget_is_respected_and_named(emulator: KubeApi, cluster: KubeCluster) -> None:
    pod = create_pod(emulator, "web-0", labels=LABELS)
    budget(emulator, "web", minAvailable=1)

    with pytest.raises(EvictionBlocked, match="The disruption budget web does not allow evicting") as caught:
        cluster.evict(pod)

    assert "evicting pod default/web-0" in str(caught.value)
    assert pods(emulator) == ["web-0"]
    emulator.delete("PodDisruptionBudget", "web")
    assert cluster.evict(pod) is True


def test_a_budget_that_is_not_looked_at_yet_is_in_the_way_for_now(emulator: KubeApi, cluster: KubeCluster) -> None:
    pod = create_pod(emulator, "web-0", labels=LABELS)
    emulator.auto_settle = False
    budget(emulator, "web", minAvailable=0)
    with pytest.raises(EvictionBlocked, match="still being processed"):
        cluster.evict(pod)


def test_two_budgets_over_one_pod_are_a_person_s_matter(emulator: KubeApi, cluster: KubeCluster) -> None:
    pod = create_pod(emulator, "web-0", labels=LABELS)
    budget(emulator, "one", minAvailable=0)
    budget(emulator, "two", minAvailable=0)
    with pytest.raises(EvictionImpossible, match="more than one PodDisruptionBudget"):
        cluster.evict(pod)


def test_the_missing_right_is_named(world_without_rights: KubeCluster, emulator: KubeApi) -> None:
    with pytest.raises(ClusterRefused, match="grant create on pods/eviction"):
        world_without_rights.evict(create_pod(emulator, "web-0"))


@pytest.fixture
def world_without_rights(emulator: KubeApi, tmp_path: Any, connected: Connect) -> Any:
    reader = User("reader", "t0ken", rules=(Rule(("get", "list"), ("nodes", "pods")),))
    emulator.gate.users = (reader,)
    server: KubeApiServer
    with serve(emulator) as server:
        yield connected(server.write_kubeconfig(tmp_path / "kubeconfig", user="reader"), watch=False)


def status(code: int, reason: str, message: str, *causes: str, **details: Any) -> dict[str, Any]:
    told = [{"reason": cause, "message": f"because of {cause}"} for cause in causes]
    return failure(code, reason, message, **details, **({"causes": told} if told else {}))


def asked(scripted: Scripted, connect: Connect, code: int, body: Any, **headers: str) -> bool | QuarantineError:
    scripted.script = lambda exchange: exchange.answer(body, code, **headers)
    try:
        return connect(watch=False).evict(POD)
    except QuarantineError as error:
        return error


def test_the_uid_goes_with_it(scripted: Scripted, to_scripted: Connect) -> None:
    assert asked(scripted, to_scripted, 201, {"kind": "Status", "status": "Success"}) is True
    (sent,) = scripted.seen
    assert (sent.command, sent.path) == ("POST", "/api/v1/namespaces/default/pods/web-0/eviction")
    assert sent.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": "u-1"}},
    }


UID = "the UID in the precondition (u-1) does not match the UID in record (u-2)"


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (404, failure(404, "NotFound", 'pods "web-0" not found', name="web-0", kind="pods")),
        (409, failure(409, "Conflict", f'Operation cannot be fulfilled on Pod "web-0": {UID}', kind="Pod")),
        (409, failure(409, "Conflict", "Precondition failed: UID in precondition: u-1, UID in object meta: u-2")),
    ],
)
def test_gone_is_as_good_as_left(scripted: Scripted, to_scripted: Connect, code: int, body: Any) -> None:
    assert asked(scripted, to_scripted, code, body) is False


@pytest.mark.parametrize(
    ("code", "body", "error", "words"),
    [
        (429, status(429, "TooManyRequests", "Cannot evict", "DisruptionBudget"), EvictionBlocked, "because of Disr"),
        (
            429,
            status(429, "TooManyRequests", 'admission webhook "kubevirt" denied the request: it moves'),
            EvictionBlocked,
            "it moves",
        ),
        (403, status(403, "Forbidden", "is being terminated", "NamespaceTerminating"), EvictionBlocked, "namespace is"),
        (429, status(429, "TooManyRequests", "slow down"), ClusterUnavailable, "slow down"),
        (500, status(500, "", "This pod has more than one PodDisruptionBudget, which"), EvictionImpossible, "by hand"),
        (500, status(500, "InternalError", "etcd is down"), ClusterUnavailable, "etcd is down"),
        (403, status(403, "Forbidden", 'User "bob" cannot create'), ClusterRefused, "grant create on pods/eviction"),
        (
            403,
            status(403, "Forbidden", 'admission webhook "vault" denied the request: never'),
            EvictionImpossible,
            "never",
        ),
        (401, status(401, "Unauthorized", "Unauthorized"), ClusterRefused, "token"),
        (422, status(422, "Invalid", "Eviction is invalid"), EvictionImpossible, "is invalid"),
        (400, status(400, "BadRequest", ""), EvictionImpossible, "no reason given"),
        (409, status(409, "Conflict", "the object has been modified"), ClusterUnavailable, "has been modified"),
        (404, failure(404, "NotFound", "the server could not find the requested resource"), ClusterUnavailable, "URL"),
        (404, b"<html>no such page</html>", ClusterUnavailable, "URL"),
        (504, status(504, "Timeout", "couldn't update PodDisruptionBudget"), ClusterUnavailable, "couldn't update"),
        (201, b"<html>Sign in</html>", ClusterUnavailable, "no JSON"),
    ],
)
def test_each_refusal(
    scripted: Scripted, to_scripted: Connect, code: int, body: Any, error: type[QuarantineError], words: str
) -> None:
    found = asked(scripted, to_scripted, code, body)
    assert type(found) is error
    assert words in str(found)
    assert "evicting pod default/web-0" in str(found)
    assert "<html>" not in str(found)
    assert len(scripted.seen) == 1


def test_a_rate_limit_says_how_long(scripted: Scripted, to_scripted: Connect) -> None:
    found = asked(scripted, to_scripted, 429, failure(429, "TooManyRequests", "slow down"), Retry_After="7")
    assert isinstance(found, ClusterUnavailable)
    assert found.retry_after == timedelta(seconds=7)


@pytest.mark.parametrize("script", [Exchange.hang, Exchange.drop])
def test_no_answer_leaves_it_open(scripted: Scripted, to_scripted: Connect, script: Callable[[Exchange], None]) -> None:
    scripted.script = script
    with pytest.raises(ClusterUnavailable):
        to_scripted(watch=False, timeout=0.3).evict(POD)
    assert len(scripted.seen) == 1
