"""Procedures as Kubernetes Jobs: pinned to the machine of the case, tolerating its taint alone, bounded in time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from kubernetes.client.exceptions import ApiException

from quarantine.adapters.kube.fields import condition, mapping, moment, text_at
from quarantine.adapters.kube.podrecords import run_label
from quarantine.adapters.kube.records import MANAGER, clip
from quarantine.adapters.kube.translate import Call, Status, parse_status
from quarantine.adapters.kube.transport import Ask, Transport
from quarantine.adapters.placeholders import IN_JOBS, fill
from quarantine.core.case import Run, RunOutcome
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, QuarantineError, Refused
from quarantine.core.procedure import JobTemplate, ProcedureSpec
from quarantine.core.workload import RunStatus
from quarantine.ports import Order

_KEPT: Final = timedelta(days=7)  # finished Jobs, with their pods' logs
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"  # the taint that follows from our cordon
_MESSAGE_LIMIT: Final = 500  # bytes


class _Gone(Exception):
    """There is no Job of this name, or not the one that was meant."""


@dataclass(frozen=True, slots=True)
class KubeJobs:
    """Runs procedures that are Jobs. `now` is the time by which a run's is up. Thread-safe."""

    transport: Transport
    prefix: str
    now: Callable[[], datetime]

    def start(self, order: Order) -> None:
        """Create the Job. One of this name that we created for this case is success.

        Raises ClusterRefused, also for another's Job of this name; ClusterUnavailable, after which it may have begun.
        """
        template = _template(order.run, order.spec)
        left = math.ceil((order.run.until - self.now()).total_seconds())
        if left <= 0:
            raise Refused(f"The time of {order.run.name} was up before it could begin.")
        call = self._call(f"creating job {template.namespace}/{order.run.name}", "create")
        body = job_body(order, template, self.prefix, seconds=left)
        ask = self.transport.jobs("create_namespaced_custom_object", template.namespace, body, field_manager=MANAGER)
        try:
            made = self.transport.create(call, ask)
        except ClusterUnavailable as error:
            raise _without_namespace(call, template.namespace, error) from error
        if not made and self._labels(template.namespace, order.run.name).get(f"{self.prefix}/case") != order.case:
            raise ClusterRefused(
                f"There is a job {template.namespace}/{order.run.name} already, which is none of case {order.case}; "
                "find out whose it is, and delete it or give the procedure another namespace."
            )

    def look(self, runs: Collection[tuple[Run, ProcedureSpec]]) -> Mapping[str, RunStatus]:
        """How far they have come, by run name; a Job that is not there, or not ours, is left out.

        Raises ClusterUnavailable, also where the right to list Jobs is missing.
        """
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for run, spec in runs:
            wanted[_template(run, spec).namespace].add(run.name)
        found: dict[str, RunStatus] = {}
        for namespace, names in sorted(wanted.items()):
            jobs = self._ours(namespace)
            found |= {name: _status(jobs[name]) for name in names if name in jobs}
        return found

    def stop(self, run: Run, spec: ProcedureSpec) -> None:
        """Delete the Job while it runs; one that has ended stays for its logs. Raises as `start`."""
        namespace = _template(run, spec).namespace
        job = self._read(namespace, run.name)
        meta = mapping(job.get("metadata"))
        if not job or _status(job).outcome is not RunOutcome.RUNNING:
            return
        if mapping(meta.get("labels")).get(run_label(self.prefix)) != run.name:
            raise ClusterRefused(
                f"The job {namespace}/{run.name} is none that the controller made, and is not ended; "
                "find out whose it is."
            )
        call = self._call(f"deleting job {namespace}/{run.name}", "delete")
        # Without a policy, the server would leave the Job's pods running: its default for batch/v1.
        body = {"propagationPolicy": "Background", "preconditions": {"uid": text_at(meta, "uid")}}
        ask = self.transport.jobs("delete_namespaced_custom_object", namespace, run.name, body=body)
        with suppress(_Gone):
            self._fetch(call, ask)

    def _labels(self, namespace: str, name: str) -> Mapping[str, Any]:
        return mapping(mapping(self._read(namespace, name).get("metadata")).get("labels"))

    def _read(self, namespace: str, name: str) -> Mapping[str, Any]:
        """The Job; empty where it does not exist."""
        call = self._call(f"reading job {namespace}/{name}", "get")
        ask = self.transport.jobs("get_namespaced_custom_object", namespace, name)
        try:
            return self._fetch(call, ask)
        except _Gone:
            return {}

    def _fetch(self, call: Call, ask: Ask) -> dict[str, Any]:
        """The answer. Raises _Gone where the API server itself says that there is none, or another."""
        try:
            return self.transport.fetch(call, ask)
        except QuarantineError as error:
            cause = error.__cause__
            status = parse_status(cause.body) if isinstance(cause, ApiException) else Status()
            if (status.reason == "NotFound" and status.details.get("kind") == "jobs") or status.other_uid:
                raise _Gone from error
            raise

    def _ours(self, namespace: str) -> Mapping[str, Mapping[str, Any]]:
        """The Jobs that carry our label, by name."""
        call = self._call(f"listing our jobs in namespace {namespace}", "list")
        found: dict[str, Mapping[str, Any]] = {}

        def page(token: str | None) -> Ask:
            options = {"label_selector": run_label(self.prefix), "limit": self.transport.page, "_continue": token}
            return self.transport.jobs("list_namespaced_custom_object", namespace, **options)

        def take(item: object) -> None:
            job = mapping(item)
            name = text_at(mapping(job.get("metadata")), "name")
            if mapping(mapping(job.get("metadata")).get("labels")).get(run_label(self.prefix)) == name:
                found[name] = job

        try:
            self.transport.pages(call, "JobList", page, take)
        except ClusterRefused as error:
            raise ClusterUnavailable(str(error)) from error
        return found

    def _call(self, doing: str, verb: str) -> Call:
        return Call(self.transport.url, doing, f"{verb} on jobs.batch")


def job_body(order: Order, template: JobTemplate, prefix: str, *, seconds: int) -> dict[str, Any]:
    """The Job of a run. It ends after `seconds`, whether its pod has begun or not."""
    labels = {f"{prefix}/case": order.case, run_label(prefix): order.run.name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": order.run.name,
            "namespace": template.namespace,
            "labels": labels,
            "annotations": {f"{prefix}/node": order.node, f"{prefix}/procedure": order.run.procedure},
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": template.tries - 1,
            "activeDeadlineSeconds": seconds,
            "ttlSecondsAfterFinished": round(_KEPT.total_seconds()),
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(order, template)},
        },
    }


def _pod_spec(order: Order, template: JobTemplate) -> dict[str, Any]:
    """The template's, pinned as a DaemonSet's pods are: the scheduler still sees to it that the machine has room."""
    pod = dict(template.pod)
    for group in ("initContainers", "containers"):
        if isinstance(pod.get(group), list):
            pod[group] = [_filled(container, order) for container in pod[group]]
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [order.node]}]}
    return pod | {
        "restartPolicy": "Never",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}},
        "tolerations": [
            {"key": order.taint, "operator": "Equal", "value": order.case, "effect": "NoSchedule"},
            {"key": _UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"},
        ],
    }


def _filled(container: Any, order: Order) -> Any:
    """A container with the placeholders in its command, its arguments and the values of its environment filled in."""
    if not isinstance(container, dict):
        return container
    filled = dict(container)
    for words in ("command", "args"):
        if isinstance(filled.get(words), list):
            filled[words] = [_text(word, order) for word in filled[words]]
    if isinstance(filled.get("env"), list):
        filled["env"] = [
            entry | {"value": _text(entry["value"], order)} if isinstance(entry, dict) and "value" in entry else entry
            for entry in filled["env"]
        ]
    return filled


def _text(value: Any, order: Order) -> Any:
    return fill(value, order, IN_JOBS) if isinstance(value, str) else value


def _status(job: Mapping[str, Any]) -> RunStatus:
    """By its conditions: Complete and Failed are final, and come only once its pods have ended."""
    status = mapping(job.get("status"))
    for kind, outcome in (("Complete", RunOutcome.SUCCEEDED), ("Failed", RunOutcome.FAILED)):
        told = condition(status.get("conditions"), kind)
        if told.get("status") != "True":
            continue
        late = kind == "Failed" and told.get("reason") == "DeadlineExceeded"
        at = moment(status.get("completionTime")) or moment(told.get("lastTransitionTime"))
        return RunStatus(RunOutcome.LATE if late else outcome, at, clip(text_at(told, "message"), _MESSAGE_LIMIT))
    return RunStatus(RunOutcome.RUNNING, message="" if status.get("ready") else "Its pod does not run yet.")


def _template(run: Run, spec: ProcedureSpec) -> JobTemplate:
    if spec.job is None:
        raise Refused(f"The procedure {run.procedure} is no Job.")
    return spec.job


def _without_namespace(call: Call, namespace: str, error: ClusterUnavailable) -> QuarantineError:
    """A namespace that does not exist is not there the next time either."""
    cause = error.__cause__
    status = parse_status(cause.body) if isinstance(cause, ApiException) else Status()
    if status.reason == "NotFound" and status.details.get("kind") == "namespaces":
        return ClusterRefused(call.sentence(f"knows no namespace {namespace}", "create it, or name another"))
    return error
