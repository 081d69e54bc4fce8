"""Procedures as Jobs, over real HTTP: made once, pinned, bounded, looked at, stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from quarantine.adapters.kube.jobs import KubeJobs
from quarantine.core.case import Purpose, Run, RunOutcome
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, Refused
from quarantine.core.procedure import JobTemplate, ProcedureSpec
from quarantine.core.workload import PodRules, RunStatus
from quarantine.ports import Order
from quarantine.sandbox.kubeapi import KubeApi, Rule, User, serve
from tests.adapters.kube.podworld import create_pod
from tests.adapters.kube.scripted import Exchange, Scripted
from tests.adapters.kube.support import AT, failure
from tests.adapters.kube.world import World

Connect = Callable[..., KubeCluster]
RUN = Run("q-1-burn-in-1", Purpose.BURN_IN, "burn-in", AT, AT + timedelta(hours=1))
POD: dict[str, Any] = {
    "hostPID": True,
    "initContainers": [{"name": "i", "image": "x", "args": ["{case}"]}],
    "containers": [
        {
            "name": "c",
            "image": "{node}",
            "command": ["diag", "--host={node}"],
            "args": ["--out", "/evidence/{case}/{run}/", "{provider_id}", "${HOME}"],
            "env": [
                {"name": "RUN", "value": "{run}"},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "{node}"}}},
            ],
            "resources": {"limits": {"nvidia.com/gpu": 8}},
            "fieldOfALaterKubernetes": {"kept": True},
        }
    ],
}
SPEC = ProcedureSpec(description="d", job=JobTemplate(pod=POD, tries=2))
COMMAND = ProcedureSpec(description="d", command=("true",))


def order(run: Run = RUN, spec: ProcedureSpec = SPEC, case: str = "q-1") -> Order:
    return Order(run, spec, case, "gpu-1", "aws:///z/i-1", "ec2-1", "quarantine.gpu/suspect")


@pytest.fixture
def jobs(emulator: KubeApi, emulated: World) -> KubeJobs:
    emulator.create({"kind": "Namespace", "metadata": {"name": "quarantine"}})
    return emulated.cluster(watch=False).jobs


def get(api: KubeApi, name: str = RUN.name) -> dict[str, Any]:
    return api.get("Job", name, "quarantine")


def look(jobs: KubeJobs, *runs: Run) -> dict[str, RunStatus]:
    return dict(jobs.look([(run, SPEC) for run in runs or (RUN,)]))


def test_the_job_is_pinned_bounded_and_tolerates_our_taint_alone(emulator: KubeApi, jobs: KubeJobs) -> None:
    jobs.start(order())

    job = get(emulator)
    labels = {"quarantine.gpu/case": "q-1", "quarantine.gpu/run": "q-1-burn-in-1"}
    assert job["metadata"]["labels"] == labels
    assert job["metadata"]["annotations"] == {"quarantine.gpu/node": "gpu-1", "quarantine.gpu/procedure": "burn-in"}
    spec = job["spec"]
    assert {key: spec[key] for key in ("parallelism", "completions", "backoffLimit")} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 1,
    }
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (3600, 7 * 86400)
    assert spec["template"]["metadata"]["labels"].items() >= labels.items()
    pod = spec["template"]["spec"]
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
    assert pod["tolerations"] == [
        {"key": "quarantine.gpu/suspect", "operator": "Equal", "value": "q-1", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert (pod["restartPolicy"], pod["hostPID"], "nodeName" in pod) == ("Never", True, False)


def test_placeholders_are_filled_in_where_programs_read_them(emulator: KubeApi, jobs: KubeJobs) -> None:
    before = repr(POD)

    jobs.start(order())

    pod = get(emulator)["spec"]["template"]["spec"]
    assert pod["initContainers"][0]["args"] == ["q-1"]
    (container,) = pod["containers"]
    assert container["image"] == "{node}"
    assert container["command"] == ["diag", "--host=gpu-1"]
    assert container["args"] == ["--out", "/evidence/q-1/q-1-burn-in-1/", "{provider_id}", "${HOME}"]
    assert container["env"] == [{"name": "RUN", "value": "q-1-burn-in-1"}, POD["containers"][0]["env"][1]]
    assert container["fieldOfALaterKubernetes"] == {"kept": True}
    assert repr(POD) == before


def test_one_that_is_there_already_is_success_and_not_made_again(emulator: KubeApi, jobs: KubeJobs) -> None:
    jobs.start(order())
    uid = get(emulator)["metadata"]["uid"]
    jobs.start(order())
    assert get(emulator)["metadata"]["uid"] == uid
    assert len(emulator.list("Job")) == 1


@pytest.mark.parametrize("labels", [{}, {"quarantine.gpu/case": "q-2"}])
def test_another_s_job_of_this_name_is_not_ours(emulator: KubeApi, jobs: KubeJobs, labels: dict[str, str]) -> None:
    meta = {"name": RUN.name, "namespace": "quarantine", "labels": labels}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    emulator.create({"kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}})

    with pytest.raises(ClusterRefused, match="which is none of case q-1"):
        jobs.start(order())
    with pytest.raises(ClusterRefused, match="find out whose it is"):
        jobs.stop(RUN, SPEC)

    assert look(jobs) == {}
    assert len(emulator.list("Job")) == 1


def test_it_is_bounded_by_what_is_left_of_its_time(emulator: KubeApi, jobs: KubeJobs) -> None:
    jobs.start(order(replace(RUN, until=AT + timedelta(seconds=90.2))))
    assert get(emulator)["spec"]["activeDeadlineSeconds"] == 91
    with pytest.raises(Refused, match="time of late was up"):
        jobs.start(order(replace(RUN, name="late", until=AT)))


def test_how_far_it_has_come(emulator: KubeApi, jobs: KubeJobs) -> None:
    assert look(jobs) == {}
    runs = [replace(RUN, name=f"q-1-burn-in-{n}") for n in range(1, 6)]
    for run in runs:
        jobs.start(order(run))
    emulator.patch_merge("Job", runs[1].name, {"status": {"active": 1, "ready": 1}}, "quarantine", subresource="status")
    emulator.end_job(runs[2].name, "quarantine")
    emulator.end_job(runs[3].name, "quarantine", failed="BackoffLimitExceeded", message="it failed twice")
    emulator.end_job(runs[4].name, "quarantine", failed="DeadlineExceeded")

    found = look(jobs, *runs, replace(RUN, name="unknown"))

    assert [found[run.name].outcome.value for run in runs] == ["running", "running", "succeeded", "failed", "late"]
    assert "unknown" not in found
    assert found[runs[0].name].message == "Its pod does not run yet."
    assert found[runs[1].name].message == ""
    assert found[runs[3].name].message == "it failed twice"
    ended = found[runs[2].name].ended_at
    assert ended is not None
    assert ended.tzinfo is UTC
    assert ended <= datetime.now(UTC)  # noqa: TID251 - the emulator's clock


@pytest.mark.parametrize(
    "conditions",
    [
        [{"type": "Failed", "status": "False"}],
        [{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}],
        [{"type": "SuccessCriteriaMet", "status": "True"}],
        [{"type": "Suspended", "status": "True"}],
        "garbage",
    ],
)
def test_what_is_not_final_runs_still(scripted: Scripted, to_scripted: Connect, conditions: Any) -> None:
    meta = {"name": RUN.name, "labels": {"quarantine.gpu/run": RUN.name}}
    items: list[Any] = [{"metadata": meta, "status": {"conditions": conditions}}, None, {"metadata": []}]
    body = {"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": items}
    scripted.script = lambda exchange: exchange.answer(body)
    assert look(to_scripted(watch=False).jobs)[RUN.name].outcome is RunOutcome.RUNNING


def test_one_request_tells_of_all_that_run_in_a_namespace(scripted: Scripted, to_scripted: Connect) -> None:
    body = {"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": []}
    scripted.script = lambda exchange: exchange.answer(body)
    elsewhere = ProcedureSpec(description="d", job=JobTemplate(pod=POD, namespace="vendor"))
    jobs = to_scripted(watch=False).jobs

    assert jobs.look([(RUN, SPEC), (replace(RUN, name="b"), SPEC), (replace(RUN, name="c"), elsewhere)]) == {}
    assert jobs.look([]) == {}

    assert [seen.path.partition("&")[0] for seen in scripted.seen] == [
        f"/apis/batch/v1/namespaces/{namespace}/jobs?labelSelector=quarantine.gpu/run"
        for namespace in ("quarantine", "vendor")
    ]


def test_stopping_takes_it_away_with_its_pods_once(emulator: KubeApi, jobs: KubeJobs) -> None:
    jobs.start(order())
    meta = get(emulator)["metadata"]
    pod = create_pod(emulator, "burn-in-x", namespace="quarantine", labels={"quarantine.gpu/run": RUN.name})
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": RUN.name, "uid": meta["uid"], "controller": True}
    emulator.patch_merge("Pod", pod.name, {"metadata": {"ownerReferences": [reference]}}, "quarantine")

    jobs.stop(RUN, SPEC)
    jobs.stop(RUN, SPEC)

    assert emulator.list("Job") == emulator.list("Pod") == []


def test_one_that_has_ended_keeps_its_logs(emulator: KubeApi, jobs: KubeJobs) -> None:
    jobs.start(order())
    emulator.end_job(RUN.name, "quarantine", failed="BackoffLimitExceeded")
    jobs.stop(RUN, SPEC)
    assert len(emulator.list("Job")) == 1


def test_what_it_made_is_no_workload_of_the_machine(emulator: KubeApi, emulated: World, jobs: KubeJobs) -> None:
    jobs.start(order())
    labels = get(emulator)["spec"]["template"]["metadata"]["labels"]
    create_pod(emulator, "burn-in-x", node="gpu-1", namespace="quarantine", labels=labels, owner=f"Job/{RUN.name}")
    assert emulated.cluster(watch=False).workloads(["gpu-1"], PodRules()).nodes == {"gpu-1": ()}


def test_a_namespace_that_is_not_there_is_named(emulated: World) -> None:
    with pytest.raises(
        ClusterRefused, match="knows no namespace quarantine while creating job quarantine/q-1-burn-in-1; create it"
    ):
        emulated.cluster(watch=False).jobs.start(order())


def test_what_the_server_finds_invalid_is_told_in_its_words(jobs: KubeJobs) -> None:
    with pytest.raises(ClusterRefused, match="RFC 1123"):
        jobs.start(order(replace(RUN, name="Not_a_name")))


def test_a_command_is_none_of_its(jobs: KubeJobs) -> None:
    with pytest.raises(Refused, match="is no Job"):
        jobs.start(order(spec=COMMAND))


@pytest.fixture
def poor(emulator: KubeApi, tmp_path: Path, connected: Connect) -> Iterator[KubeJobs]:
    """Somebody with no right to Jobs at all."""
    emulator.gate.users = (User("poor", "t0ken", rules=(Rule(("get", "list"), ("nodes",)),)),)
    with serve(emulator) as server:
        yield connected(server.write_kubeconfig(tmp_path / "kubeconfig", user="poor"), watch=False).jobs


def test_a_missing_right_is_named_and_what_cannot_be_seen_is_not_lost(poor: KubeJobs) -> None:
    with pytest.raises(ClusterRefused, match=r"grant create on jobs\.batch"):
        poor.start(order())
    with pytest.raises(ClusterUnavailable, match=r"grant list on jobs\.batch"):
        look(poor)
    with pytest.raises(ClusterRefused, match=r"grant get on jobs\.batch"):
        poor.stop(RUN, SPEC)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, failure(500, "InternalError", "etcd is down")),
        (404, b"<html>no such page</html>"),
        (200, b"<html>Sign in</html>"),
        (200, b'{"kind": "JobList", "it'),
    ],
)
def test_bad_days_are_told_and_decide_nothing(scripted: Scripted, to_scripted: Connect, status: int, body: Any) -> None:
    scripted.script = lambda exchange: exchange.answer(body, status)
    jobs = to_scripted(watch=False).jobs
    for ask in (lambda: jobs.start(order()), lambda: look(jobs), lambda: jobs.stop(RUN, SPEC)):
        scripted.seen.clear()
        with pytest.raises(ClusterUnavailable):
            ask()
        assert len(scripted.seen) == 1


@pytest.mark.parametrize("script", [Exchange.hang, Exchange.drop])
def test_no_answer_leaves_it_open(scripted: Scripted, to_scripted: Connect, script: Callable[[Exchange], None]) -> None:
    scripted.script = script
    with pytest.raises(ClusterUnavailable):
        to_scripted(watch=False, timeout=0.3).jobs.start(order())


def test_the_job_that_is_stopped_is_the_one_that_was_read(scripted: Scripted, to_scripted: Connect) -> None:
    meta = {"name": RUN.name, "uid": "u-1", "labels": {"quarantine.gpu/run": RUN.name}}
    words = "the UID in the precondition (u-1) does not match the UID in record (u-2)"

    def script(exchange: Exchange) -> None:
        if exchange.seen.command == "GET":
            exchange.answer({"kind": "Job", "metadata": meta})
        else:
            exchange.answer(failure(409, "Conflict", words, kind="Job"), 409)

    scripted.script = script
    to_scripted(watch=False).jobs.stop(RUN, SPEC)
    assert scripted.seen[1].command == "DELETE"
    assert scripted.seen[1].body == {"propagationPolicy": "Background", "preconditions": {"uid": "u-1"}}
