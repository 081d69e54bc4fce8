"""The simulated cluster: Node objects, jobs that come and go, and procedures that end, in the API emulator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from quarantine.sandbox.kubeapi import KubeApi
from quarantine.sandbox.kubeapi.clock import timestamp
from quarantine.sandbox.kubeapi.errors import ApiError
from tests.soak.fleet import GPUS, Fleet, Machine
from tests.soak.rules import RACK

JOBSET = "jobset.sigs.k8s.io/jobset-name"
RACKS_OF = 32  # machines
GANG = 4  # machines of a job
TAKES = timedelta(minutes=2)  # a procedure
_ENDS_WELL = 0.9  # of the procedures
_PLACED = re.compile("node-[0-9]+")


class SimulatedCluster:
    """What other programs do to the cluster."""

    def __init__(self, api: KubeApi, fleet: Fleet, dice: Random) -> None:
        self._api, self._fleet, self._dice = api, fleet, dice
        self._names = count(1)
        for name in ("training", "quarantine"):
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def join(self, name: str, at: datetime) -> Machine:
        """A machine comes under a name, and its kubelet says what it is."""
        machine = self._fleet.join(name, at)
        number = int(name.rpartition("-")[2])
        labels = {"nvidia.com/gpu.present": "true", RACK: f"r{number // RACKS_OF}"}
        status = {
            "addresses": [{"type": "InternalIP", "address": machine.address}],
            "capacity": {"nvidia.com/gpu": str(GPUS)},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"systemUUID": f"system-{machine.serial}", "bootID": f"boot-{machine.serial}"},
        }
        spec = {"providerID": f"acme://{machine.serial}"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
        self._api.create({**node, "status": status}, manager="kubelet")
        self._api.patch_merge("Node", name, {"status": status}, subresource="status")
        return machine

    def leave(self, name: str) -> None:
        """The machine is taken away, and what runs there is gone with it."""
        self._fleet.leave(name)
        self._api.delete("Node", name)

    def beat(self, name: str, at: datetime) -> None:
        """A kubelet tells that it lives."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": timestamp(at)}
        self._api.patch_merge("Node", name, {"status": {"conditions": [ready]}}, subresource="status")

    def untaint(self, name: str, manager: str) -> None:
        """Somebody writes the list of taints without ours."""
        kept = [t for t in self._api.get("Node", name)["spec"].get("taints") or () if "quarantine" not in t["key"]]
        self._api.patch_merge("Node", name, {"spec": {"taints": kept or None}}, manager=manager)

    # --- Jobs ---------------------------------------------------------------------------------------------------------

    def gangs(self, at: datetime, wanted: int, busy: Iterable[str]) -> None:
        """Old jobs end, new ones begin on machines that are free; what lost a pod ends whole."""
        pods: dict[str, list[dict[str, Any]]] = {}
        for pod in self._api.list("Pod", "training"):
            pods.setdefault(pod["metadata"]["labels"][JOBSET], []).append(pod)
        ended = [name for name, found in pods.items() if len(found) < GANG or self._dice.random() < 0.05]
        for name in ended:
            for pod in pods.pop(name):
                self._drop(pod["metadata"]["name"])
        for found in list(pods.values())[:5]:
            for pod in found:
                notes = {"example.com/last-checkpoint": timestamp(at)}
                meta = pod["metadata"]
                self._api.patch_merge("Pod", meta["name"], {"metadata": {"annotations": notes}}, "training")
        taken = {pod["spec"]["nodeName"] for found in pods.values() for pod in found} | set(busy)
        free = [name for name in self._fleet.machines if name not in taken]
        self._dice.shuffle(free)
        while len(pods) < wanted and len(free) >= GANG:
            name, places = f"run-{next(self._names)}", [free.pop() for _ in range(GANG)]
            pods[name] = [self._run(name, node, at) for node in places]

    def procedures(self, at: datetime) -> Iterator[tuple[str, str]]:
        """Those that have run for long enough end; of what was done well, the Job's name and the machine."""
        for job in self._api.list("Job", "quarantine"):
            meta = job["metadata"]
            over = any(c["status"] == "True" for c in job.get("status", {}).get("conditions", ()))
            if over or datetime.fromisoformat(meta["creationTimestamp"]) + TAKES > at:
                continue
            well = self._dice.random() < _ENDS_WELL
            self._api.end_job(meta["name"], "quarantine", failed="" if well else "BackoffLimitExceeded")
            placed = _PLACED.search(str(job["spec"]["template"]["spec"]["affinity"]))
            if well and placed is not None:
                yield meta["name"], placed[0]

    def _drop(self, name: str) -> None:
        try:
            self._api.delete("Pod", name, "training")
        except ApiError:
            return  # evicted meanwhile

    def _run(self, gang: str, node: str, at: datetime) -> dict[str, Any]:
        begun = timestamp(at)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": gang, "uid": f"uid-{gang}", "controller": True}
        name = f"{gang}-{node}"
        meta = {"name": name, "namespace": "training", "labels": {JOBSET: gang}, "ownerReferences": [owner]}
        container = {"name": "train", "image": "registry.example.com/train:1"}
        said = {**container, "imageID": "", "ready": True, "restartCount": 0}
        status = {
            "phase": "Running",
            "startTime": begun,
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{**said, "state": {"running": {"startedAt": begun}}}],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"nodeName": node, "containers": [container]},
        }
        self._api.create(pod)
        return self._api.patch_merge(
            "Pod", name, {"status": status}, "training", manager="kubelet", subresource="status"
        )


def let_go(at: datetime) -> dict[str, Any]:
    """A Lease that its last holder let go in order, as client-go does it: whoever comes takes it at once."""
    moment = at.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": moment, "renewTime": moment}
    meta = {"name": "quarantine-controller", "namespace": "default"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
