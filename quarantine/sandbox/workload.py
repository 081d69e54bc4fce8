"""What runs on the simulated machines: gangs that train over several nodes, and inference servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quarantine.sandbox.dice import Dice

GANG_LABEL = "training.kubeflow.org/job-name"
TRAINING, INFERENCE = 1.0, 0.8  # activity


@dataclass(frozen=True, slots=True)
class SimPod:
    """A pod and the GPUs of its node that it has."""

    kind: Literal["training", "inference"]
    name: str
    namespace: str
    container: str
    owner: str  # the PyTorchJob or ReplicaSet
    index: int  # its rank in the gang, or which replica
    gpus: tuple[int, ...]
    uid: str
    owner_uid: str

    @property
    def activity(self) -> float:
        """How hard it works its GPUs."""
        return TRAINING if self.kind == "training" else INFERENCE

    def kubernetes(self, node: str) -> dict[str, Any]:
        """The Pod object, running on `node`."""
        training = self.kind == "training"
        labels = (
            {GANG_LABEL: self.owner, "training.kubeflow.org/replica-index": str(self.index)}
            if training
            else {"app": self.owner.rpartition("-")[0], "pod-template-hash": self.owner.rpartition("-")[2]}
        )
        resources = {"nvidia.com/gpu": str(len(self.gpus)), "cpu": "96" if training else "32", "memory": "800Gi"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "labels": labels,
                "ownerReferences": [
                    {
                        "apiVersion": "kubeflow.org/v1" if training else "apps/v1",
                        "kind": "PyTorchJob" if training else "ReplicaSet",
                        "name": self.owner,
                        "uid": self.owner_uid,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "nodeName": node,
                "restartPolicy": "OnFailure" if training else "Always",
                "terminationGracePeriodSeconds": 300 if training else 30,
                "containers": [
                    {
                        "name": self.container,
                        "image": f"registry.example.com/{self.namespace}/{self.container}:1",
                        "resources": {"limits": resources, "requests": resources},
                    }
                ],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [
                    {
                        "name": self.container,
                        "image": f"registry.example.com/{self.namespace}/{self.container}:1",
                        "imageID": "",
                        "ready": True,
                        "restartCount": 0,
                        "state": {"running": {}},
                    }
                ],
            },
        }


def training_pod(dice: Dice, job: str, index: int, gpus: int) -> SimPod:
    """A worker of a gang, with all of its node's GPUs."""
    return SimPod(
        kind="training",
        name=f"{job}-worker-{index}",
        namespace="training",
        container="pytorch",
        owner=job,
        index=index,
        gpus=tuple(range(gpus)),
        uid=dice.uuid(f"{job}/{index}"),
        owner_uid=dice.uuid(job),
    )


def inference_pods(dice: Dice, deployment: str, first: int, gpus: int) -> tuple[SimPod, ...]:
    """Two replicas of an inference server that share a node."""
    replica_set = f"{deployment}-{dice.hex(deployment, 10)}"
    half = gpus // 2
    return tuple(
        SimPod(
            kind="inference",
            name=f"{replica_set}-{dice.word(f'{deployment}/{first + n}', 5)}",
            namespace="inference",
            container="server",
            owner=replica_set,
            index=first + n,
            gpus=share,
            uid=dice.uuid(f"{deployment}/{first + n}"),
            owner_uid=dice.uuid(replica_set),
        )
        for n, share in enumerate((tuple(range(half)), tuple(range(half, gpus))))
    )


def assign(
    dice: Dice, nodes: Sequence[str], *, gang: int, inference_share: float, gpus: int
) -> list[tuple[SimPod, ...]]:
    """The pods of each node: the last nodes serve inference, the others train in gangs of up to `gang` nodes."""
    serving = int(len(nodes) * inference_share)
    training = len(nodes) - serving
    pods = []
    for i in range(training):
        job = f"pretrain-{dice.word(f'gang{i // gang}', 5)}"
        pods.append((training_pod(dice, job, i % gang, gpus),))
    return pods + [inference_pods(dice, "chat-api", 2 * i, gpus) for i in range(serving)]
