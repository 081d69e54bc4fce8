"""A small cluster for end-to-end tests: the emulator, a real Prometheus with written history, Slack's stand-in.

History is written up to some minutes past the present, so that the shipped policies, unscaled, can be judged at the
wall clock without waiting for anything. Each world is a cluster of its own in the Prometheus that they share, and its
fleet has the matcher that says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from quarantine.cli.main import app
from quarantine.sandbox.kubeapi import KubeApi, KubeApiServer, serve
from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import Series, write
from quarantine.sandbox.slack.server import SlackServer, serve_slack
from quarantine.sandbox.slack.workspace import Message
from quarantine.settings import shipped_policies

BACK, AHEAD, STEP = timedelta(minutes=14), timedelta(minutes=3), timedelta(seconds=15)
JUDGED = {"gpu-hot", "nvlink-errors", "infiniband-link-flapping"}  # policies for which every node here has data
PORT = {"device": "mlx5_0", "port": "1"}
TOKEN, CHANNEL = "xoxb-test-secret-token", "C0TEST"


@dataclass
class World:
    """One cluster. Node names are unique to it, so that worlds can share a Prometheus."""

    folder: Path
    name: str
    prometheus: PrometheusServer
    api: KubeApi
    kube: KubeApiServer
    slack: SlackServer
    nodes: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "quarantine.yaml"

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def told(self) -> list[Message]:
        """The messages on Slack, without what stands in their threads."""
        return [message for message in self.slack.messages if message.thread_ts is None]

    def write_settings(self, **changes: Any) -> None:
        self.settings = {
            "cluster": "test",
            "mode": "enforce",
            "policies": [str(self.folder / "policies")],
            "prometheus": {"url": self.prometheus.url, "timeout": "5s"},
            "cycle": {"deadline": "15s"},
            "kubernetes": {"kubeconfig": str(self.folder / "kubeconfig"), "timeout": "3s"},
            "slack": {"channel": CHANNEL, "base_url": self.slack.base_url},
            "tickets": {"kind": "directory", "directory": str(self.folder / "tickets")},
            **changes,
        }
        self.config.write_text(yaml.safe_dump(self.settings), encoding="utf-8")

    def write_policies(self, edit: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Shipped ones in enforce mode, with a budget that a small pool can live with; `edit` changes each document."""
        target = self.folder / "policies"
        target.mkdir(exist_ok=True)
        for name, shipped in _shipped():
            documents = deepcopy(shipped)
            for document in documents:
                if document["kind"] == "Policy":
                    document["spec"]["mode"] = "enforce"
                if document["kind"] == "Fleet":
                    document["spec"]["pools"][0]["budget"] = {
                        "quarantined": "50%",
                        "unavailable": "60%",
                        "perHour": "50%",
                    }
                    document["spec"]["matchers"] = {"cluster": self.name}
                for source in document["spec"].get("sources", []):
                    for field_ in {"expr", "gate"} & set(source):
                        source[field_] = _matched(source[field_], self.name)
                if edit is not None:
                    edit(document)
            (target / name).write_text(yaml.safe_dump_all(documents, allow_unicode=True), encoding="utf-8")

    def quarantine(self, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
        """The command line, in this process."""
        environment = {"QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": self.database_url, **(env or {})}
        return CliRunner().invoke(app, [*arguments, "--config", str(self.config)], env=environment)

    def check_policies(self) -> Result:
        return CliRunner().invoke(app, ["policy", "check", str(self.folder / "policies")])

    def run_once(self, **environment: str) -> Result:
        return self.quarantine("run", "--once", env=environment)

    def plan(self) -> dict[str, Any]:
        result = self.quarantine("plan", "--output", "json")
        assert result.exit_code == 0, result.output
        made: dict[str, Any] = json.loads(result.stdout)
        return made

    def heat(self, *names: str, gpu: int = 3, celsius: float = 84.0) -> None:
        """These nodes' GPU has been hot for ten minutes, and will be for the next three."""
        strangers = [energy(name, gpu) for name in names if name not in self.nodes]
        hot = [gauge("DCGM_FI_DEV_GPU_TEMP", name, gpu, celsius, extra="hot") for name in names]
        write(self.prometheus.url, [*hot, *strangers])

    def taints(self, node: str) -> list[dict[str, Any]]:
        return list(self.api.get("Node", node)["spec"].get("taints") or [])

    def marked(self) -> list[str]:
        """The nodes that carry our taint, and are cordoned."""
        found = []
        for node in self.api.list("Node"):
            ours = [t for t in node["spec"].get("taints") or [] if t["key"] == "quarantine.gpu/suspect"]
            if ours and node["spec"].get("unschedulable"):
                found.append(node["metadata"]["name"])
        return sorted(found)

    def untouched(self) -> bool:
        """Whether no node has anything of ours."""
        for node in self.api.list("Node"):
            notes = {**node["metadata"].get("annotations", {}), **node["metadata"].get("labels", {})}
            taints = node["spec"].get("taints") or []
            if any(key.startswith("quarantine.gpu/") for key in notes) or node["spec"].get("unschedulable"):
                return False
            if any(taint["key"].startswith("quarantine.gpu/") for taint in taints):
                return False
        return True

    def tickets(self) -> list[dict[str, Any]]:
        return [
            json.loads(path.read_text(encoding="utf-8")) for path in sorted((self.folder / "tickets").glob("*.json"))
        ]


@cache
def _shipped() -> tuple[tuple[str, list[dict[str, Any]]], ...]:
    """The documents that a world has, by file; not to be changed. Read once: it takes longer than most tests."""
    found = []
    for path in shipped_policies().glob("*.yaml"):
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        kinds = {document["kind"] for document in documents}
        if "PolicyTest" not in kinds and ("Policy" not in kinds or path.stem in JUDGED):
            found.append((path.name, documents))
    return tuple(found)


def _matched(promql: str, cluster: str) -> str:
    """The expression with the cluster's matcher, as the check wants it where a fleet has matchers."""
    matcher = f'cluster="{cluster}"'
    metric = r"\b((?:node|infiniband_hca|accelerator_nvidia|nvidia_smi|DCGM_FI)_\w+)(\{?)"
    return re.sub(metric, lambda m: f"{m[1]}{{{matcher}{',' if m[2] else '}'}", promql)


def uuid(node: str, gpu: int) -> str:
    return f"GPU-{node}-{gpu}"


def times() -> list[datetime]:
    now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251 - the controller under test asks for now
    start = now - BACK
    return [start + STEP * n for n in range(int((BACK + AHEAD) / STEP) + 1)]


def gauge(metric: str, node: str, gpu: int, value: float, extra: str = "") -> Series:
    labels = {
        "__name__": metric,
        "cluster": node.rpartition("-")[0],
        "Hostname": node,
        "UUID": uuid(node, gpu),
        "gpu": str(gpu),
        "modelName": "H100",
    }
    return Series(labels | ({"window": extra} if extra else {}), [(at, value) for at in times()])


def energy(node: str, gpu: int) -> Series:
    """What shows that the exporter is alive: it always moves."""
    still = gauge("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", node, gpu, 0.0)
    return Series(still.labels, [(at, 1e6 + 9e6 * n) for n, (at, _) in enumerate(still.samples)])


def healthy(nodes: tuple[str, ...]) -> Iterator[Series]:
    """What a sound fleet's exporters say: eight GPUs that work, one InfiniBand port that moves data."""
    moments = times()
    for number, node in enumerate(nodes):
        for gpu in range(8):
            yield gauge("DCGM_FI_DEV_GPU_TEMP", node, gpu, 60.0)
            yield gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", node, gpu, 0.5)
            for metric in ("REPLAY", "CRC_FLIT", "CRC_DATA", "RECOVERY"):
                yield gauge(f"DCGM_FI_DEV_NVLINK_{metric}_ERROR_COUNT_TOTAL", node, gpu, 3.0)
            yield energy(node, gpu)
        instance = {"cluster": node.rpartition("-")[0], "instance": f"{address(node, number)}:9100"}
        yield Series(
            {"__name__": "node_infiniband_link_downed_total", **instance, **PORT}, [(at, 2.0) for at in moments]
        )
        moved = {"__name__": "node_infiniband_port_data_received_bytes_total", **instance, **PORT}
        yield Series(moved, [(at, 1e9 * n) for n, at in enumerate(moments)])
        gate = {
            "__name__": "node_scrape_collector_success",
            "collector": "infiniband",
            **instance,
        }
        yield Series(gate, [(at, 1.0) for at in moments])


def address(node: str, number: int) -> str:
    return f"10.{sum(node.encode()) % 250}.{len(node)}.{number + 1}"


def node_object(name: str, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}},
        "spec": {"providerID": f"acme://{name}"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address(name, number)}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"systemUUID": f"sys-{name}", "bootID": f"boot-{name}"},
        },
    }


@contextmanager
def world(folder: Path, name: str, prometheus: PrometheusServer, *, size: int = 8) -> Iterator[World]:
    """A healthy cluster `name-0` … `name-(size-1)`, in enforce mode."""
    with ExitStack() as stack:
        api = KubeApi()
        kube = stack.enter_context(serve(api))
        slack = stack.enter_context(serve_slack(token=TOKEN, channels=[CHANNEL]))
        nodes = tuple(f"{name}-{n}" for n in range(size))
        for number, node in enumerate(nodes):
            body = node_object(node, number)
            api.create(body)
            api.patch_merge("Node", node, {"status": body["status"]}, subresource="status")
        kube.write_kubeconfig(folder / "kubeconfig")
        write(prometheus.url, healthy(nodes))
        made = World(folder, name, prometheus, api, kube, slack, nodes)
        made.write_policies()
        made.write_settings()
        yield made
