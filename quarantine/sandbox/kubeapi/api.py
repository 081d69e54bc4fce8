"""The server's state, with direct calls for tests and the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from quarantine.sandbox.kubeapi.auth import Gate, User, default_users
from quarantine.sandbox.kubeapi.clock import real_time
from quarantine.sandbox.kubeapi.controllers import Controllers
from quarantine.sandbox.kubeapi.eviction import evict
from quarantine.sandbox.kubeapi.faults import Fault, FaultHook, RequestLog
from quarantine.sandbox.kubeapi.operations import Operations, Write
from quarantine.sandbox.kubeapi.patches import merge_patch
from quarantine.sandbox.kubeapi.resources import BY_KIND, NAMESPACES, Resource
from quarantine.sandbox.kubeapi.store import Key, Object, Store

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_REQUESTS_KEPT = 10_000


class KubeApi:
    """An in-memory Kubernetes API server; `serve` puts it on HTTP.

    The direct calls take the same path and are validated as requests are; they raise `ApiError`. Namespaced kinds live
    in `default` unless said otherwise. After each write the controllers act at once, as they do a moment later in a
    real cluster: a new node is annotated, so the resourceVersion that its creation returned is stale already.

    Attributes that may be set at any time:

    * `fault`, `faults`: hooks `(method, path) -> Fault | None`; the first that answers decides;
    * `auto_settle`: False holds the controllers back until `settle()` is called;
    * `lifecycle_taints`: True adds the node life-cycle controller (`node.kubernetes.io/unschedulable` follows a cordon,
      `not-ready` and `unreachable` follow the Ready condition); it looks at a node when the node changes;
    * `dead_kubelets`: names of nodes on which terminating pods stay;
    * `mute_watches`: True leaves watches open and silent, past their timeout too, as a dead connection does;
    * `bookmark_seconds`: how often a watch that allows bookmarks gets one.
    """

    def __init__(
        self,
        *,
        users: Sequence[User] | None = None,
        clock: Callable[[], datetime] | None = None,
        history: int = 10_000,
    ) -> None:
        self.clock = clock or real_time
        self.store = Store(history)
        self.operations = Operations(self.store, self.clock)
        self.controllers = Controllers(self.operations)
        self.gate = Gate(default_users() if users is None else users)
        self.requests = RequestLog(_REQUESTS_KEPT)
        self.fault: FaultHook | None = None
        self.faults: list[FaultHook] = []
        self.auto_settle = True
        self.mute_watches = False
        self.bookmark_seconds = 60.0
        for name in _NAMESPACES:
            self.operations.create(NAMESPACES, "", {"metadata": {"name": name}}, Write("kube-apiserver"))

    @property
    def users(self) -> tuple[User, ...]:
        """Who may come."""
        return self.gate.users

    @property
    def lifecycle_taints(self) -> bool:
        """Whether the node life-cycle controller runs."""
        return self.controllers.lifecycle_taints

    @lifecycle_taints.setter
    def lifecycle_taints(self, on: bool) -> None:
        self.controllers.lifecycle_taints = on

    @property
    def dead_kubelets(self) -> set[str]:
        """Nodes whose kubelet does not answer; change it, and call `settle()` after taking a name out."""
        return self.controllers.dead_kubelets

    def create(self, obj: Mapping[str, Any], *, manager: str = "kubeapi") -> Object:
        """Create; `kind` says what. Returns it as its creation is answered, before any controller."""
        resource = _resource(obj)
        namespace = (obj.get("metadata") or {}).get("namespace", "default") if resource.namespaced else ""
        made = self.operations.create(resource, namespace, obj, Write(manager)).copy()
        self.after_write()
        return made

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """Read one."""
        resource = _of_kind(kind)
        return self.operations.require(resource, _key(resource, name, namespace)).copy()

    def update(self, obj: Mapping[str, Any], *, manager: str = "kubeapi", subresource: str = "") -> Object:
        """Replace, conditional on the resourceVersion and uid that `obj` carries, where it carries them."""
        resource, meta = _resource(obj), obj["metadata"]
        key = _key(resource, meta["name"], meta.get("namespace"))
        changed = self.operations.replace(resource, key, obj, Write(manager, subresource)).copy()
        self.after_write()
        return changed

    def patch_merge(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str | None = None,
        *,
        manager: str = "kubeapi",
        subresource: str = "",
    ) -> Object:
        """JSON merge patch; `subresource="status"` for what stands in the status."""
        resource = _of_kind(kind)
        key, write = _key(resource, name, namespace), Write(manager, subresource)
        changed = self.operations.patch(resource, key, lambda obj: merge_patch(obj, patch), write).copy()
        self.after_write()
        return changed

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete, with its dependents, as kubectl does. A running pod terminates first, and is gone once its kubelet
        has seen that.
        """
        resource = _of_kind(kind)
        options = {"propagationPolicy": "Background"}
        self.operations.delete(resource, _key(resource, name, namespace), options, Write())
        self.after_write()

    def evict(self, name: str, namespace: str = "default", *, uid: str = "") -> None:
        """Evict a pod, of that uid where one is given. Raises 404, 409, 429, 500 as the eviction subresource does."""
        options = {"preconditions": {"uid": uid}} if uid else {}
        body = {"metadata": {"name": name, "namespace": namespace}, "deleteOptions": options}
        evict(self.operations, (namespace, name), body, Write())
        self.after_write()

    def end_job(self, name: str, namespace: str = "default", *, failed: str = "", message: str = "") -> Object:
        """What the job controller says once a Job's pods have ended: Complete, or Failed for this reason
        (`BackoffLimitExceeded`, `DeadlineExceeded`). Nothing runs here, so a test says when.
        """
        now = self.operations.now()
        told = {"status": "True", "lastProbeTime": now, "lastTransitionTime": now}
        told |= {"type": "Failed" if failed else "Complete", "reason": failed or "CompletionsReached"}
        told["message"] = message or ("Job has failed" if failed else "Reached expected number of succeeded pods")
        status: Object = {"active": None, "ready": None, "conditions": [told]}
        status |= {"failed": 1} if failed else {"succeeded": 1, "completionTime": now}
        return self.patch_merge("Job", name, {"status": status}, namespace, subresource="status")

    def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """All of a kind, ordered by namespace and name; of one namespace where one is given."""
        entries = self.store.entries(_of_kind(kind)).values()
        return [entry.copy() for entry in entries if namespace is None or entry.key[0] == namespace]

    def settle(self) -> None:
        """Let the controllers see what has changed, until they have nothing to do."""
        self.controllers.settle()

    def after_write(self) -> None:
        """Called when a write has been answered."""
        if self.auto_settle:
            self.settle()

    def compact(self) -> None:
        """Forget the watch history: a watch or a page from an earlier version is answered with 410 from now on."""
        self.store.compact()

    def fault_for(self, method: str, path: str) -> Fault | None:
        """What this request is to meet."""
        hooks = [*([self.fault] if self.fault else []), *self.faults]
        return next((fault for hook in hooks if (fault := hook(method, path)) is not None), None)


def _resource(obj: Mapping[str, Any]) -> Resource:
    return _of_kind(obj["kind"])


def _of_kind(kind: str) -> Resource:
    resource = BY_KIND.get(kind)
    if resource is None:
        raise ValueError(f"no kind {kind!r} here: the emulator knows {', '.join(sorted(BY_KIND))}")
    return resource


def _key(resource: Resource, name: str, namespace: str | None) -> Key:
    return ((namespace or "default") if resource.namespaced else "", name)
