"""What is absent, told by counting: what a node shows against what it should have, and nodes that show nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quarantine.core.fleet import Pool
from quarantine.core.model import DeviceKind, Node

_PLURAL = {DeviceKind.GPU: "GPUs", DeviceKind.IB_PORT: "InfiniBand ports", DeviceKind.NVLINK: "NVLinks"}


@dataclass(frozen=True, slots=True)
class Stock:
    """What is known of a node's devices of one kind, by number; None: it is not known."""

    seen: int | None  # the whole `for` long
    declared: int | None  # by people, of every machine of the pool
    expected: int | None  # by people, or by the node itself
    lacking: int = 0  # fewer than the node showed before
    named: int = 0  # devices that were there before and are not now
    before: int | None = None  # as many as the reading that misses most ever saw

    @property
    def complete(self) -> bool:
        """All are seen, by one reading or another.

        As many as people declare: what else there was before is of no interest. Or as many as were ever seen and as the
        node itself says: what one exporter misses another one sees, under whatever name.
        """
        if self.seen is None:
            return False
        if self.declared is not None:
            return self.seen >= self.declared
        return self.before is not None and self.seen >= max(self.before, self.expected or 0)

    @property
    def nameless(self) -> bool:
        """Something is missing, and it cannot be told which.

        Nothing is remembered of it, or more names are gone than devices: a machine was swapped, or a label renamed.
        """
        if self.named:
            return self.named > max(self.lacking, self._short)
        return self._short > 0 and not self.may_share

    @property
    def numbers(self) -> str:
        """` (8 expected, 7 seen)`, as far as they are known."""
        total = self._total
        return "" if self.seen is None or total is None else f" ({total} expected, {self.seen} seen)"

    def sentence(self, node: str, kind: DeviceKind) -> str:
        """`7 of the 8 GPUs of node-7 are seen`."""
        total = self._total
        if self.seen is None or total is None:
            return f"{_PLURAL[kind]} of {node} are missing"
        return f"{self.seen} of the {total} {_PLURAL[kind]} of {node} are seen"

    @property
    def may_share(self) -> bool:
        """The node's own word is a multiple of what is seen: it may count the shares of each device (time-slicing)."""
        if self.declared is not None or self.expected is None or not self.seen:
            return False
        return self.expected % self.seen == 0

    @property
    def _short(self) -> int:
        # A node that shows nothing is blind; that is another matter, and another policy's.
        return max(0, self.expected - self.seen) if self.expected is not None and self.seen else 0

    @property
    def _total(self) -> int | None:
        return self.expected if self.expected is not None else None if self.seen is None else self.seen + self.lacking


def stock(
    node: Node,
    kind: DeviceKind,
    pool: Pool | None,
    seen: int | None,
    lacking: int,
    named: int,
    before: int | None = None,
) -> Stock:
    """What a node should have: what its pool declares; of GPUs, failing that, what the node does.

    The node's own word may shrink with the loss, so that it alone clears nothing.
    """
    of_pool = pool.expected if pool is not None else None
    declared = None
    if of_pool is not None and kind is DeviceKind.GPU:
        declared = of_pool.gpus
    elif of_pool is not None and kind is DeviceKind.IB_PORT:
        declared = of_pool.ib_ports
    own = node.gpus if kind is DeviceKind.GPU else None
    return Stock(seen, declared, declared if declared is not None else own, lacking, named, before)


def wanted(node: Node, kind: DeviceKind, pool: Pool | None, seen: int, known: int = 0) -> int:
    """How many devices must be seen of a node before it can be said that none of them is bad; one at least.

    What its pool declares; failing that, of GPUs, what the node says and what is `known` of it by record. A node's word
    that is a multiple of what is seen may count shares.
    """
    found = stock(node, kind, pool, seen, 0, 0)
    if found.declared is not None:
        return max(1, found.declared)
    return max(1, known, (0 if found.may_share else found.expected) or 0)


def silent(nodes: Mapping[str, Node], seen: Mapping[str, int]) -> Iterator[Node]:
    """The nodes that are up and show nothing, while others do. One that is not ready is down and not blind."""
    if any(seen.get(name) for name in nodes):
        yield from (node for name, node in nodes.items() if node.ready is True and not seen.get(name))
