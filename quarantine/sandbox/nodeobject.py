"""The Node object that a simulated machine has in Kubernetes, as heavy as real ones are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from quarantine.sandbox.dice import Dice
from quarantine.sandbox.simgpu import DRIVER

if TYPE_CHECKING:
    from quarantine.sandbox.simnode import SimNode

KERNEL = "5.15.0-153-generic"

_IMAGES = 50  # the kubelet's limit; they are most of a Node object's weight


def node_object(node: SimNode, *, since: datetime, images: bool = True) -> dict[str, Any]:
    """A ready node with GPUs. `since` is when its conditions last changed; without `images` it is small."""
    stamp = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    gpus = len(node.gpus)
    capacity = {
        "cpu": "192",
        "memory": "2113469044Ki",
        "ephemeral-storage": "3749684544Ki",
        "pods": "110",
        "nvidia.com/gpu": str(gpus),
        "rdma/hca_shared_devices_a": "63",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": _labels(node),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {
            "providerID": node.provider_id,
            "podCIDR": f"10.{100 + node.position // 256}.{node.position % 256}.0/24",
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": node.address},
                {"type": "Hostname", "address": node.name},
            ],
            "capacity": capacity,
            "allocatable": capacity | {"cpu": "190", "memory": "2105080436Ki"},
            "conditions": [
                _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "sufficient memory", stamp),
                _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "no disk pressure", stamp),
                _condition("PIDPressure", "False", "KubeletHasSufficientPID", "sufficient PID", stamp),
                _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", stamp),
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": node.boot_id,
                "containerRuntimeVersion": "containerd://1.7.27",
                "kernelVersion": KERNEL,
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.33.4",
                "machineID": node.machine_id,
                "operatingSystem": "linux",
                "osImage": "Ubuntu 22.04.5 LTS",
                "systemUUID": node.system_uuid,
            },
            "images": _images() if images else [],
        },
    }


def _labels(node: SimNode) -> dict[str, str]:
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "network.topology.nvidia.com/leaf": node.leaf,
        "node.kubernetes.io/instance-type": "gpu-h100-8x",
        "nvidia.com/cuda.driver-version.full": DRIVER,
        "nvidia.com/gpu.count": str(len(node.gpus)),
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": node.zone,
    }


def _condition(kind: str, status: str, reason: str, what: str, stamp: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": what if kind == "Ready" else f"kubelet has {what}",
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }


def _images() -> list[dict[str, Any]]:
    """The same on every node, as on machines that run the same jobs."""
    dice = Dice("images")
    return [
        {
            "names": [
                f"registry.example.com/team-{n % 7}/image-{n:02d}@sha256:{dice.hex(f'digest{n}', 64)}",
                f"registry.example.com/team-{n % 7}/image-{n:02d}:2.{n}.0",
            ],
            "sizeBytes": dice.integer(f"size{n}", 3_000_000, 19_000_000_000),
        }
        for n in range(_IMAGES)
    ]
