"""HTTP with the API server, through the official client's authentication and TLS; bodies are read raw, by us.

The typed client takes twice as long for a list, its `Watch` cannot see a 410, and its default patch is a strategic one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from kubernetes.client.exceptions import ApiException
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import ReadTimeoutError

from quarantine.adapters.kube.records import (
    EVENT_NAMESPACE,
    MANAGER,
    Garbled,
    event_body,
    merge_patch,
    node_record,
)
from quarantine.adapters.kube.translate import Call, Expired, garbled, parse_status, translated
from quarantine.core.errors import ClusterUnavailable
from quarantine.core.marks import NodeEvent, NodePatch
from quarantine.core.model import Node

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_CHUNK = 1 << 16  # bytes
_PATIENCE = 6  # a body that trickles may take this many time-outs in all; each wait within it only one


class Quiet(ClusterUnavailable):
    """A watch over which nothing came for too long: it may be dead, and nobody would tell."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All nodes at one version of the cluster: what a watch goes on from."""

    nodes: Mapping[str, Node]
    version: str


@dataclass(slots=True)
class ApiServer:
    """The calls that are used, each bounded in time, none repeated. Raises `core.errors`; thread-safe.

    `url` is the API server's without credentials, `timeout` what connecting, and each wait for data, may take.
    """

    client: ApiClient
    url: str
    timeout: timedelta
    prefix: str
    page: int = 500
    annotations: frozenset[str] = frozenset()  # kept besides those under the prefix
    _open: set[BaseHTTPResponse] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

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
        ask = self._ask(
            "list_node",
            watch=True,
            allow_watch_bookmarks=True,
            resource_version=version,
            timeout_seconds=max(1, round(lasting.total_seconds())),
        )
        with self._answer(call, ask) as response:
            # The headers come at once, so only now may it take longer.
            if (sock := getattr(response.connection, "sock", None)) is not None:
                sock.settimeout(quiet.total_seconds())
            try:
                yield from _lines(response)
            except ReadTimeoutError as error:
                raise Quiet(call.sentence("said nothing for too long", "the nodes will be listed again")) from error

    def patch_node(self, patch: NodePatch) -> Node:
        """One merge patch with its preconditions. Raises Conflict, NodeGone, ClusterRefused, ClusterUnavailable."""
        call = Call(self.url, f"patching node {patch.node}", "patch on nodes", node=patch.node)
        ask = self._ask(
            "patch_node",
            patch.node,
            merge_patch(patch),
            field_manager=MANAGER,
            _content_type="application/merge-patch+json",
        )
        with self._answer(call, ask) as response:
            return self._node(call, self._body(call, response))

    def create_event(self, event: NodeEvent, at: datetime) -> None:
        """Post an Event. That one of this name exists already is success."""
        call = Call(self.url, f"writing an event about node {event.node}", "create on events")
        ask = self._ask("create_namespaced_event", EVENT_NAMESPACE, event_body(event, at), field_manager=MANAGER)

        def unless_there() -> BaseHTTPResponse | None:
            try:
                return ask()
            except ApiException as error:
                if error.status == 409 and parse_status(error.body).reason == "AlreadyExists":
                    return None
                raise

        with translated(call):
            if (response := unless_there()) is None:
                return
            with self._kept(call, response):
                self._body(call, response)

    def close(self) -> None:
        """End every answer that is being read, whichever thread reads it, and give up the connections."""
        with self._lock:
            self._closed = True
            for response in self._open:
                # Only shutting the socket wakes a reader; closing would wait for it.
                with suppress(OSError, ValueError, RuntimeError):
                    response.shutdown()
        # `clear` alone leaves the sockets to the garbage collector, and an error's traceback keeps the pool alive.
        manager = self.client.rest_client.pool_manager
        for key in manager.pools.keys():  # noqa: SIM118 - a container of urllib3's that refuses iteration
            if (pool := manager.pools.get(key)) is not None:
                pool.close()
        manager.clear()

    def _list(self) -> Listing:
        call = Call(self.url, "listing nodes", "list on nodes")
        nodes: dict[str, Node] = {}
        version = token = ""
        while True:
            with self._answer(call, self._ask("list_node", limit=self.page, _continue=token or None)) as response:
                body = self._body(call, response)
            items = [] if body.get("items") is None else body["items"]  # Go writes an empty list as null
            if body.get("kind") != "NodeList" or not isinstance(items, list):
                raise garbled(call, "something that is no list of nodes")
            for item in items:
                node = self._node(call, item)
                nodes[node.name] = node
            meta = body.get("metadata") or {}
            version = version or str(meta.get("resourceVersion") or "")
            last, token = token, str(meta.get("continue") or "")
            if not token:
                break
            if token == last:
                raise garbled(call, "the same page twice")
        if not version:
            raise garbled(call, "a list of nodes without a resourceVersion")
        return Listing(nodes, version)

    def _ask(self, method: str, *args: object, **options: object) -> Callable[[], BaseHTTPResponse]:
        from kubernetes.client import CoreV1Api

        seconds = self.timeout.total_seconds()
        asked = getattr(CoreV1Api(self.client), method)
        return lambda: cast(
            BaseHTTPResponse, asked(*args, **options, _preload_content=False, _request_timeout=(seconds, seconds))
        )

    @contextmanager
    def _answer(self, call: Call, ask: Callable[[], BaseHTTPResponse]) -> Iterator[BaseHTTPResponse]:
        with translated(call), self._kept(call, ask()) as response:
            yield response

    @contextmanager
    def _kept(self, call: Call, response: BaseHTTPResponse) -> Iterator[BaseHTTPResponse]:
        try:
            with self._lock:
                if self._closed:
                    raise ClusterUnavailable(call.sentence("was let go of", "this process is stopping"))
                self._open.add(response)
            yield response
        finally:
            with self._lock:
                self._open.discard(response)
            response.close()  # its connection is back in the pool by now, where it was read to its end

    def _body(self, call: Call, response: BaseHTTPResponse) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE * self.timeout.total_seconds()
        data = bytearray()
        while chunk := response.read1(_CHUNK):
            data += chunk
            if time.monotonic() > deadline:
                raise ClusterUnavailable(call.sentence("took too long to answer", "it will be tried again"))
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            kind = response.headers.get("Content-Type", "no content type").split(";")[0]
            raise garbled(call, f"something that is no JSON ({kind})") from error
        if not isinstance(body, dict):
            raise garbled(call, "JSON that is no object")
        return body

    def _node(self, call: Call, raw: object) -> Node:
        try:
            return node_record(raw, self.prefix, self.annotations)
        except Garbled as error:
            raise garbled(call, str(error)) from error


def _lines(response: BaseHTTPResponse) -> Iterator[bytes]:
    rest = bytearray()
    while chunk := response.read1(_CHUNK):
        rest += chunk
        *complete, tail = rest.split(b"\n")
        rest = bytearray(tail)
        yield from (bytes(line) for line in complete if line.strip())
