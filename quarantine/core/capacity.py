"""How many GPUs a node has, by its own word. What the device plugin declares may be more: GPUs times replicas."""

from __future__ import annotations

from collections.abc import Mapping

# NVIDIA's GPU feature discovery sets these. With time-slicing or MPS, `nvidia.com/gpu` counts each GPU once a replica.
COUNT = "nvidia.com/gpu.count"
REPLICAS = "nvidia.com/gpu.replicas"
SHARING = "nvidia.com/gpu.sharing-strategy"
PRODUCT = "nvidia.com/gpu.product"
_SLICE = "nvidia.com/mig-"  # begins the labels of MIG's slices, one set for each profile


def whole_gpus(declared: int | None, labels: Mapping[str, str]) -> int | None:
    """The GPUs of a node of which the device plugin declares so many; None: it cannot be told.

    `labels` are the node's. A count that may be one of shares or of MIG slices is none: it would make every healthy
    node of that kind one that lacks GPUs.
    """
    if "-MIG-" in labels.get(PRODUCT, "") or any(key.startswith(_SLICE) for key in labels):
        return None
    count, replicas = _whole(labels.get(COUNT)), _whole(labels.get(REPLICAS))
    if count is not None:
        return count
    if declared is None:
        return None
    if replicas is not None and replicas > 1:
        # What is no multiple counts GPUs of several kinds, of which only some are shared.
        return declared // replicas if declared % replicas == 0 else None
    return declared if labels.get(SHARING, "none") in {"", "none"} else None


def _whole(text: str | None) -> int | None:
    """A whole number above zero; anything else says nothing."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 6):
        return None
    return int(text) or None
