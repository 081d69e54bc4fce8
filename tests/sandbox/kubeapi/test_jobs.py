"""Jobs: what the server makes of them, and what is left when they are deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from quarantine.sandbox.kubeapi import ApiError, KubeApi

JOBS = "/apis/batch/v1/namespaces/default/jobs"
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}


def job(name: str = "j", pod: Any = POD, **spec: Any) -> dict[str, Any]:
    labels = {"team": "a"}
    return {"kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": {"template": {"spec": pod}} | spec}


def owned(api: KubeApi, of: dict[str, Any], name: str = "j-1") -> None:
    meta = of["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    api.create({"kind": "Pod", "metadata": {"name": name, "ownerReferences": [owner]}, "spec": POD})


def test_a_job_is_given_defaults_a_selector_and_labels_for_its_pods(api: KubeApi) -> None:
    made = api.create(job())
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert {key: spec[key] for key in ("parallelism", "completions", "backoffLimit", "suspend")} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "suspend": False,
    }
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "controller-uid": uid,
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
    }
    assert "completions" not in api.create(job("wide", parallelism=4))["spec"]


@pytest.mark.parametrize(
    ("pod", "spec", "words"),
    [
        ({"containers": POD["containers"]}, {}, 'restartPolicy: Required value: valid values: "OnFailure", "Never"'),
        (POD | {"restartPolicy": "Always"}, {}, 'Unsupported value: "Always"'),
        ({"restartPolicy": "Never"}, {}, "spec.template.spec.containers: Required value"),
        (POD, {"backoffLimit": -1}, "must be greater than or equal to 0"),
    ],
)
def test_a_job_is_validated(api: KubeApi, pod: Any, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError) as caught:
        api.create(job(pod=pod, **spec))
    assert caught.value.code == 422
    assert words in caught.value.message


def test_jobs_are_listed_by_label(api: KubeApi, http: Any) -> None:
    api.create(job())
    api.create({"kind": "Job", "metadata": {"name": "other"}, "spec": {"template": {"spec": POD}}})
    answer = http("GET", f"{JOBS}?labelSelector=team").json()
    assert (answer["kind"], [item["metadata"]["name"] for item in answer["items"]]) == ("JobList", ["j"])


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("", ["j-1"]),  # the server's default for batch/v1 leaves the pods
        ("?propagationPolicy=Orphan", ["j-1"]),
        ("?propagationPolicy=Background", []),
    ],
)
def test_what_becomes_of_its_pods(api: KubeApi, http: Any, query: str, left: list[str]) -> None:
    owned(api, api.create(job()))

    assert http("DELETE", f"{JOBS}/j{query}").status_code == 200

    pods = api.list("Pod")
    assert [pod["metadata"]["name"] for pod in pods] == left
    assert all("ownerReferences" not in pod["metadata"] for pod in pods)


def test_a_dry_run_orphans_nobody(api: KubeApi, http: Any) -> None:
    owned(api, api.create(job()))
    http("DELETE", f"{JOBS}/j?dryRun=All")
    assert api.get("Pod", "j-1")["metadata"]["ownerReferences"]


def test_a_job_of_another_uid_is_not_deleted(api: KubeApi, http: Any) -> None:
    api.create(job())
    answer = http("DELETE", f"{JOBS}/j", {"preconditions": {"uid": "an-earlier-one"}})
    assert answer.status_code == 409
    assert "UID in the precondition" in answer.json()["message"]


@pytest.mark.parametrize(("failed", "kind"), [("", "Complete"), ("DeadlineExceeded", "Failed")])
def test_a_job_ends_as_a_test_says(api: KubeApi, failed: str, kind: str) -> None:
    api.create(job())
    status = api.end_job("j", failed=failed)["status"]
    [told] = status["conditions"]
    assert (told["type"], told["status"]) == (kind, "True")
    assert ("completionTime" in status) is (kind == "Complete")


def test_stock_kubectl_makes_and_deletes_a_job(api: KubeApi, kubectl: Callable[..., Any]) -> None:
    done = kubectl("create", "-f", "-", stdin=json.dumps(job("k") | {"apiVersion": "batch/v1"}))
    assert (done.returncode, done.stdout) == (0, "job.batch/k created\n"), done.stderr
    owned(api, api.get("Job", "k"), "k-1")
    done = kubectl("delete", "job", "k")
    assert done.returncode == 0, done.stderr
    assert api.list("Pod") == []
