"""What runs on nodes, over real HTTP: on the emulator, and on a server that has bad days."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.adapters.kube.pods import PodReader
from quarantine.adapters.kube.transport import Transport
from quarantine.core.errors import ClusterUnavailable
from quarantine.core.workload import Class, PodRules, Workloads
from quarantine.sandbox.kubeapi import KubeApi
from tests.adapters.kube.podworld import comes_back, create_pod, owner_ref, pod_json, running
from tests.adapters.kube.scripted import Exchange, Scripted
from tests.adapters.kube.support import AT, failure
from tests.adapters.kube.world import World

Connect = Callable[..., KubeCluster]
RULES = PodRules()
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "llama", "batch.kubernetes.io/job-name": "llama-w-0"}


@pytest.fixture
def cluster(emulated: World) -> KubeCluster:
    return emulated.cluster(watch=False)


def names(found: Workloads) -> dict[str, list[str]]:
    return {node: [pod.ref.name for pod in pods] for node, pods in found.nodes.items()}


def test_what_runs_on_the_nodes_that_are_asked_about(emulator: KubeApi, cluster: KubeCluster) -> None:
    web = create_pod(emulator, "web-0", owner="StatefulSet/web")
    create_pod(emulator, "exporter", owner="DaemonSet/exporter")
    create_pod(emulator, "done", owner="Job/old", status={"phase": "Succeeded"})
    create_pod(emulator, "elsewhere", node="n9")

    found = cluster.workloads({"n1", "n2"}, RULES)

    assert names(found) == {"n1": ["web-0"], "n2": []}
    (pod,) = found.nodes["n1"]
    assert (pod.ref, pod.kind, pod.owner) == (web, Class.SERVICE, "StatefulSet default/web")
    assert found.gangs == {}


def test_nothing_is_asked_about_no_node(scripted: Scripted, to_scripted: Connect) -> None:
    assert to_scripted(watch=False).workloads((), RULES) == Workloads()
    assert scripted.seen == []


def test_a_gang_is_seen_whole_wherever_it_runs(emulator: KubeApi, cluster: KubeCluster) -> None:
    emulator.create({"kind": "Namespace", "metadata": {"name": "ml"}})
    for i in range(3):
        create_pod(emulator, f"w-{i}", node=f"n{i}", namespace="ml", labels=JOBSET, owner="Job/llama-w-0")
    create_pod(emulator, "w-old", node="n7", namespace="ml", labels=JOBSET, status={"phase": "Failed"})
    create_pod(emulator, "namesake", node="n8", labels=JOBSET, owner="Job/llama-w-0")  # in another namespace
    create_pod(emulator, "other-job", node="n1", namespace="ml", labels={"batch.kubernetes.io/job-name": "eval"})

    found = cluster.workloads(["n1"], RULES)

    assert [pod.gang for pod in found.nodes["n1"]] == ["Job ml/eval", "JobSet ml/llama"]
    gang = found.gangs["JobSet ml/llama"]
    assert (gang.pods, gang.running, gang.nodes) == (3, 3, frozenset({"n0", "n1", "n2"}))
    assert found.gangs["Job ml/eval"].pods == 1


def test_a_group_that_only_an_annotation_names_is_found_in_its_namespace(
    emulator: KubeApi, cluster: KubeCluster
) -> None:
    for i in range(2):
        create_pod(emulator, f"p-{i}", node=f"n{i}", annotations={"scheduling.k8s.io/group-name": "mnist"})
    create_pod(emulator, "loner", node="n2")

    found = cluster.workloads(["n0"], RULES)

    assert found.gangs["PodGroup default/mnist"].nodes == {"n0", "n1"}


OURS = {"quarantine.gpu/case": "q-1", "job-name": "q-1-burn-in-1"}


def test_a_pod_that_only_says_so_is_no_procedures(emulator: KubeApi, cluster: KubeCluster) -> None:
    for number, case in enumerate(["", "q-2"]):
        labels = {"quarantine.gpu/run": "mine", **({"quarantine.gpu/case": case} if case else {})}
        create_pod(emulator, f"user-{number}", labels=labels, owner="Job/mine")
    assert len(cluster.workloads(["n1"], RULES).nodes["n1"]) == 2


def test_a_procedure_s_own_pod_neither_counts_nor_is_in_a_gang(emulator: KubeApi, cluster: KubeCluster) -> None:
    name = "q-1-burn-in-1"
    create_pod(emulator, "burn-in", labels={**OURS, "quarantine.gpu/run": name}, owner=f"Job/{name}")
    assert cluster.workloads(["n1"], RULES) == Workloads({"n1": ()})


def test_many_nodes_are_asked_about_in_one_list_and_answered_alike(emulator: KubeApi, emulated: World) -> None:
    for i in range(35):
        create_pod(emulator, f"w-{i}", node=f"n{i:02d}", labels=JOBSET if i % 2 else {}, owner="Job/llama-w-0")
    nodes = [f"n{i:02d}" for i in range(35)]
    cluster = emulated.cluster(watch=False, page=10)
    few = [cluster.workloads(nodes[:30], RULES), cluster.workloads(nodes[30:], RULES)]
    emulator.requests.clear()

    many = cluster.workloads(nodes, RULES)

    assert many.nodes == {**few[0].nodes, **few[1].nodes}
    assert many.gangs == few[0].gangs
    assert [r.path.partition("?")[0] for r in emulator.requests] == ["/api/v1/pods"] * 4  # pages


def test_many_gangs_on_few_nodes_are_one_list_too(emulator: KubeApi, cluster: KubeCluster) -> None:
    for i in range(40):
        create_pod(emulator, f"p-{i}", labels={"batch.kubernetes.io/job-name": f"j-{i}"})
    emulator.requests.clear()
    assert len(cluster.workloads(["n1"], RULES).gangs) == 40
    assert len(emulator.requests) == 2


# --- a server that has bad days


def podlist(*pods: Any, token: str = "", version: str = "9") -> dict[str, Any]:
    meta = {"resourceVersion": version} | ({"continue": token} if token else {})
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(pods)}


def unavailable(cluster: KubeCluster) -> str:
    with pytest.raises(ClusterUnavailable) as caught:
        cluster.workloads(["n1"], RULES)
    return str(caught.value)


def test_the_node_and_what_has_not_ended_is_asked_for(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = lambda exchange: exchange.answer(podlist())
    to_scripted(watch=False).workloads(["n1"], RULES)
    url = urlsplit(scripted.seen[0].path)
    assert url.path == "/api/v1/pods"
    assert parse_qs(url.query) == {
        "fieldSelector": ["spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"],
        "limit": ["500"],
    }


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (403, failure(403, "Forbidden", 'User "bob" cannot list'), "grant list on pods"),
        (401, failure(401, "Unauthorized", "Unauthorized"), "token"),
        (500, failure(500, "InternalError", "etcd is down"), "etcd is down"),
        (429, failure(429, "TooManyRequests", "slow down"), "slow down"),
        (200, b"<html>Sign in</html>", "no JSON"),
        (200, {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}, "no PodList"),
        (200, {"kind": "PodList", "metadata": {}, "items": []}, "without a resourceVersion"),
        (200, {"kind": "PodList", "metadata": [], "items": {}}, "no PodList"),
        (200, podlist({"metadata": {"name": "p"}}), "a pod without"),
        (200, podlist(pod_json("p", node="n2", uid="u")), "pods of another node"),
        (404, b"<html>no</html>", "URL is that of an API server"),
    ],
)
def test_what_is_not_seen_is_not_idle(
    scripted: Scripted, to_scripted: Connect, status: int, body: Any, words: str
) -> None:
    scripted.script = lambda exchange: exchange.answer(body, status)
    text = unavailable(to_scripted(watch=False))
    assert words in text
    assert "listing the pods on node n1" in text
    assert len(scripted.seen) == 1


def test_half_an_answer_is_none(scripted: Scripted, to_scripted: Connect) -> None:
    def half(exchange: Exchange) -> None:
        exchange.begin()
        exchange.chunk(b'{"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [')
        exchange.drop()

    scripted.script = half
    assert "broke the connection off" in unavailable(to_scripted(watch=False))


def test_no_answer_ends_in_time(scripted: Scripted, to_scripted: Connect) -> None:
    scripted.script = Exchange.hang
    begun = time.monotonic()
    assert "did not answer in time" in unavailable(to_scripted(watch=False, timeout=0.2))
    assert time.monotonic() - begun < 5


def test_a_gang_that_cannot_be_seen_whole_is_not_seen_at_all(scripted: Scripted, to_scripted: Connect) -> None:
    def script(exchange: Exchange) -> None:
        if "labelSelector" in exchange.path:
            exchange.answer(failure(500, "InternalError", "no"), 500)
        else:
            exchange.answer(podlist(pod_json("w", uid="u", labels=JOBSET)))

    scripted.script = script
    assert "listing the pods of JobSet default/llama" in unavailable(to_scripted(watch=False))
    assert "labelSelector=jobset.sigs.k8s.io/jobset-name%3Dllama" in scripted.seen[1].path
    assert scripted.seen[1].path.startswith("/api/v1/namespaces/default/pods?")


def test_a_list_whose_pages_expire_is_begun_again_once(scripted: Scripted, to_scripted: Connect) -> None:
    first, second = pod_json("a", uid="ua"), pod_json("b", uid="ub")

    def script(exchange: Exchange) -> None:
        if "continue=" not in exchange.path:
            exchange.answer(podlist(first, token="t"))
        elif len(scripted.seen) == 2:
            exchange.answer(failure(410, "Expired", "too old"), 410)
        else:
            exchange.answer(podlist(second))

    scripted.script = script
    assert names(to_scripted(watch=False).workloads(["n1"], RULES)) == {"n1": ["a", "b"]}
    assert len(scripted.seen) == 4


def test_the_whole_question_has_an_end(scripted: Scripted, to_scripted: Connect) -> None:
    """Many answers, each of them in time."""
    scripted.script = lambda exchange: exchange.answer(podlist())
    ticks = iter(range(0, 10_000, 10))
    transport: Transport = to_scripted(watch=False, timeout=5.0)._api.transport
    reader = PodReader(transport, now=lambda: AT, monotonic=lambda: float(next(ticks)))

    with pytest.raises(ClusterUnavailable, match="took too long to tell what runs"):
        reader.workloads([f"n{i}" for i in range(20)], RULES)

    assert len(scripted.seen) == 3  # of 30 s, 10 s each


HEAVY: dict[str, Any] = {
    "labels": JOBSET | {f"team.example/label-{i}": "x" * 20 for i in range(20)},
    "annotations": {f"team.example/annotation-{i}": "x" * 100 for i in range(10)},
}
ENV = [{"name": f"NCCL_OPTION_{i}", "value": "x" * 40} for i in range(60)]


def test_two_thousand_pods(scripted: Scripted, to_scripted: Connect) -> None:
    """The cost of one list of all pods in a large cluster, 8 to 10 KB each."""
    pods = []
    for i in range(2000):
        pod = pod_json(f"w-{i}", node=f"n{i // 8}", uid=f"u-{i}", **HEAVY, status=running("2026-11-29T11:00:00Z"))
        pod["metadata"]["ownerReferences"] = [owner_ref("Job", "llama-w-0")]
        pod["spec"]["containers"] = [{"name": "c", "image": "x", "env": ENV}]
        pods.append(pod)
    starts = range(0, 2000, 500)
    pages = [json.dumps(podlist(*pods[s : s + 500], token=str(s + 500) if s < 1500 else "")).encode() for s in starts]

    def script(exchange: Exchange) -> None:
        _, _, token = exchange.path.partition("continue=")
        exchange.answer(pages[int(token.partition("&")[0] or 0) // 500])

    scripted.script = script
    cluster = to_scripted(watch=False, timeout=30.0)
    begun = time.monotonic()

    found = cluster.workloads([f"n{i}" for i in range(40)], RULES)

    took, size = time.monotonic() - begun, sum(map(len, pages)) / 2000
    print(f"2000 pods of {size:.0f} B: {took:.2f} s")
    assert sum(map(len, found.nodes.values())) == 320
    assert found.gangs["JobSet default/llama"].pods == 2000
    assert 7000 < size < 10_000
    assert took < 60  # 1 to 2 s; a loaded machine takes many times that


def test_a_pod_is_told_from_its_successor(emulator: KubeApi, cluster: KubeCluster) -> None:
    earlier = create_pod(emulator, "web-0", owner="StatefulSet/web")
    emulator.delete("Pod", "web-0")
    again = comes_back(emulator, earlier)
    (pod,) = cluster.workloads(["n1"], RULES).nodes["n1"]
    assert pod.ref == again != earlier
