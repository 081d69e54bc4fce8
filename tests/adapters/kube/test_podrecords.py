"""A pod's JSON as a record: what counts, of which gang it is, whether it runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.adapters.kube.podrecords import gang_record, pod_record
from quarantine.adapters.kube.records import Garbled
from quarantine.core.case import PodRef
from quarantine.core.workload import Class, Gang, Pod, PodRules
from tests.adapters.kube.podworld import pod_json, running
from tests.adapters.kube.support import AT

RULES = PodRules(checkpoint="team.example/checkpoint")
JOBSET = {"jobset.sigs.k8s.io/jobset-name": "llama"}
JOB = {"batch.kubernetes.io/job-name": "llama-w-0", "job-name": "llama-w-0"}


def record(rules: PodRules = RULES, **parts: Any) -> Pod | None:
    seen = pod_record(pod_json("p", uid="u", **parts), rules, AT)
    return seen.pod if seen else None


def kept(rules: PodRules = RULES, **parts: Any) -> Pod:
    pod = record(rules, **parts)
    assert pod is not None
    return pod


def test_a_service_s_pod() -> None:
    assert kept(owner="ReplicaSet/web-5d", namespace="inference", priority=7) == Pod(
        ref=PodRef("inference", "p", "u"),
        node="n1",
        kind=Class.SERVICE,
        owner="ReplicaSet inference/web-5d",
        priority=7,
        started_at=datetime(2026, 11, 29, 11, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "parts",
    [
        {"owner": "DaemonSet/exporter"},
        {"annotations": {"kubernetes.io/config.mirror": "h"}, "owner": "Node/n1"},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {
            "labels": {"quarantine.gpu/run": "q-1-burn-in-1", "quarantine.gpu/case": "q-1"},
            "owner": "Job/q-1-burn-in-1",
        },
    ],
)
def test_what_is_left_where_it_is(parts: dict[str, Any]) -> None:
    assert record(**parts) is None


@pytest.mark.parametrize("owner", ["Job/other", "ReplicaSet/q-1-burn-in-1", ""])
def test_a_label_alone_does_not_hide_a_pod(owner: str) -> None:
    assert record(labels={"quarantine.gpu/run": "q-1-burn-in-1"}, owner=owner) is not None


@pytest.mark.parametrize(
    "parts", [{"status": {"phase": "Pending"}}, {"status": {"phase": "Unknown"}}, {"deleted": True}]
)
def test_what_has_not_ended_counts_though_it_does_not_run(parts: dict[str, Any]) -> None:
    pod = kept(**parts)
    assert not pod.running
    assert pod.terminating is ("deleted" in parts)


@pytest.mark.parametrize(
    ("started", "runs", "youngest"),
    [
        (("2026-11-29T11:00:00Z",), True, 11),
        (("2026-11-29T11:00:00Z", "2026-11-29T11:30:00Z"), True, 11.5),
        (("", "2026-11-29T11:30:00Z"), True, 11.5),
        (("",), False, 10),  # a crash loop: when the pod began is all that is known
        ((), False, 10),
        (("garbage",), True, 10),
    ],
)
def test_it_runs_while_a_container_does_and_a_restart_in_place_moves_its_start(
    started: tuple[str, ...], runs: bool, youngest: float
) -> None:
    pod = kept(status=running(*started))
    assert pod.running is runs
    assert pod.started_at == datetime(2026, 11, 29, tzinfo=UTC) + timedelta(hours=youngest)


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        (JOBSET | JOB, "JobSet ml/llama"),
        (JOB, "Job ml/llama-w-0"),
        ({"job-name": "old"}, "Job ml/old"),
        ({"training.kubeflow.org/job-name": "bert", "job-name": "bert-launcher"}, "Kubeflow ml/bert"),
        ({"volcano.sh/job-name": "v"}, "Volcano ml/v"),
        ({"kueue.x-k8s.io/pod-group-name": "g"}, "Kueue ml/g"),
        ({"scheduling.x-k8s.io/pod-group": "g"}, "PodGroup ml/g"),
        (
            {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "3"}
            | {"kueue.x-k8s.io/pod-group-name": "leaderworkerset-vllm-3-fd0f7"},
            "LeaderWorkerSet ml/vllm/3",
        ),
        ({"app": "web"}, ""),
        ({"jobset.sigs.k8s.io/jobset-name": ""}, ""),
    ],
)
def test_known_gangs_the_widest_first(labels: dict[str, str], key: str) -> None:
    owner = "Job/j" if "job-name" in labels else "Custom/c"
    pod = kept(labels=labels, namespace="ml", owner=owner)
    assert pod.gang == key
    assert pod.kind is (Class.TRAINING if key or owner == "Job/j" else Class.SERVICE)


def test_the_fleet_s_own_labels_win() -> None:
    rules = PodRules(gang_labels=("other.example/none", "team.example/run"))
    pod = kept(rules, labels=JOBSET | {"team.example/run": "r7"}, namespace="ml")
    assert pod.gang == "team.example/run ml/r7"


def test_an_old_job_label_counts_only_on_a_job_s_pod() -> None:
    assert kept(labels={"job-name": "x"}, owner="ReplicaSet/web").gang == ""


@pytest.mark.parametrize("owner", ["StatefulSet/web", "ReplicaSet/web"])
def test_the_replicas_of_a_service_that_kueue_admits_together_are_no_gang(owner: str) -> None:
    pod = kept(labels={"kueue.x-k8s.io/pod-group-name": "web"}, owner=owner)
    assert (pod.gang, pod.kind) == ("", Class.SERVICE)


@pytest.mark.parametrize(("value", "gang"), [("mnist", "PodGroup default/mnist"), ("podgroup-5c1e", "")])
def test_volcano_s_annotation_names_a_group_unless_volcano_made_it_up(value: str, gang: str) -> None:
    assert kept(annotations={"scheduling.k8s.io/group-name": value}, owner="ReplicaSet/web").gang == gang


def test_training_by_the_fleet_s_labels_all_of_them() -> None:
    rules = PodRules(training={"kind": "train", "tier": "gold"})
    assert kept(rules, labels={"kind": "train", "tier": "gold"}).kind is Class.TRAINING
    assert kept(rules, labels={"kind": "train"}).kind is Class.SERVICE
    assert kept(owner="Job/j").kind is Class.TRAINING


NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-29T11:00:00Z", NOON - timedelta(hours=1)),
        ("2026-11-29t12:00:00.123456789+01:00", datetime(2026, 11, 29, 11, 0, 0, 123456, tzinfo=UTC)),
        (str(int(NOON.timestamp())), NOON),
        (f" {NOON.timestamp() + 240:.3f} ", NOON + timedelta(minutes=4)),
        (str(int(NOON.timestamp()) + 600), None),  # yet to come
        (str(int(NOON.timestamp()) * 1000), None),  # milliseconds
        ("2026-11-29T11:00:00", None),  # nobody's time
        ("2026-11-29", None),
        ("2026-02-30T11:00:00Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("step 1200", None),
        ("٣٣٣٣٣٣٣٣٣٣", None),
        ("", None),
        ("1e9", None),
        (None, None),
    ],
)
def test_when_a_checkpoint_was_written(text: str | None, at: datetime | None) -> None:
    assert kept(annotations={"team.example/checkpoint": text} if text is not None else {}).checkpoint_at == at


@pytest.mark.parametrize(
    ("toleration", "may"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists", "key": "quarantine.gpu/suspect"}, True),
        ({"key": "quarantine.gpu/suspect", "operator": "Equal", "value": "q-1", "effect": "NoSchedule"}, True),
        ({"key": "quarantine.gpu/suspect", "effect": "PreferNoSchedule"}, False),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, False),
        ({"operator": "Equal"}, False),
    ],
)
def test_whether_it_may_come_back_to_a_suspect_machine(toleration: dict[str, str], may: bool) -> None:
    assert kept(tolerations=[{"key": "other"}, toleration]).tolerates is may


def test_a_pod_that_says_nothing_of_itself_is_garbled() -> None:
    bare: tuple[object, ...] = (None, [], {}, {"metadata": {"name": "p", "namespace": "n"}})
    for raw in bare:
        with pytest.raises(Garbled):
            pod_record(raw, RULES, AT)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARTS = ("ownerReferences", "labels", "annotations", "deletionTimestamp")
SPEC = ("nodeName", "priority", "tolerations")
STATUS = ("phase", "startTime", "containerStatuses")


@given(
    st.dictionaries(st.sampled_from(PARTS), JSON),
    st.dictionaries(st.sampled_from(SPEC), JSON) | JSON,
    st.dictionaries(st.sampled_from(STATUS), JSON) | JSON,
)
def test_no_json_breaks_the_reading(meta: dict[str, Any], spec: Any, status: Any) -> None:
    raw = {"metadata": meta | {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status}
    seen = pod_record(raw, RULES, AT)
    assert seen is None or seen.pod.ref == PodRef("n", "p", "u")


class TestGangs:
    def of(self, *pods: Pod) -> Gang:
        return gang_record("g", pods)

    def test_a_gang_is_counted_wherever_it_runs(self) -> None:
        down = kept(labels=JOBSET, node="n2", status=running(""))
        up = kept(labels=JOBSET, status=running("2026-11-29T11:40:00Z"))
        pending = kept(labels=JOBSET, node="", status={"phase": "Pending"})
        youngest = datetime(2026, 11, 29, 11, 40, tzinfo=UTC)
        members = frozenset(pod.ref for pod in (down, up, pending))
        assert self.of(down, up, pending) == Gang("g", 3, 1, frozenset({"n1", "n2"}), None, youngest, members)

    def test_the_checkpoint_of_the_whole_is_the_oldest_where_all_tell(self) -> None:
        early, late = (
            kept(annotations={"team.example/checkpoint": f"2026-11-29T{hour}:00:00Z"}) for hour in ("09", "10")
        )
        silent = kept()
        assert self.of(early, late).checkpoint_at == early.checkpoint_at
        assert self.of(early, late, silent).checkpoint_at == late.checkpoint_at
        assert self.of(silent).checkpoint_at is None

    def test_no_pods_are_a_gang_that_is_gone(self) -> None:
        assert self.of() == Gang("g")
