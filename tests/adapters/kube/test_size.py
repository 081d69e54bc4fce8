"""What a large cluster costs: 2,000 nodes of 15 KB, served over HTTP in pages of 500."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quarantine.adapters.kube import KubeCluster
from tests.adapters.kube.scripted import Exchange, Scripted
from tests.adapters.kube.support import listed, served

COUNT, PAGE, SAMPLE = 2000, 500, 100
LABELS = {f"feature.node.example/cpu-cpuid.{i:02d}": "true" for i in range(40)}
IMAGES = [{"names": [f"registry.example/team/image-{i}@sha256:{i:064x}"], "sizeBytes": i} for i in range(95)]


def big(i: int) -> dict[str, Any]:
    name = f"gpu-{i:04d}"
    node = served(
        name,
        str(1000 + i),
        spec={"providerID": f"test:///{name}", "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        status={
            "nodeInfo": {"systemUUID": f"su-{i}", "bootID": f"b-{i}"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": f"10.0.{i // 256}.{i % 256}"}],
            "images": IMAGES,
        },
    )
    node["metadata"]["labels"] = {**LABELS, "kubernetes.io/hostname": name}
    node["metadata"]["annotations"] = {"csi.example/nodeid": "x" * 200, "quarantine.gpu/case": f"c{i}"}
    return node


@pytest.fixture(scope="module")
def pages() -> list[bytes]:
    def page(first: int) -> Iterator[dict[str, Any]]:
        return (big(i) for i in range(first, first + PAGE))

    starts = range(0, COUNT, PAGE)
    return [json.dumps(listed(*page(s), token=f"{s + PAGE}" if s + PAGE < COUNT else "")).encode() for s in starts]


def test_two_thousand_nodes(scripted: Scripted, to_scripted: Callable[..., KubeCluster], pages: list[bytes]) -> None:
    def script(exchange: Exchange) -> None:
        _, _, token = exchange.path.partition("continue=")
        exchange.answer(pages[int(token.partition("&")[0] or 0) // PAGE])

    scripted.script = script
    cluster = to_scripted(timeout=30.0, watch=False, page=PAGE)
    size = sum(map(len, pages)) / COUNT
    assert 14_000 < size < 17_000

    begun = time.monotonic()
    assert len(cluster.nodes()) == COUNT
    took = time.monotonic() - begun

    few = listed(*(big(i) for i in range(SAMPLE)))  # tracing memory is slow
    scripted.script = lambda exchange: exchange.answer(few)
    gc.collect()
    tracemalloc.start()
    nodes = cluster.nodes()
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    print(f"{COUNT} nodes of {size:.0f} B: {took:.2f} s; {kept / SAMPLE:.0f} B kept of each")
    assert took < 90  # 3 to 7 s; a loaded machine takes many times that
    assert kept / SAMPLE < size / 4
    assert len({id(key) for node in nodes.values() for key in node.labels}) == len(LABELS) + 1  # each held once
