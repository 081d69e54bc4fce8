"""Other people's hands on a cluster: the sandbox's emulator, or a real API server."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, Configuration, CoreV1Api
from kubernetes.client.exceptions import ApiException
from kubernetes.config import load_kube_config

from quarantine.adapters.kube import KubeCluster
from tests.adapters.kube.support import eventually, node_json, open_cluster


class World:
    """Other people's hands on the cluster, through the official client: they create, edit and delete nodes."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        configuration = Configuration()
        load_kube_config(  # type: ignore[no-untyped-call]
            str(kubeconfig), client_configuration=configuration, persist_config=False
        )
        self.client = ApiClient(configuration)
        self.core: Any = CoreV1Api(self.client)  # bodies are plain JSON here, not the typed models
        self.run = f"qtest-{secrets.token_hex(4)}"
        self._clusters: list[KubeCluster] = []

    def name(self, suffix: str) -> str:
        return f"{self.run}-{suffix}"

    def create(self, suffix: str, **parts: Any) -> str:
        """Create a node and wait until the controllers, who touch every new node, have left it alone."""
        name = self.name(suffix)
        self._json(self.core.create_node(node_json(name, **parts), _preload_content=False))
        eventually(lambda: "node.alpha.kubernetes.io/ttl" in self.get(name)["metadata"].get("annotations", {}))
        return name

    def get(self, name: str) -> Any:
        return self._json(self.core.read_node(name, _preload_content=False))

    def patch(self, name: str, patch: dict[str, Any]) -> Any:
        kind = "application/merge-patch+json"
        return self._json(self.core.patch_node(name, patch, _content_type=kind, _preload_content=False))

    def taint(self, name: str, key: str, value: str = "y") -> None:
        """Add a taint as another controller would: read, change, write with the version read."""

        def attempt() -> bool:
            raw = self.get(name)
            taints = [*raw["spec"].get("taints", []), {"key": key, "value": value, "effect": "NoSchedule"}]
            version = raw["metadata"]["resourceVersion"]
            try:
                self.patch(name, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints}})
            except ApiException as error:
                if error.status == 409:
                    return False
                raise
            return True

        eventually(attempt)

    def delete(self, name: str) -> None:
        with suppress(ApiException):
            self._json(self.core.delete_node(name, _preload_content=False))

    def events(self, name: str) -> list[dict[str, Any]]:
        answer = self.core.list_namespaced_event("default", _preload_content=False)
        return [e for e in self._json(answer)["items"] if e["involvedObject"].get("name") == name]

    def cluster(self, kubeconfig: Path | None = None, **settings: Any) -> KubeCluster:
        """Ours. Closed at the end."""
        self._clusters.append(open_cluster(kubeconfig or self.kubeconfig, **settings))
        return self._clusters[-1]

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.close()
        answer = self._json(self.core.list_node(_preload_content=False))
        for item in answer["items"]:
            if item["metadata"]["name"].startswith(self.run):
                self.delete(item["metadata"]["name"])
        manager = self.client.rest_client.pool_manager
        for key in manager.pools.keys():  # noqa: SIM118 - refuses iteration
            manager.pools[key].close()

    @staticmethod
    def _json(response: Any) -> Any:
        return json.loads(response.data)
