"""The text that dcgm-exporter serves: its metrics, help texts, label order and number format."""

from __future__ import annotations

from itertools import chain

from quarantine.sandbox.simgpu import DRIVER, MODEL, SimGpu
from quarantine.sandbox.simnode import SimNode

CONTENT_TYPE = "text/plain; charset=utf-8"

# The default counters of dcgm-exporter and the NVLink error counters, in the order of `SimGpu.readings`.
FIELDS: tuple[tuple[str, str, str], ...] = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."),
    ("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."),
    ("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB)."),
    ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink flow-control CRC errors."),
    ("DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink data CRC errors."),
    ("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries."),
    ("DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink recovery errors."),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter", "Total number of NVLink bandwidth counters for all lanes."),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status"),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for uncorrectable errors"),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors"),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active."),
    (
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
    ),
)
INDEX = {name: position for position, (name, _, _) in enumerate(FIELDS)}
_TEMPERATURE = INDEX["DCGM_FI_DEV_GPU_TEMP"]
_XID = "DCGM_FI_DEV_XID_ERRORS"
_XID_TEXT = {
    0: "No Error",
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "Preemptive cleanup, due to previous errors -- Most likely to see when running multiple cuda applications "
    "and hitting a DBE",
    48: "Double Bit ECC Error",
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    74: "NVLINK Error",
    79: "GPU has fallen off the bus",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    119: "GSP RPC timeout",
}


def render(node: SimNode, t: float) -> bytes:
    """The body of /metrics. Uses up one sample of a spike."""
    layout = node.layout.get("dcgm")
    if layout is None:
        layout = node.layout["dcgm"] = _layout(node)
    lost = node.lost()
    rows = [gpu.readings(t) for gpu in node.gpus if gpu.index not in lost]
    if node.spikes or node.sentinels():
        rows = _altered(node, rows, [gpu.index for gpu in node.gpus if gpu.index not in lost])
    return (layout % tuple(chain.from_iterable(zip(*rows, strict=True)))).encode()


def _altered(node: SimNode, rows: list[tuple[str, ...]], indices: list[int]) -> list[tuple[str, ...]]:
    spiked, sentinels = node.spiked(), node.sentinels()
    out = []
    for index, row in zip(indices, rows, strict=True):
        changed = list(row)
        if index in spiked:
            changed[_TEMPERATURE] = str(spiked[index])
        for (gpu, metric), value in sentinels.items():
            if gpu == index:
                changed[INDEX[metric]] = str(value)
        out.append(tuple(changed))
    return out


def _layout(node: SimNode) -> str:
    """Everything but the values, which change at every scrape while the labels do not: one `%` fills them in."""
    lost = node.lost()
    gpus = [gpu for gpu in node.gpus if gpu.index not in lost]
    lines: list[str] = []
    for name, kind, text in FIELDS if gpus else ():
        lines += [f"# HELP {name} {text}\n# TYPE {name} {kind}\n".replace("%", "%%")]
        lines += [f"{name}{_labels(node, gpu)}".replace("%", "%%") + " %s\n" for gpu in gpus]
    xids = node.xids() if node.modern else dict.fromkeys((g.index for g in gpus), 0) | node.xids()
    shown = [(gpu, xids[gpu.index]) for gpu in gpus if gpu.index in xids]
    if shown:
        lines += [f"# HELP {_XID} Value of the last XID error encountered.\n# TYPE {_XID} gauge\n"]
    for gpu, code in shown:
        error = {"err_code": str(code), "err_msg": _XID_TEXT.get(code, "Unknown Error")}
        lines += [f"{_XID}{_labels(node, gpu, error)} {code}\n".replace("%", "%%")]
    return "".join(lines)


def _labels(node: SimNode, gpu: SimGpu, more: dict[str, str] | None = None) -> str:
    pod = next((pod for pod in node.pods if gpu.index in pod.gpus), None)
    attributes = dict(more or {})
    if pod is not None:
        attributes |= {"container": pod.container, "namespace": pod.namespace, "pod": pod.name}
    labels = {
        "gpu": str(gpu.index),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci_bus_id,
        "device": f"nvidia{gpu.index}",
        "modelName": MODEL,
        "hostname" if node.modern else "Hostname": node.name,
        "DCGM_FI_DRIVER_VERSION": DRIVER,
        **dict(sorted(attributes.items())),
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
