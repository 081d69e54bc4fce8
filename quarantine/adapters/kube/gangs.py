"""Which gang a pod is of: by the labels that those who make gangs put on pods, and by the fleet's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quarantine.adapters.kube.fields import entries, mapping, text_at
from quarantine.core.workload import PodRules


@dataclass(frozen=True, slots=True)
class _Sign:
    """What makes pods of one namespace a gang: these labels, with the same values. The first one names it."""

    kind: str  # for people
    labels: tuple[str, ...]


# The widest first: the pods of a JobSet carry a Job's label too, and are one gang as the JobSet's. Of a LeaderWorkerSet
# each group is one: its replicas live on without one another.
_SIGNS: Final = (
    _Sign("JobSet", ("jobset.sigs.k8s.io/jobset-name",)),
    _Sign("LeaderWorkerSet", ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index")),
    _Sign("Kubeflow", ("training.kubeflow.org/job-name",)),  # PyTorchJob, MPIJob and their kin
    _Sign("Volcano", ("volcano.sh/job-name",)),
    _Sign("Kueue", ("kueue.x-k8s.io/pod-group-name",)),
    _Sign("PodGroup", ("scheduling.x-k8s.io/pod-group",)),  # of the scheduler plugins
    _Sign("Job", ("batch.kubernetes.io/job-name",)),
    _Sign("Job", ("job-name",)),  # before Kubernetes 1.27; others use the word as well: see _counts
)
# Volcano's for pods without a Job of its own. It makes a group `podgroup-…` for every other owner too, Deployments
# included: that is none.
_GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
_MADE_UP: Final = "podgroup-"


@dataclass(frozen=True, slots=True)
class GangSign:
    """A pod's gang. `labels` select its pods in the namespace; empty where only the annotation of each one tells."""

    key: str  # `JobSet training/llama-3`
    namespace: str
    labels: tuple[tuple[str, str], ...] = ()


def gang_of(pod: Mapping[str, Any], rules: PodRules) -> GangSign | None:
    """The gang that a pod says it is of; None where it is of none. The fleet's own labels win."""
    meta = mapping(pod.get("metadata"))
    labels, namespace = mapping(meta.get("labels")), text_at(meta, "namespace")
    signs = (*(_Sign(label, (label,)) for label in rules.gang_labels), *_SIGNS)
    for sign in signs:
        values = tuple(text_at(labels, label) for label in sign.labels)
        if not all(values) or not _counts(sign, pod):
            continue
        return GangSign(
            f"{sign.kind} {namespace}/{'/'.join(values)}", namespace, tuple(zip(sign.labels, values, strict=True))
        )
    group = text_at(mapping(meta.get("annotations")), _GROUP_ANNOTATION)
    if group and not group.startswith(_MADE_UP):
        return GangSign(f"PodGroup {namespace}/{group}", namespace)
    return None


def _counts(sign: _Sign, pod: Mapping[str, Any]) -> bool:
    """Kueue calls the replicas of a StatefulSet a group as well, for admission: they live on without one another."""
    if sign.kind == "Kueue":
        return not text_at(owner_of(pod), "apiVersion").startswith("apps/")
    return sign.labels != ("job-name",) or of_job(pod)


def owner_of(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to the controller that makes this pod again; empty where nothing does."""
    owners = entries(mapping(pod.get("metadata")).get("ownerReferences"))
    return next((owner for owner in owners if owner.get("controller") is True), {})


def of_job(pod: Mapping[str, Any]) -> bool:
    """Whether a Kubernetes Job makes this pod."""
    owner = owner_of(pod)
    return owner.get("kind") == "Job" and text_at(owner, "apiVersion").startswith("batch/")
