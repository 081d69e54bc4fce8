"""The simulated machines as API objects on a Kubernetes API server: the sandbox's emulator, or a real one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quarantine.core.errors import ClusterUnavailable
from quarantine.sandbox.fleet import Fleet

OWNED_BY = "quarantine-demo"
_NAMESPACES = ("training", "inference")
_BEAT_S = 10.0  # a node whose lease is not renewed for 40 s is taken for dead by a real cluster's controllers


class DemoCluster:
    """Creates the fleet's nodes, pods and namespaces with a label of this run, and removes exactly those again."""

    def __init__(self, kubeconfig: Path, run: str, *, real: bool) -> None:
        from kubernetes import client, config

        configuration = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)  # type: ignore[no-untyped-call]
        self._client = client.ApiClient(configuration)
        # The generated signatures want model objects; plain dicts are what the server and the fleet speak.
        self._core: Any = client.CoreV1Api(self._client)
        self._leases: Any = client.CoordinationV1Api(self._client)
        self._run = run
        self._real = real
        self._stopped = threading.Event()
        self._beat: threading.Thread | None = None
        self._names: list[str] = []

    def create(self, fleet: Fleet) -> None:
        """Make everything. Raises ClusterUnavailable where the server refuses or does not answer."""
        try:
            for namespace in _NAMESPACES:
                self._namespace(self._own(namespace))
            for sim in fleet.nodes:
                self._node(sim.kubernetes(images=not self._real))
            for pod in fleet.pods():
                self._pod(pod)
        except Exception as error:
            self.remove()
            raise ClusterUnavailable(
                f"the demo's nodes could not be created on {self._client.configuration.host} ({_said(error)}): "
                "may this kubeconfig create nodes, namespaces and pods?"
            ) from error
        if self._real:
            self._beat = threading.Thread(target=self._beats, name="heartbeats", daemon=True)
            self._beat.start()

    def nodes(self) -> list[dict[str, Any]]:
        """This run's nodes, as the server has them."""
        answer = self._core.list_node(
            label_selector=f"{OWNED_BY}={self._run}", _preload_content=False, _request_timeout=10
        )
        return list(_json(answer)["items"])

    def remove(self) -> None:
        """Take away what `create` made; what is gone already is no fault."""
        self._stopped.set()
        if self._beat is not None:
            self._beat.join(_BEAT_S)
        selector = {"label_selector": f"{OWNED_BY}={self._run}", "_request_timeout": 10}
        with contextlib.suppress(Exception):
            for namespace in _NAMESPACES:
                self._core.delete_collection_namespaced_pod(self._own(namespace), grace_period_seconds=0, **selector)
        for namespace in _NAMESPACES if self._real else ():
            with contextlib.suppress(Exception):
                self._core.delete_namespace(self._own(namespace), _request_timeout=10)
        for name in self._names:
            with contextlib.suppress(Exception):
                self._core.delete_node(name, _request_timeout=10)
            if self._real:
                with contextlib.suppress(Exception):
                    self._leases.delete_namespaced_lease(name, "kube-node-lease", _request_timeout=10)
        self._client.close()  # type: ignore[no-untyped-call]

    def _own(self, namespace: str) -> str:
        """On a cluster of somebody's, the namespaces are ours alone: theirs may well be called `training` too."""
        return f"{OWNED_BY}-{self._run}-{namespace}" if self._real else namespace

    def _namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {OWNED_BY: self._run}}}
        with _existing_is_fine():
            self._core.create_namespace(body, _request_timeout=10)

    def _node(self, body: dict[str, Any]) -> None:
        body["metadata"]["labels"][OWNED_BY] = self._run
        name = body["metadata"]["name"]
        self._core.create_node(body, _preload_content=False, _request_timeout=10)
        self._names.append(name)
        status = {"status": body["status"]}
        self._core.patch_node_status(name, status, _preload_content=False, _request_timeout=10)
        if self._real:
            self._renew(name)

    def _pod(self, body: dict[str, Any]) -> None:
        body["metadata"].setdefault("labels", {})[OWNED_BY] = self._run
        if self._real:
            # No job of that name exists there, and the garbage collector would take the pods away.
            body["metadata"].pop("ownerReferences", None)
        body["metadata"]["namespace"] = namespace = self._own(body["metadata"]["namespace"])
        name, status = body["metadata"]["name"], body.pop("status", None)
        self._core.create_namespaced_pod(namespace, body, _preload_content=False, _request_timeout=10)
        if status is not None:
            patch = {"status": status}
            self._core.patch_namespaced_pod_status(name, namespace, patch, _preload_content=False, _request_timeout=10)

    def _beats(self) -> None:
        while not self._stopped.wait(_BEAT_S):
            for name in self._names:
                with contextlib.suppress(Exception):
                    self._renew(name)

    def _renew(self, name: str) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")  # noqa: TID251 - a kubelet's own clock
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        with _existing_is_fine():
            self._leases.create_namespaced_lease("kube-node-lease", body, _request_timeout=10)
        self._leases.patch_namespaced_lease(name, "kube-node-lease", {"spec": spec}, _request_timeout=10)


@contextlib.contextmanager
def _existing_is_fine() -> Any:
    from kubernetes.client import ApiException

    try:
        yield
    except ApiException as error:
        if error.status != 409:
            raise


def _json(answer: Any) -> Mapping[str, Any]:
    import json

    found: Mapping[str, Any] = json.loads(answer.data)
    return found


def _said(error: Exception) -> str:
    status, reason = getattr(error, "status", None), getattr(error, "reason", None)
    return f"{status} {reason}" if status else type(error).__name__
