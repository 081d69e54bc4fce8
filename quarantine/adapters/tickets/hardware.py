"""Which labels of a series may leave the cluster: those of the hardware, by an allow-list.

An exporter puts the workload's pod, namespace and job on the same series as the GPU's temperature, under names that
differ by version and by relabelling. Naming what may leave is the only list that stays right.
"""

from __future__ import annotations

from collections.abc import Iterable

HARDWARE_LABELS = frozenset(
    {
        # GPUs and NVLinks: dcgm-exporter old and new, nvidia_gpu_exporter, gpud
        *(
            "gpu",
            "uuid",
            "gpu_uuid",
            "gpu_id",
            "pci_bus_id",
            "device",
            "modelname",
            "model_name",
            "serial",
            "gpu_serial",
        ),
        *("gpu_i_id", "gpu_i_profile", "nvlink", "nvswitch", "link", "xid", "err_code", "driver_version"),
        *("dcgm_fi_driver_version", "dcgm_fi_dev_serial", "dcgm_fi_dev_brand", "dcgm_fi_cuda_driver_version"),
        # InfiniBand
        *("port", "hca", "hca_type", "guid", "lid", "board_id", "firmware_version", "device_port"),
        # the machine
        *("hostname", "node", "instance", "system_uuid", "provider_id", "rack", "chassis", "slot"),
    }
)


def hardware_only(labels: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The labels that describe hardware, in their order. Upper and lower case are alike (`Hostname`, `hostname`)."""
    return tuple((name, value) for name, value in labels if name.lower() in HARDWARE_LABELS)
