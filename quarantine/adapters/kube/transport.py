"""HTTP with the API server, through the official client's authentication and TLS; bodies are read raw, by us.

The typed client takes twice as long for a list, and refuses fields that are newer than itself.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from kubernetes.client.exceptions import ApiException
from urllib3 import BaseHTTPResponse

from quarantine.adapters.kube.translate import Call, garbled, parse_status, quote, translated
from quarantine.core.errors import ClusterUnavailable

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

CHUNK = 1 << 16  # bytes
_PATIENCE = 6  # a body that trickles may take this many time-outs in all; each wait within it only one

_SHORTEST = 6  # characters; to hide a shorter secret would blot out half of what is said

Ask = Callable[[], BaseHTTPResponse]
Page = Callable[[str | None], Ask]  # by its continue token; None: the first


@dataclass(slots=True)
class Transport:
    """Asks the API server, each time bounded in time, never twice. Raises `core.errors`; thread-safe.

    `url` is the API server's without credentials, `timeout` what connecting, and each wait for data, may take. `page`
    is how many objects a list is read by at once.
    """

    client: ApiClient
    url: str
    timeout: timedelta
    page: int = 500
    _open: set[BaseHTTPResponse] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    @property
    def patience(self) -> timedelta:
        """How long an answer may take in all, when each part of it comes in time."""
        return _PATIENCE * self.timeout

    def core(self, method: str, *args: object, **options: object) -> Ask:
        """A request by a method of the client's CoreV1Api: sent when it is called."""
        from kubernetes.client import CoreV1Api

        return self._ask(CoreV1Api(self.client), method, args, options)

    def jobs(self, method: str, namespace: str, *args: object, **options: object) -> Ask:
        """A request about Jobs, by a method of the client's CustomObjectsApi: the typed one would refuse what people
        write in a pod's spec once it is newer than the client.
        """
        from kubernetes.client import CustomObjectsApi

        return self._ask(CustomObjectsApi(self.client), method, ("batch", "v1", namespace, "jobs", *args), options)

    def leases(self, method: str, namespace: str, *args: object, **options: object) -> Ask:
        """A request about Leases, by a method of the client's CustomObjectsApi: the typed one writes a time that falls
        on a whole second without its microseconds, which the API server refuses.
        """
        from kubernetes.client import CustomObjectsApi

        of = ("coordination.k8s.io", "v1", namespace, "leases")
        return self._ask(CustomObjectsApi(self.client), method, (*of, *args), options)

    @contextmanager
    def answer(self, call: Call, ask: Ask) -> Iterator[BaseHTTPResponse]:
        """The answer to a request while it is read."""
        with translated(call), self._kept(call, self._sent(ask)) as response:
            yield response

    def fetch(self, call: Call, ask: Ask) -> dict[str, Any]:
        """The JSON object that is the answer, whole."""
        with self.answer(call, ask) as response:
            return self._body(call, response)

    def create(self, call: Call, ask: Ask) -> bool:
        """Make an object. False: one of this name exists already, and may be another's."""

        def unless_there() -> BaseHTTPResponse | None:
            try:
                return self._sent(ask)
            except ApiException as error:
                if error.status == 409 and parse_status(error.body).reason == "AlreadyExists":
                    return None
                raise

        with translated(call):
            if (response := unless_there()) is None:
                return False
            with self._kept(call, response):
                self._body(call, response)
                return True

    def pages(self, call: Call, kind: str, page: Page, take: Callable[[Any], None]) -> str:
        """Hand each item of a list, as of one moment, to `take`; returns its version. Pages are large, and not kept.

        Raises Expired when a page token has expired: what was taken is then no list.
        """
        version = token = ""
        while True:
            body = self.fetch(call, page(token or None))
            items = [] if body.get("items") is None else body["items"]  # Go writes an empty list as null
            if body.get("kind") != kind or not isinstance(items, list):
                raise garbled(call, f"something that is no {kind}")
            for item in items:
                take(item)
            meta = body.get("metadata")
            meta = meta if isinstance(meta, dict) else {}
            version = version or str(meta.get("resourceVersion") or "")
            last, token = token, str(meta.get("continue") or "")
            if not token:
                break
            if token == last:
                raise garbled(call, "the same page twice")
        if not version:
            raise garbled(call, f"a {kind} without a resourceVersion")
        return version

    def without_credentials(self, said: object) -> str:
        """Somebody else's words, as they are or in JSON, without what we are known by."""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said or "")
        for secret in credentials(self.client.configuration):
            text = text.replace(secret, "***")
        return text

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

    def _ask(self, api: object, method: str, args: tuple[object, ...], options: dict[str, object]) -> Ask:
        seconds = self.timeout.total_seconds()
        asked = getattr(api, method)
        return lambda: cast(
            BaseHTTPResponse, asked(*args, **options, _preload_content=False, _request_timeout=(seconds, seconds))
        )

    def _sent(self, ask: Ask) -> BaseHTTPResponse:
        try:
            return ask()
        except ApiException as error:
            error.body = self.without_credentials(error.body)  # what answers may say all that it was sent
            raise

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
        deadline = time.monotonic() + self.patience.total_seconds()
        data = bytearray()
        while chunk := response.read1(CHUNK):
            data += chunk
            if time.monotonic() > deadline:
                raise ClusterUnavailable(call.sentence("took too long to answer", "it will be tried again"))
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            kind = self.without_credentials(response.headers.get("Content-Type", "no content type").split(";")[0])
            raise garbled(call, f"something that is no JSON ({quote(kind)})") from error
        if not isinstance(body, dict):
            raise garbled(call, "JSON that is no object")
        return body


def credentials(configuration: Configuration) -> list[str]:
    """What is sent for us to be known by, as it is sent and as it stands in JSON; the longest first."""
    found = [str(key).rpartition(" ")[2] for key in configuration.api_key.values()]
    found.append(configuration.password or "")
    known = {form for one in found if len(one) >= _SHORTEST for form in (one, json.dumps(one)[1:-1])}
    return sorted(known, key=len, reverse=True)
