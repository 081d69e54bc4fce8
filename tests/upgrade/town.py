"""What is outside of a controller, and outlives an upgrade: a cluster, a Slack, a folder of tickets, and their clock.

The story that every version is put into is told by `record.py`. A town can be kept in a recording and made again from
it, uids and all; what Prometheus shows is the same for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from quarantine.policytest.selectors import address
from quarantine.sandbox.kubeapi import KubeApi, KubeApiServer, serve
from quarantine.sandbox.kubeapi.resources import ALL
from quarantine.sandbox.remotewrite import write
from quarantine.sandbox.slack.server import SlackServer, serve_slack
from quarantine.sandbox.slack.workspace import Message
from tests.scenarios.format import Scenario
from tests.scenarios.play import FIRST
from tests.scenarios.shown import shown
from tests.scenarios.stage import LONG_AGO, TAINT, Time

TOKEN, CHANNEL = "xoxb-test-secret-token", "C0TEST"
CLUSTER = "training-a"
START = FIRST
MACHINES = 12
GUARDED = "guarded"  # the pod that a disruption budget keeps, until somebody loosens it
POLICY, PAUSED = "gpu-hot", "gpu-memory-hot"


def _hot(node: int, since: str, until: str, celsius: int = 84, metric: str = "DCGM_FI_DEV_GPU_TEMP") -> dict[str, Any]:
    series = {f'{metric}{{UUID="GPU-{node}-0"}}': f"{celsius}..."}
    return {
        "what": "hot",
        "machine": f"node-{node}",
        "at": since,
        "until": until,
        "outBy": "never",
        "series": series,
    }


SHOWN = Scenario.model_validate(
    {
        "title": "before, during and after an upgrade",
        "kind": "life",
        "lasts": "4h",
        "machines": {"count": MACHINES, "gpus": 2, "ports": 1, "links": 0},
        "faults": [
            _hot(1, "2m", "58m"),
            _hot(2, "2m", "40m"),
            _hot(3, "1m", "9m"),
            _hot(4, "11m", "40m", celsius=88),
            _hot(5, "11m", "40m"),
            _hot(9, "6m", "68m", celsius=99, metric="DCGM_FI_DEV_MEMORY_TEMP"),
        ],
    }
)

SIMULATED = {"QUARANTINE_PROMETHEUS__CLOCK_TOLERANCE": "0s"}  # Prometheus' own clock is not


@dataclass
class Town:
    """One of them. `url`: of its Prometheus."""

    folder: Path
    url: str
    time: Time
    api: KubeApi
    kube: KubeApiServer
    slack: SlackServer

    @property
    def config(self) -> Path:
        """The settings file."""
        return self.folder / "quarantine.yaml"

    def at(self, minutes: float) -> None:
        """It is so many minutes after the beginning."""
        self.time.at = START + timedelta(minutes=minutes)

    def write_settings(self, policies: Path | None = None, config: Path | None = None, **more: Any) -> Path:
        """What every version understands. `policies`: left out, the town's own; `config`: so is the file."""
        given = {
            "cluster": CLUSTER,
            "mode": "enforce",
            "policies": [str(policies or self.folder / "policies")],
            "prometheus": {"url": self.url, "timeout": "30s"},
            "cycle": {"deadline": "60s"},
            "kubernetes": {"kubeconfig": str(self.folder / "kubeconfig"), "timeout": "20s"},
            "slack": {"channel": CHANNEL, "base_url": self.slack.base_url},
            "tickets": {"kind": "directory", "directory": str(self.folder / "tickets")},
            **more,
        }
        target = config or self.config
        target.write_text(yaml.safe_dump(given), encoding="utf-8")
        return target

    # --- What is seen of it -------------------------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """By which this cluster is told from every other one."""
        return str(self.api.get("Namespace", "kube-system")["metadata"]["uid"])

    def out(self) -> dict[str, str]:
        """The nodes that carry our taint, and of which case."""
        return {
            node["metadata"]["name"]: taint["value"]
            for node in self.api.list("Node")
            for taint in node["spec"].get("taints") or ()
            if taint["key"] == TAINT
        }

    def pods(self) -> set[str]:
        """The training pods that run."""
        return {pod["metadata"]["name"] for pod in self.api.list("Pod", "training")}

    def tickets(self) -> list[dict[str, Any]]:
        """All that were filed."""
        return [json.loads(file.read_text("utf-8")) for file in sorted((self.folder / "tickets").glob("*.json"))]

    def told(self) -> list[str]:
        """The case of each message on Slack that asks for a machine to be replaced."""
        payloads = [m.metadata["event_payload"] for m in self.slack.messages if m.metadata and m.thread_ts is None]
        return sorted(str(payload["case"]) for payload in payloads if "case" in payload)

    # --- What happens to it -------------------------------------------------------------------------------------------

    def populate(self) -> None:
        """The machines, a job of two pods on node-2, of which one is guarded, and a lone pod on node-4."""
        for number in range(1, MACHINES + 1):
            self.join(number)
        for name in ("training", "quarantine"):
            self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, node in (("free", 2), (GUARDED, 2), ("bystander", 6)):
            self.run(name, f"node-{node}")
        self.guard(1)

    def guard(self, least: int) -> None:
        """How many pods of the guarded kind must run: there is one."""
        meta = {"name": GUARDED, "namespace": "training"}
        spec = {"minAvailable": least, "selector": {"matchLabels": {"app": GUARDED}}}
        if any(one["metadata"]["name"] == GUARDED for one in self.api.list("PodDisruptionBudget", "training")):
            self.api.patch_merge("PodDisruptionBudget", GUARDED, {"spec": spec}, "training")
        else:
            self.api.create(
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec},
            )

    def join(self, number: int, hardware: str = "") -> None:
        """A machine comes under the name of its number."""
        name, same = f"node-{number}", f"node-{number}{hardware}"
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}},
            "spec": {"providerID": f"acme://{same}"},
        }
        status = {
            "addresses": [{"type": "InternalIP", "address": address(number)}],
            "capacity": {"nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"systemUUID": f"system-{same}", "bootID": f"boot-{same}"},
        }
        self.api.create(body, manager="kubelet")
        self.api.patch_merge("Node", name, {"status": status}, subresource="status")

    def run(self, name: str, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "training", "labels": {"app": name}},
            "spec": {"nodeName": node, "containers": [{"name": "train", "image": "registry.example.com/train:1"}]},
        }
        ready = {"name": "train", "image": "", "imageID": "", "ready": True, "restartCount": 0}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{**ready, "state": {"running": {}}}],
        }
        self.api.create(body)
        self.api.patch_merge("Pod", name, {"status": status}, "training", manager="kubelet", subresource="status")

    # --- Kept, and made again -----------------------------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """All of it but the clock."""
        objects = {resource.kind: self.api.list(resource.kind) for resource in ALL}
        return {
            "objects": {kind: found for kind, found in objects.items() if found},
            "slack": [asdict(message) for message in self.slack.messages],
            "tickets": _texts(self.folder / "tickets"),
            "policies": _texts(self.folder / "policies"),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """As it was when it was kept. For one that is empty."""
        store = self.api.store
        for resource in ALL:
            for found in kept["objects"].get(resource.kind, ()):
                meta = found["metadata"]
                with store.lock:
                    store.put(resource, (meta.get("namespace", ""), meta["name"]), dict(found))
        self.slack.workspace.put_back([Message(**{**one, "pings": tuple(one["pings"])}) for one in kept["slack"]])
        for folder in ("tickets", "policies"):
            (self.folder / folder).mkdir(exist_ok=True)
            for name, text in kept[folder].items():
                (self.folder / folder / name).write_text(text, encoding="utf-8")


def _texts(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.glob("*") if path.suffix in {".json", ".md", ".yaml"})
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def show(prometheus: str) -> None:
    """Write what all towns show; once into each Prometheus."""
    write(prometheus, shown(SHOWN, START))


@contextmanager
def town(folder: Path, prometheus: str) -> Iterator[Town]:
    """An empty one; `populate` it, or `restore` what was kept."""
    time = Time(START - LONG_AGO)  # the machines are not new when it begins
    with ExitStack() as stack:
        api = KubeApi(clock=time.now)
        kube = stack.enter_context(serve(api))
        kube.write_kubeconfig(folder / "kubeconfig")
        slack = stack.enter_context(serve_slack(token=TOKEN, channels=[CHANNEL], now=time.now))
        yield Town(folder, prometheus, time, api, kube, slack)


def write_policies(tree: Path, target: Path, *, speaks: bool) -> None:
    """The policy `gpu-hot` as the version in `tree` ships it, in enforce mode, with all that it needs.

    `speaks`: with a drain, and with the policy that people pause.
    """
    target.mkdir()
    kept: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((tree / "policies").glob("*.yaml")):
        found = [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]
        fit = [_fitted(document, speaks=speaks) for document in found if _wanted(document, speaks=speaks)]
        if fit:
            kept[path.name] = fit
    for name, documents in kept.items():
        (target / name).write_text("\n---\n".join(json.dumps(one, indent=1) for one in documents) + "\n", "utf-8")


def _wanted(document: Mapping[str, Any], *, speaks: bool) -> bool:
    kind, name = document["kind"], document["metadata"]["name"]
    policies, signals = {POLICY}, {"gpu.temperature", "gpu.work", "gpu.tensor-active"}
    if speaks:
        policies, signals = policies | {PAUSED}, signals | {"gpu.memory.temperature"}
    return kind in {"Fleet", "Defaults"} or name in {"Policy": policies, "Signal": signals}.get(kind, set())


def _fitted(document: dict[str, Any], *, speaks: bool) -> dict[str, Any]:
    spec = document["spec"]
    if document["kind"] == "Fleet":
        wide = {"quarantined": 3, "unavailable": 6, "perHour": 6}
        pools = [{**spec["pools"][0], "budget": wide}, *spec["pools"][1:]]
        return {**document, "spec": {**spec, "pools": pools}}
    if document["kind"] == "Policy":
        response = {**spec["response"], **({"drain": "now"} if speaks else {})}
        return {**document, "spec": {**spec, "mode": "enforce", "breaker": {"maxShare": "50%"}, "response": response}}
    return document
