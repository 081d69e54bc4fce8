"""One HTTP server for all exporters of a simulated fleet, a path for each: `/dcgm/gpu-node-07/metrics`, `/node/…`.

The standard library's threading server: Prometheus keeps a connection to each target, and a thread that waits on one
costs nothing, while a request costs a third of what it does in an ASGI server.
"""

from __future__ import annotations

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from quarantine.core.errors import UsageError
from quarantine.sandbox.exporters import dcgm, node
from quarantine.sandbox.faults import Exporter
from quarantine.sandbox.fleet import Fleet
from quarantine.sandbox.simnode import SimNode

_DEADLINE_S = 10.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment, or the second waits for the client's delayed acknowledgement
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Serve one exporter's metrics."""
        match self.path.strip("/").split("/"):
            case ["dcgm", name, "metrics"]:
                self._metrics(name, "dcgm", dcgm.CONTENT_TYPE)
            case ["node", name, "metrics"]:
                self._metrics(name, "node", node.CONTENT_TYPE)
            case _:
                self._answer(404, b"no such path: /dcgm/NODE/metrics or /node/NODE/metrics\n")

    def _metrics(self, name: str, exporter: Exporter, content_type: str) -> None:
        try:
            body = self.server.fleet.scrape(name, exporter)
        except UsageError as error:
            self._answer(404, f"{error}\n".encode())
            return
        if body is None:
            # To Prometheus as good as a refused connection: up is 0 and every series of the target is stale at once.
            self._answer(503, b"the exporter is dead\n")
        else:
            self._answer(200, body, content_type)

    def _answer(self, status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changed:
                self._open.discard(request)
                self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in mid-answer is no error; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        """Stop listening, hang up on everybody, and wait until every thread is done."""
        self.shutdown()
        self.server_close()
        with self._changed:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # it has hung up by itself
            self._changed.wait_for(lambda: not self._open, timeout=_DEADLINE_S)


class ExporterServer:
    """Serves on entry, stops on exit."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._server = _Server(self._fleet)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="exporters", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.end()
            self._thread.join(_DEADLINE_S)
            self._server = self._thread = None

    @property
    def url(self) -> str:
        """The server's base URL, without a slash at the end."""
        return f"http://{self._address}"

    @property
    def _address(self) -> str:
        if self._server is None:
            raise UsageError("the exporters are not served yet: use serve_exporters as a context manager")
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def targets(self) -> list[dict[str, Any]]:
        """Targets for file_sd, with the labels that Kubernetes' service discovery and the usual relabelling would give.

        A ghost's exporter appears once the ghost was injected: give them to `PrometheusServer.set_targets` again.
        """
        known = [target for sim in self._fleet.nodes for target in (self._dcgm(sim), self._node(sim))]
        return known + [self._dcgm(ghost) for ghost in self._fleet.ghosts]

    def _dcgm(self, sim: SimNode) -> dict[str, Any]:
        labels = {
            "job": "dcgm-exporter",
            "instance": f"{sim.address}:9400",
            "namespace": "gpu-operator",
            "pod": sim.exporter_pods["dcgm"],
            "container": "nvidia-dcgm-exporter",
            "__metrics_path__": f"/dcgm/{sim.name}/metrics",
        }
        return {"targets": [self._address], "labels": labels}

    def _node(self, sim: SimNode) -> dict[str, Any]:
        labels = {
            "job": "node-exporter",
            "instance": f"{sim.address}:9100",
            "namespace": "monitoring",
            "pod": sim.exporter_pods["node"],
            "container": "node-exporter",
            "__metrics_path__": f"/node/{sim.name}/metrics",
        }
        return {"targets": [self._address], "labels": labels}


def serve_exporters(fleet: Fleet) -> ExporterServer:
    """A context manager that serves the fleet's exporters on a free port of the loopback."""
    return ExporterServer(fleet)
