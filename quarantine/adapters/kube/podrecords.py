"""Kubernetes' pods → what the drain must know of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from quarantine.adapters.kube.fields import entries, mapping, moment, text_at
from quarantine.adapters.kube.gangs import GangSign, gang_of, of_job, owner_of
from quarantine.adapters.kube.records import Garbled
from quarantine.core.case import PodRef, Purpose
from quarantine.core.marks import taint_key
from quarantine.core.workload import Class, Gang, Pod, PodRules

_MIRROR: Final = "kubernetes.io/config.mirror"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_SECONDS: Final = re.compile(r"\d{9,10}(\.\d{1,9})?", re.ASCII)  # milliseconds have more digits
_RUN: Final = re.compile(rf"({'|'.join(Purpose)})-\d+", re.ASCII)
_SKEW: Final = timedelta(minutes=5)  # a checkpoint of a later time than this ahead is garbage


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod that counts, with how its gang is found."""

    pod: Pod
    sign: GangSign | None


def run_label(prefix: str) -> str:
    """The label of our procedures' Jobs and pods that says which run they are."""
    return f"{prefix}/run"


def pod_record(raw: object, rules: PodRules, now: datetime) -> SeenPod | None:
    """A pod as a record; None for one that is left where it is: of a DaemonSet, a mirror pod, one that has ended, and
    those of our own procedures, which are stopped and never evicted.

    Raises `Garbled` where it has no name, namespace or uid. `now` (aware) is when it was read.
    """
    obj = mapping(raw)
    meta, spec, status = (mapping(obj.get(part)) for part in ("metadata", "spec", "status"))
    ref = PodRef(*(text_at(meta, key) for key in ("namespace", "name", "uid")))
    if not (ref.namespace and ref.name and ref.uid):
        raise Garbled("a pod without a namespace, a name or a uid")
    if _stays(obj, meta, status, rules):
        return None
    sign, owner = gang_of(obj, rules), owner_of(obj)
    terminating = meta.get("deletionTimestamp") is not None
    priority, started = spec.get("priority"), _started(status)
    pod = Pod(
        ref=ref,
        node=sys.intern(text_at(spec, "nodeName")),
        kind=Class.TRAINING if sign or of_job(obj) or _labelled(meta, rules) else Class.SERVICE,
        gang=sys.intern(sign.key) if sign else "",
        owner=sys.intern(f"{text_at(owner, 'kind')} {ref.namespace}/{text_at(owner, 'name')}") if owner else "",
        priority=priority if isinstance(priority, int) else 0,
        running=text_at(status, "phase") == "Running" and not terminating and bool(started),
        terminating=terminating,
        started_at=max((at for at in started if at), default=moment(status.get("startTime"))),
        checkpoint_at=_checkpoint(mapping(meta.get("annotations")).get(rules.checkpoint), now),
        created_at=moment(meta.get("creationTimestamp")),
        tolerates=any(_tolerates(t, taint_key(rules.prefix)) for t in entries(spec.get("tolerations"))),
    )
    return SeenPod(pod, sign)


def gang_record(key: str, of: Sequence[Pod]) -> Gang:
    """A gang, of all its pods that exist and have not ended."""
    told = [pod.checkpoint_at for pod in of if pod.checkpoint_at is not None]
    return Gang(
        key=key,
        pods=len(of),
        running=sum(pod.running for pod in of),
        nodes=frozenset(pod.node for pod in of if pod.node),
        members=frozenset(pod.ref for pod in of),
        checkpoint_at=(min(told) if len(told) == len(of) else max(told)) if told else None,
        youngest=max((pod.started_at for pod in of if pod.running and pod.started_at), default=None),
    )


def _stays(pod: Mapping[str, Any], meta: Mapping[str, Any], status: Mapping[str, Any], rules: PodRules) -> bool:
    owner = owner_of(pod)
    return (
        text_at(status, "phase") in _ENDED
        or (owner.get("kind") == "DaemonSet" and text_at(owner, "apiVersion").startswith("apps/"))
        or _MIRROR in mapping(meta.get("annotations"))
        or (of_job(pod) and _of_a_run(mapping(meta.get("labels")), owner, rules.prefix))
    )


def _of_a_run(labels: Mapping[str, Any], owner: Mapping[str, Any], prefix: str) -> bool:
    """Whether it is of one of our procedures' Jobs: a label alone makes nobody's pod invisible to the drain."""
    run, case = (text_at(labels, key) for key in (run_label(prefix), f"{prefix}/case"))
    return bool(case) and run == text_at(owner, "name") and bool(_RUN.fullmatch(run.removeprefix(f"{case}-")))


def _labelled(meta: Mapping[str, Any], rules: PodRules) -> bool:
    labels = mapping(meta.get("labels"))
    return bool(rules.training) and all(labels.get(key) == value for key, value in rules.training.items())


def _started(status: Mapping[str, Any]) -> list[datetime | None]:
    """Of each container that runs, when it started: a restart in place moves it. None where it does not say."""
    running = (mapping(c.get("state")).get("running") for c in entries(status.get("containerStatuses")))
    return [moment(state.get("startedAt")) for state in running if isinstance(state, dict)]


def _checkpoint(value: object, now: datetime) -> datetime | None:
    """The time in an annotation: RFC 3339, or seconds since 1970. None for anything that cannot be one."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    at = moment(text)
    if at is None and _SECONDS.fullmatch(text):
        at = datetime.fromtimestamp(float(text), UTC)
    return at if at is not None and at <= now + _SKEW else None


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    """Whether it may be of our taint. Which case the taint names is not known here, so any value is one that may."""
    if text_at(toleration, "effect") not in ("", "NoSchedule"):
        return False
    exists = toleration.get("operator") == "Exists"
    named = text_at(toleration, "key")
    return named == key or (exists and not named)
