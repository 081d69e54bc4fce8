"""The eviction subresource: a deletion that respects PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarantine.sandbox.kubeapi import errors
from quarantine.sandbox.kubeapi.operations import Operations, Write, check_preconditions
from quarantine.sandbox.kubeapi.resources import BUDGETS, PODS
from quarantine.sandbox.kubeapi.selectors import selector_object
from quarantine.sandbox.kubeapi.store import Entry, Key, Object
from quarantine.sandbox.kubeapi.strategic import strategic_merge

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_AS_CONTROLLER = "kube-apiserver"


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of that type; empty where there is none."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c.get("type") == kind), {})


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod counts as healthy."""
    return condition(pod, "Ready").get("status") == "True"


def evict(operations: Operations, key: Key, body: Mapping[str, Any], write: Write) -> Object:
    """POST pods/NAME/eviction. Returns a Status; raises 404, 409, 429 or 500 as the real server does."""
    if (version := body.get("apiVersion", "policy/v1")) != "policy/v1" or body.get("kind", "Eviction") != "Eviction":
        raise errors.bad_request(f"no kind {body.get('kind')!r} is registered for version {version!r}")
    if (body.get("metadata") or {}).get("name") != key[1]:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options: Mapping[str, Any] = body.get("deleteOptions") or {}
    write = Write(write.manager, "eviction", write.dry_run or options.get("dryRun") == ["All"])
    with operations.store.lock:
        pod = operations.require(PODS, key)
        check_preconditions(PODS, pod, options)
        if not _beyond_budgets(pod.obj):
            _spend_budget(operations, pod, write)
            _announce(operations, key, write)
        operations.delete(PODS, key, options, write)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _beyond_budgets(pod: Object) -> bool:
    """A pod that has ended, has not begun or is terminating is disrupted already."""
    return pod["status"].get("phase") in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]


def _spend_budget(operations: Operations, pod: Entry, write: Write) -> None:
    budgets = [
        entry
        for (namespace, _), entry in operations.store.entries(BUDGETS).items()
        if namespace == pod.key[0] and selector_object(entry.obj["spec"].get("selector"))(pod.obj)
    ]
    if len(budgets) > 1:
        raise errors.ApiError(500, "", _TWO_BUDGETS)
    if not budgets:
        return
    budget = budgets[0]
    status = budget.obj["status"]
    healthy, desired = status["currentHealthy"], status["desiredHealthy"]
    always = budget.obj["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if not is_ready(pod.obj) and (always or healthy >= desired > 0):
        return  # an unhealthy pod costs nothing
    _check(budget)
    at = operations.now()
    disrupted = (status.get("disruptedPods") or {}) | {pod.key[1]: at}
    changed = {"disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
    operations.patch(
        BUDGETS,
        budget.key,
        lambda obj: obj | {"status": obj["status"] | changed},
        Write(_AS_CONTROLLER, "status", write.dry_run),
    )


def _check(budget: Entry) -> None:
    name, status, meta = budget.key[1], budget.obj["status"], budget.obj["metadata"]
    if status.get("observedGeneration", 0) < meta["generation"]:
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    if status["disruptionsAllowed"] > 0:
        return
    allowed = condition(budget.obj, "DisruptionAllowed")
    healthy, desired = status["currentHealthy"], status["desiredHealthy"]
    if allowed.get("status") == "False" and allowed.get("reason") == "SyncFailed":
        why = f"does not allow evicting pods currently because it failed sync: {allowed.get('message', '')}"
    elif healthy < desired:
        why = f"needs {desired} healthy pods and has {healthy} currently"
    else:
        why = "does not allow evicting pods currently"
    raise _refused(f"The disruption budget {name} {why}")


def _refused(message: str, retry_after: int = 0) -> errors.ApiError:
    about: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after:
        about["retryAfterSeconds"] = retry_after
    return errors.ApiError(429, "TooManyRequests", _VIOLATES, about)


def _announce(operations: Operations, key: Key, write: Write) -> None:
    """The pod says in its status why it goes, before it goes."""
    told = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": operations.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    patch = {"status": {"conditions": [told]}}
    write = Write(_AS_CONTROLLER, "status", write.dry_run)
    operations.patch(PODS, key, lambda obj: strategic_merge(obj, patch), write)
