"""How many GPUs a node has: its capacity counts shares of them where they are shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.capacity import whole_gpus

COUNT, REPLICAS, SHARING = "nvidia.com/gpu.count", "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("declared", "labels", "has"),
    [
        (8, {}, 8),
        (None, {}, None),
        (8, {COUNT: "8", REPLICAS: "1", SHARING: "none"}, 8),
        (32, {COUNT: "8", REPLICAS: "4", SHARING: "time-slicing"}, 8),
        (32, {REPLICAS: "4", SHARING: "time-slicing"}, 8),
        (32, {REPLICAS: "4"}, 8),
        (32, {SHARING: "time-slicing"}, None),
        (32, {SHARING: "mps"}, None),
        (32, {SHARING: "what comes next"}, None),
        (30, {REPLICAS: "4"}, None),
        (None, {COUNT: "8"}, 8),
        (8, {COUNT: "none", REPLICAS: "-4"}, 8),
        (8, {COUNT: "0"}, 8),
        (8, {COUNT: "9" * 5000, REPLICAS: "٤"}, 8),
        # MIG: what is counted are slices, in the strategy `single` under the GPU's own name.
        (56, {COUNT: "56", REPLICAS: "1", PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}, None),
        (4, {COUNT: "4", PRODUCT: "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-1g.10gb.count": "28"}, None),
    ],
)
def test_what_is_shared_is_counted_once(declared: int | None, labels: dict[str, str], has: int | None) -> None:
    assert whole_gpus(declared, labels) == has


@given(gpus=st.integers(1, 16), replicas=st.integers(1, 64), counted=st.booleans(), said=st.booleans())
def test_no_sharing_makes_a_node_have_more_than_it_has(gpus: int, replicas: int, counted: bool, said: bool) -> None:
    labels = {SHARING: "time-slicing" if replicas > 1 else "none"}
    labels |= {COUNT: str(gpus)} if counted else {}
    labels |= {REPLICAS: str(replicas)} if said else {}
    assert whole_gpus(gpus * replicas, labels) in {gpus, None}
