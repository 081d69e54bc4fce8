"""The Eviction API: asking a pod to leave. Nothing here deletes."""

from __future__ import annotations

from typing import Any

from kubernetes.client.exceptions import ApiException

from quarantine.adapters.kube.translate import Call, Status, parse_status, quote
from quarantine.adapters.kube.transport import Transport
from quarantine.core.case import PodRef
from quarantine.core.errors import ClusterUnavailable, Conflict, EvictionBlocked, EvictionImpossible, QuarantineError

_BUDGET = "DisruptionBudget"  # the reason of the cause
_OVERLAP = "more than one PodDisruptionBudget"
_TERMINATING = "NamespaceTerminating"
_WEBHOOK = "admission webhook"


def evict(transport: Transport, pod: PodRef) -> bool:
    """Ask it to leave, unless another pod has its name. False: it is gone already.

    Raises EvictionBlocked, EvictionImpossible, ClusterRefused, ClusterUnavailable; after the last, it may have been
    asked: its uid makes asking again safe.
    """
    call = Call(transport.url, f"evicting pod {pod}", "create on pods/eviction")
    ask = transport.core("create_namespaced_pod_eviction", pod.name, pod.namespace, _body(pod))
    try:
        transport.fetch(call, ask)
    except QuarantineError as error:
        # The sentence is made already; what it means for an eviction is in the server's own answer.
        answer = error.__cause__
        if not isinstance(answer, ApiException):
            raise
        code, status = answer.status or 0, parse_status(answer.body)
        if _gone(code, status):
            return False
        raise (_meaning(call, code, status) or _otherwise(error)) from answer
    return True


def _body(pod: PodRef) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def _gone(code: int, status: Status) -> bool:
    """Whether the server itself says that this pod is not there, perhaps another of its name."""
    if code == 404:
        return status.reason == "NotFound" and status.details.get("kind") == "pods"
    return code == 409 and status.other_uid


def _meaning(call: Call, code: int, status: Status) -> QuarantineError | None:
    """What a refusal means for this pod alone; None where it is not about the pod."""
    # Of a refusal for a disruption budget the cause names the budget; the message never does.
    said = f"answered HTTP {code} ({quote(status.cause(_BUDGET) or status.message or 'no reason given')})"
    hooked = _WEBHOOK in status.message
    if code == 429 and (hooked or status.gives(_BUDGET)):
        return EvictionBlocked(call.sentence(said, "it will be asked again"))
    if code == 403 and status.gives(_TERMINATING):
        return EvictionBlocked(call.sentence(said, "its namespace is being deleted, and it with it"))
    if code == 500 and _OVERLAP in status.message:
        return EvictionImpossible(call.sentence(said, "leave one budget to the pod, or delete it by hand"))
    if code in (400, 422) or (code == 403 and hooked):
        return EvictionImpossible(call.sentence(said, "it will be refused again: delete the pod by hand, or leave it"))
    return None


def _otherwise(error: QuarantineError) -> QuarantineError:
    """Nothing that was read is at stake here, so a conflict is only a bad moment."""
    return ClusterUnavailable(str(error)) if isinstance(error, Conflict) else error
