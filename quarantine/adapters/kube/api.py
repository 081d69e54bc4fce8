"""Nodes and Events at the API server: what is asked, and what of the answer is kept.

Lines of a watch are read by us: the official client's `Watch` cannot see a 410, and its default patch is a strategic
one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import ReadTimeoutError

from quarantine.adapters.kube.fields import mapping, text_at
from quarantine.adapters.kube.records import (
    EVENT_NAMESPACE,
    MANAGER,
    Garbled,
    condition_patch,
    event_body,
    merge_patch,
    node_record,
)
from quarantine.adapters.kube.translate import Call, Expired, garbled
from quarantine.adapters.kube.transport import CHUNK, Transport
from quarantine.core.errors import ClusterUnavailable
from quarantine.core.marks import NodeCondition, NodeEvent, NodePatch
from quarantine.core.model import Node

# The namespace that a cluster has from its first moment on: the API server makes it, and lets nobody delete it.
_OLDEST = "kube-system"
_LONGEST_UID = 100  # characters


class Quiet(ClusterUnavailable):
    """A watch over which nothing came for too long: it may be dead, and nobody would tell."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All nodes at one version of the cluster: what a watch goes on from."""

    nodes: Mapping[str, Node]
    version: str


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The calls about nodes, each bounded in time, none repeated. Raises `core.errors`; thread-safe."""

    transport: Transport
    prefix: str
    annotations: frozenset[str] = frozenset()  # kept besides those under the prefix

    @property
    def url(self) -> str:
        """The API server's, without credentials."""
        return self.transport.url

    @property
    def timeout(self) -> timedelta:
        """What connecting, and each wait for data, may take."""
        return self.transport.timeout

    def list_nodes(self) -> Listing:
        """All nodes, page by page, as of one moment. An expired page token starts it over once."""
        try:
            return self._list()
        except Expired:
            return self._list()

    def watch_nodes(self, version: str, *, lasting: timedelta, quiet: timedelta) -> Generator[bytes, None, None]:
        """The lines of a watch from `version`, until the server ends it after about `lasting`.

        Raises `Quiet` when nothing comes for `quiet`, `Expired` when the answer is 410, ClusterUnavailable when the
        connection breaks. A half line at the end is dropped: the next watch repeats the event.
        """
        call = Call(self.url, "watching nodes", "watch on nodes")
        ask = self.transport.core(
            "list_node",
            watch=True,
            allow_watch_bookmarks=True,
            resource_version=version,
            timeout_seconds=max(1, round(lasting.total_seconds())),
        )
        with self.transport.answer(call, ask) as response:
            # The headers come at once, so only now may it take longer.
            if (sock := getattr(response.connection, "sock", None)) is not None:
                sock.settimeout(quiet.total_seconds())
            try:
                yield from _lines(response)
            except ReadTimeoutError as error:
                raise Quiet(call.sentence("said nothing for too long", "the nodes will be listed again")) from error

    def identity(self) -> str:
        """What no other cluster is called. Raises ClusterRefused, ClusterUnavailable."""
        call = Call(self.url, "asking whose cluster this is", "get on namespaces")
        body = self.transport.fetch(call, self.transport.core("read_namespace", _OLDEST))
        uid = text_at(mapping(body.get("metadata")), "uid")
        if not uid or not uid.isascii() or not uid.isprintable() or len(uid) > _LONGEST_UID:
            raise garbled(call, f"a namespace {_OLDEST} without a uid")
        return uid

    def patch_node(self, patch: NodePatch) -> Node:
        """One merge patch with its preconditions. Raises Conflict, NodeGone, ClusterRefused, ClusterUnavailable."""
        call = Call(self.url, f"patching node {patch.node}", "patch on nodes", node=patch.node)
        ask = self.transport.core(
            "patch_node",
            patch.node,
            merge_patch(patch),
            field_manager=MANAGER,
            _content_type="application/merge-patch+json",
        )
        return self._node(call, self.transport.fetch(call, ask))

    def patch_condition(self, condition: NodeCondition, at: datetime, *, moved: bool) -> Node:
        """One strategic merge patch of the node's status. `moved`: its status differs from what the node says now."""
        call = Call(
            self.url,
            f"setting the condition of node {condition.node}",
            "patch on nodes/status",
            node=condition.node,
        )
        ask = self.transport.core(
            "patch_node_status",
            condition.node,
            condition_patch(condition, at, moved=moved),
            field_manager=MANAGER,
            _content_type="application/strategic-merge-patch+json",
        )
        return self._node(call, self.transport.fetch(call, ask))

    def create_event(self, event: NodeEvent, at: datetime) -> None:
        """Post an Event. That one of this name exists already is success."""
        call = Call(self.url, f"writing an event about node {event.node}", "create on events")
        body = event_body(event, at)
        ask = self.transport.core("create_namespaced_event", EVENT_NAMESPACE, body, field_manager=MANAGER)
        self.transport.create(call, ask)

    def close(self) -> None:
        """End every answer that is being read, whichever thread reads it, and give up the connections."""
        self.transport.close()

    def _list(self) -> Listing:
        call = Call(self.url, "listing nodes", "list on nodes")
        nodes: dict[str, Node] = {}

        def take(item: object) -> None:
            node = self._node(call, item)
            nodes[node.name] = node

        version = self.transport.pages(
            call,
            "NodeList",
            lambda token: self.transport.core("list_node", limit=self.transport.page, _continue=token),
            take,
        )
        return Listing(nodes, version)

    def _node(self, call: Call, raw: object) -> Node:
        try:
            return node_record(raw, self.prefix, self.annotations)
        except Garbled as error:
            raise garbled(call, str(error)) from error


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = bytearray()
    while chunk := response.read1(CHUNK):
        rest += chunk
        *complete, tail = rest.split(b"\n")
        rest = bytearray(tail)
        yield from (bytes(line) for line in complete if line.strip())
