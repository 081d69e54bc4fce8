"""The cluster of a scenario: the emulator, the policies as the scenario has them, the controller, and their clock."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from quarantine import app
from quarantine.controller import Controller
from quarantine.core.case import Case
from quarantine.core.decision import Decision, Request
from quarantine.core.marks import taint_key
from quarantine.ledger.absent import AbsentLedger
from quarantine.policytest.format import PREFIX, Machine
from quarantine.policytest.selectors import address
from quarantine.ports import Ledger
from quarantine.sandbox.kubeapi import KubeApi, serve
from quarantine.sandbox.kubeapi.clock import timestamp
from quarantine.settings import load, shipped_policies
from tests.scenarios.format import Ends, Event, Gang, Scenario

TAINT = taint_key("quarantine.gpu")
RACK = "example.com/rack"
CHECKPOINT = "example.com/last-checkpoint"
JOBSET = "jobset.sigs.k8s.io/jobset-name"
SOUND = Machine()
LONG_AGO = timedelta(days=30)


@dataclass
class Time:
    """The clock of everything in a scenario."""

    at: datetime

    def now(self) -> datetime:
        """As it was set."""
        return self.at


@dataclass
class Stage:
    """A cluster, and the controller that looks after it."""

    scenario: Scenario
    folder: Path
    start: datetime
    time: Time
    api: KubeApi
    controller: Controller
    ledger: Ledger
    evicted: int = 0
    _pods: set[str] = field(default_factory=set)
    _asked: int = 0

    # --- What is seen of it -------------------------------------------------------------------------------------------

    def out(self) -> set[str]:
        """The nodes that carry our taint."""
        return {
            node["metadata"]["name"]
            for node in self.api.list("Node")
            if any(taint["key"] == TAINT for taint in node["spec"].get("taints") or ())
        }

    def open_cases(self) -> dict[str, Case]:
        """By node."""
        return {case.node: case for case in self.ledger.load().state.cases.values() if case.open}

    def trail(self) -> list[Decision]:
        """Every decision so far."""
        return [row.decision for row in self.ledger.decisions()]

    def tickets(self) -> list[dict[str, Any]]:
        """All that were filed."""
        return [json.loads(file.read_text("utf-8")) for file in sorted((self.folder / "tickets").glob("*.json"))]

    def leftovers(self, name: str) -> list[str]:
        """What of ours a node bears; a condition that says that all is well is none."""
        node = self.api.get("Node", name)
        keys = [*node["metadata"].get("annotations", {}), *node["metadata"].get("labels", {})]
        keys += [taint["key"] for taint in node["spec"].get("taints") or ()]
        found = [key for key in keys if key.startswith("quarantine.gpu/")]
        return [*found, "unschedulable"] if node["spec"].get("unschedulable") else found

    # --- What happens to it -------------------------------------------------------------------------------------------

    def happens(self, event: Event) -> None:
        """An event of the scenario, now."""
        for name, machine in event.nodes.items():
            self._change(name, machine)
        for name in event.gone:
            self.api.delete("Node", name)
        for name, hardware in event.comes.items():
            self._join(name, hardware)
        for name in event.boots:
            info = {"bootID": f"boot-{name}-{timestamp(self.time.at)}"}
            self.api.patch_merge("Node", name, {"status": {"nodeInfo": info}}, subresource="status")
        for name, manager in event.untaints.items():
            kept = [t for t in self.api.get("Node", name)["spec"].get("taints") or () if t["key"] != TAINT]
            self.api.patch_merge("Node", name, {"spec": {"taints": kept or None}}, manager=manager)
        for name in event.uncordons:
            self.api.patch_merge("Node", name, {"spec": {"unschedulable": None}}, manager="kubectl")
        for name, edit in event.policies.items():
            _edit(self.folder / "policies", name, edit)
        if event.asks is not None:
            asked, now = event.asks, self.time.at
            self._asked += 1
            until = now + asked.lasts if asked.lasts is not None else None
            self.ledger.ask(
                Request(
                    id=f"request-{self._asked}",
                    kind=asked.kind,
                    node=asked.node or "",
                    reason=asked.reason,
                    actor="somebody on call",
                    channel="cli",
                    at=now,
                    until=until,
                    scope=asked.scope,
                )
            )

    def live(self) -> None:
        """What other programs of the cluster do by now: jobs write checkpoints, and procedures come to their ends."""
        now = self.time.at
        for gang in self.scenario.gangs:
            written = [self.start + when for when in gang.checkpoints if self.start + when <= now]
            for node in gang.nodes if written else ():
                name = _pod_name(gang, node)
                if self._has_pod(name):
                    notes = {CHECKPOINT: timestamp(max(written))}
                    self.api.patch_merge("Pod", name, {"metadata": {"annotations": notes}}, "training")
        for job in self.api.list("Job"):
            purpose = next((p for p in self.scenario.procedures if f"-{p}-" in job["metadata"]["name"]), None)
            begun = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
            ended = any(c["status"] == "True" for c in job.get("status", {}).get("conditions", ()))
            if purpose is None or ended or begun + self.scenario.procedures[purpose].after > now:
                continue
            self._end(job, self.scenario.procedures[purpose])

    def count(self) -> None:
        """See which pods are gone since the last look."""
        left = {pod["metadata"]["name"] for pod in self.api.list("Pod", "training")}
        self.evicted += len(self._pods - left)
        self._pods = left

    def _end(self, job: Mapping[str, Any], ends: Ends) -> None:
        kind = "Complete" if ends.well else "Failed"
        condition = {"type": kind, "status": "True", "lastTransitionTime": timestamp(self.time.at)}
        status = {"conditions": [condition], "startTime": job["metadata"]["creationTimestamp"]}
        status |= {"completionTime": timestamp(self.time.at), "succeeded": 1} if ends.well else {"failed": 1}
        meta = job["metadata"]
        self.api.patch_merge("Job", meta["name"], {"status": status}, meta["namespace"], subresource="status")

    def _has_pod(self, name: str) -> bool:
        return any(pod["metadata"]["name"] == name for pod in self.api.list("Pod", "training"))

    # --- How it begins ------------------------------------------------------------------------------------------------

    def populate(self) -> None:
        """The machines, and what runs on them."""
        for number in range(1, self.scenario.machines.count + 1):
            name = f"{PREFIX}{number}"
            self._join(name, "")
            if (own := self.scenario.nodes.get(name)) is not None:
                self._change(name, own)
        for name in ("training", "quarantine"):
            self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for gang in self.scenario.gangs:
            for node in gang.nodes:
                self.run(_pod(gang, node, self.time.at))
        self.count()

    def run(self, pod: Mapping[str, Any]) -> None:
        """Create a pod whose kubelet says what its status says."""
        self.api.create(pod)
        meta = pod["metadata"]
        status = {"status": pod["status"]}
        self.api.patch_merge("Pod", meta["name"], status, meta["namespace"], manager="kubelet", subresource="status")

    def _join(self, name: str, hardware: str) -> None:
        number = int(name.removeprefix(PREFIX))
        gpus = self.scenario.machines.gpus
        rack = f"r{(number - 1) * self.scenario.racks // self.scenario.machines.count}"
        labels = {"nvidia.com/gpu.present": "true", RACK: rack, **self.scenario.machines.labels}
        same = f"{name}{hardware}"
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": f"acme://{same}"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address(number)}],
                "capacity": {"nvidia.com/gpu": str(gpus)},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"systemUUID": f"system-{same}", "bootID": f"boot-{same}"},
            },
        }
        self.api.create(body, manager="kubelet")
        self.api.patch_merge("Node", name, {"status": body["status"]}, subresource="status")

    def _change(self, name: str, own: Machine) -> None:
        notes = {"labels": dict(own.labels), "annotations": dict(own.annotations)}
        spec: dict[str, Any] = {"unschedulable": True} if own.unschedulable else {}
        if own.taints:
            kept = self.api.get("Node", name)["spec"].get("taints") or []
            added = [{"key": key, "effect": "NoSchedule"} for key in own.taints]
            spec["taints"] = [*kept, *added]
        self.api.patch_merge("Node", name, {"metadata": notes, "spec": spec})
        status: dict[str, Any] = {}
        if own.ready != SOUND.ready or "ready" in own.model_fields_set:
            status["conditions"] = [{"type": "Ready", "status": str(own.ready)}]
        if own.gpus is not None:
            status["capacity"] = {"nvidia.com/gpu": str(own.gpus)}
        if status:
            self.api.patch_merge("Node", name, {"status": status}, subresource="status")


@contextmanager
def stage(
    scenario: Scenario, folder: Path, prometheus: str, start: datetime, database: str | None = None
) -> Iterator[Stage]:
    """A cluster of its own, whose time stands at `start`, and the controller as `quarantine run` builds it.

    `database`: the URL of its ledger, which is migrated; left out, a file.
    """
    time = Time(start - LONG_AGO)  # the machines are not new when it begins
    with ExitStack() as stack:
        api = KubeApi(clock=time.now)
        kube = stack.enter_context(serve(api))
        kube.write_kubeconfig(folder / "kubeconfig")
        _write_policies(scenario, folder / "policies")
        given = {
            "cluster": "scenario",
            "mode": "enforce",
            "policies": [str(folder / "policies")],
            "prometheus": {"url": prometheus, "timeout": "60s", "clock_tolerance": "0s"},  # its clock is not simulated
            "cycle": {"deadline": "60s"},
            "kubernetes": {"kubeconfig": str(folder / "kubeconfig"), "timeout": "30s"},
            "tickets": {"kind": "directory", "directory": str(folder / "tickets")},
        }
        (folder / "quarantine.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")
        environ = {"QUARANTINE_DATABASE_URL": database or f"sqlite:///{folder / 'ledger.db'}"}
        stack.enter_context(patch.object(app, "CLOCK", time))
        parts = stack.enter_context(app.parts(load(folder / "quarantine.yaml", {}, environ), watch=False, acts=True))
        assert not isinstance(parts.ledger, AbsentLedger)
        made = Stage(scenario, folder, start, time, api, app.controller(parts), parts.ledger)
        made.populate()
        time.at = start
        yield made


# --- Policies ---------------------------------------------------------------------------------------------------------


@cache
def _shipped() -> tuple[tuple[str, tuple[dict[str, Any], ...]], ...]:
    """The shipped documents by file; not to be changed."""
    files = sorted(file for file in shipped_policies().glob("*.yaml") if not file.stem.endswith("_test"))
    return tuple((file.stem, tuple(yaml.safe_load_all(file.read_text(encoding="utf-8")))) for file in files)


def _write_policies(scenario: Scenario, target: Path) -> None:
    """The shipped ones in enforce mode, with what the scenario has otherwise. JSON is YAML, and quickly written."""
    target.mkdir()
    wanted = scenario.enforced
    kept = [(stem, d) for stem, d in _shipped() if d[0]["kind"] != "Policy" or not wanted or stem in wanted]
    needed = {name for _, documents in kept for document in documents for name in _signals(document)}
    needed |= {"node.uptime"}
    for stem, documents in kept:
        every = [d for d in documents if d["kind"] != "Signal" or d["metadata"]["name"] in needed]
        if not every:
            continue
        written = [json.dumps(_changed(document, scenario), ensure_ascii=False) for document in every]
        (target / f"{stem}.yaml").write_text("\n---\n".join(written) + "\n", encoding="utf-8")
    if unknown := wanted - {stem for stem, _ in _shipped()}:
        raise ValueError(f"{scenario.title}: there is no policy {', '.join(sorted(unknown))}")


def _signals(document: Mapping[str, Any]) -> Iterator[str]:
    """What a policy judges; the check of the others would only take time."""
    if document["kind"] == "Policy":
        spec = document["spec"]
        yield from (s["signal"] for s in (spec, spec.get("recovery", {}).get("load", {})) if "signal" in s)


def _changed(document: Mapping[str, Any], scenario: Scenario) -> Mapping[str, Any]:
    kind, spec, name = document["kind"], document["spec"], document["metadata"]["name"]
    if kind == "Policy":
        return {**document, "spec": _merged({**spec, "mode": "enforce"}, scenario.edits.get(name, {}))}
    if kind == "Fleet":
        first, *others = spec["pools"]
        spec = {**spec, "pools": [_merged(first, scenario.pool), *others]}
        return {**document, "spec": _merged(spec, scenario.fleet)}
    return {**document, "spec": _merged(spec, scenario.defaults)} if kind == "Defaults" else document


def _edit(policies: Path, name: str, edit: Mapping[str, Any]) -> None:
    file = policies / f"{name}.yaml"
    document = json.loads(file.read_text(encoding="utf-8"))
    document["spec"] = _merged(document["spec"], edit)
    file.write_text(json.dumps(document, ensure_ascii=False) + "\n", encoding="utf-8")


def _merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings by their keys, anything else as a whole; None takes the key away."""
    out = dict(before)
    for key, value in changes.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = _merged(out[key], value)
        else:
            out[key] = value
    return out


# --- Pods -------------------------------------------------------------------------------------------------------------


def _pod_name(gang: Gang, node: str) -> str:
    return f"{gang.name}-{node}"


def _pod(gang: Gang, node: str, since: datetime) -> dict[str, Any]:
    begun = timestamp(since - timedelta(hours=1))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang.name, "uid": f"uid-{gang.name}", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": _pod_name(gang, node),
            "namespace": "training",
            "labels": {JOBSET: gang.name},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, "containers": [{"name": "train", "image": "registry.example.com/train:1"}]},
        "status": {
            "phase": "Running",
            "startTime": begun,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": "train",
                    "image": "registry.example.com/train:1",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": begun}},
                }
            ],
        },
    }
