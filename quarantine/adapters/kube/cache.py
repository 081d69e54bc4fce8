"""The nodes as the watch tells them, with our own writes put in before the watch brings them back.

Order matters. A watch tells one object's versions in order, but it may lag behind a write of ours; what it then tells
of that node is older than what we know. Kubernetes 1.35 and later promise that resourceVersions compare as integers;
where they are not integers, the precondition of our write names the version it replaced, and that is order enough.

Who took our taint away is seen only in the version in which it went: a moment later another program may have written
the list for reasons of its own (after `kubectl taint` and `kubectl uncordon` the node controller does), so that is kept
while the taint is away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType

from quarantine.adapters.kube.api import Listing
from quarantine.core.errors import ClusterRefused, ClusterUnavailable, QuarantineError
from quarantine.core.model import Node


@dataclass(frozen=True, slots=True)
class _OwnWrite:
    """A write that the watch has not told yet."""

    number: int
    replaced: frozenset[str]  # versions known to be older than the cached one


class NodeCache:
    """All nodes by name. Thread-safe. `monotonic` is a clock in seconds, `taint` the key of ours."""

    def __init__(self, url: str, monotonic: Callable[[], float], taint: str = "") -> None:
        self._url = url
        self._taint = taint
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._nodes: dict[str, Node] = {}
        self._own: dict[str, _OwnWrite] = {}
        self._writes = 0
        self._alive_at: float | None = None  # None: never listed
        self._trouble: QuarantineError | None = None
        self._closed = False

    # --- the watch's side

    def writes(self) -> int:
        """How many own writes there have been: read before a list is begun, and handed to `replace`."""
        with self._changed:
            return self._writes

    def replace(self, listing: Listing, writes_before: int) -> None:
        """Take a whole list. Own writes later than its beginning stay, unless the list has seen them."""
        with self._changed:
            during = {name: own for name, own in self._own.items() if own.number > writes_before}
            kept = {
                name: self._nodes[name]
                for name, own in during.items()
                if (listed := listing.nodes.get(name)) is not None and self._is_older(listed, own)
            }
            listed_now = {name: self._who_untainted(node) for name, node in listing.nodes.items()}
            self._nodes = {**listed_now, **kept}
            self._own = {name: during[name] for name in kept}
            self._live()

    def put(self, node: Node) -> None:
        """The watch told of a node as added or modified."""
        with self._changed:
            own, known = self._own.get(node.name), self._nodes.get(node.name)
            if own is None and known is not None and _is_before(node, known):
                pass  # a list was taken meanwhile, and this is how the node was before it
            elif own is None or not self._is_older(node, own):
                self._own.pop(node.name, None)
                self._nodes[node.name] = self._who_untainted(node)
            self._live()

    def remove(self, node: Node) -> None:
        """The watch told of a node's end. Its successor of the same name, if known already, stays."""
        with self._changed:
            known = self._nodes.get(node.name)
            if known is not None and known.machine.node_uid == node.machine.node_uid:
                del self._nodes[node.name]
                self._own.pop(node.name, None)
            self._live()

    def alive(self) -> None:
        """The watch showed a sign of life without news: a bookmark."""
        with self._changed:
            self._live()

    def failed(self, error: QuarantineError) -> None:
        """What the watch last stumbled over, to be told with a stale answer."""
        with self._changed:
            self._trouble = error
            self._changed.notify_all()

    # --- the cycle's side

    def wrote(self, node: Node, replaced: str) -> None:
        """A write of ours succeeded: `node` is what became of the version `replaced`.

        Ignored where the cache knows better: the watch was faster, or the node is gone.
        """
        with self._changed:
            self._writes += 1
            known = self._nodes.get(node.name)
            if known is None or known.machine.node_uid != node.machine.node_uid:
                return
            if known.resource_version == node.resource_version or not _is_newer(node, known, replaced):
                return
            before = self._own.get(node.name)
            older = (before.replaced if before else frozenset()) | {known.resource_version, replaced}
            self._own[node.name] = _OwnWrite(self._writes, older)
            self._nodes[node.name] = self._who_untainted(node)

    def known(self, name: str) -> Node | None:
        """What is known of a node, however old; None where it is not known."""
        with self._changed:
            return self._nodes.get(name)

    def read(self, *, until: float, stale_after: timedelta) -> Mapping[str, Node]:
        """A copy. Waits for the first list until `until` (on `monotonic`). Raises ClusterUnavailable.

        `stale_after` is the longest time without a sign of life for which the nodes are believed.
        """
        with self._changed:
            self._changed.wait_for(self._settled, max(0.0, until - self._monotonic()))
            if self._closed:
                raise ClusterUnavailable(f"The watch of nodes at {self._url} was closed; start the controller again.")
            if self._alive_at is None:
                raise ClusterUnavailable(
                    f"The nodes have not been listed yet: {self._cause()}", retry_after=_wish(self._trouble)
                ) from self._trouble
            age = self._monotonic() - self._alive_at
            if age > stale_after.total_seconds():
                raise ClusterUnavailable(
                    f"What is known of the nodes is {age:.0f} s old and not used: {self._cause()}",
                    retry_after=_wish(self._trouble),
                ) from self._trouble
            return MappingProxyType(dict(self._nodes))

    def close(self) -> None:
        """Wake whoever waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- inside, with the lock held

    def _settled(self) -> bool:
        # A refusal does not go away by waiting.
        return self._closed or self._alive_at is not None or isinstance(self._trouble, ClusterRefused)

    def _live(self) -> None:
        self._alive_at = self._monotonic()
        self._trouble = None
        self._changed.notify_all()

    def _who_untainted(self, node: Node) -> Node:
        """The node, which lacks our taint as it did before: `tainted_by` stays who took it away."""
        known = self._nodes.get(node.name)
        if known is None or known.machine.node_uid != node.machine.node_uid or known.tainted_by == node.tainted_by:
            return node
        if self._tainted(known) or self._tainted(node):
            return node
        return replace(node, tainted_by=known.tainted_by)

    def _tainted(self, node: Node) -> bool:
        return any(taint.key == self._taint for taint in node.taints)

    def _is_older(self, told: Node, own: _OwnWrite) -> bool:
        known = self._nodes[told.name]
        if told.machine.node_uid != known.machine.node_uid or told.resource_version == known.resource_version:
            return False
        numbers = _version(told), _version(known)
        if numbers[0] is not None and numbers[1] is not None:
            return numbers[0] < numbers[1]
        return told.resource_version in own.replaced

    def _cause(self) -> str:
        return str(self._trouble) if self._trouble else f"the Kubernetes API at {self._url} has not answered yet."


def _is_before(told: Node, known: Node) -> bool:
    numbers = _version(told), _version(known)
    return numbers[0] is not None and numbers[1] is not None and numbers[0] < numbers[1]


def _is_newer(written: Node, known: Node, replaced: str) -> bool:
    numbers = _version(written), _version(known)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] > numbers[1]
    return known.resource_version == replaced


def _version(node: Node) -> int | None:
    text = node.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) < 40 else None


def _wish(error: QuarantineError | None) -> timedelta | None:
    return error.retry_after if isinstance(error, ClusterUnavailable) else None
