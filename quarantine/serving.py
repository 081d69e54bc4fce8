"""The controller's only door: `/metrics` for a Prometheus, `/livez` and `/readyz` for Kubernetes' probes."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

from quarantine.core.errors import UsageError
from quarantine.health import Health, Word

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

_PATIENCE_S = 10  # for a client to send its request: a thread is kept for it so long


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a client that hangs does not keep the process

    def server_bind(self) -> None:
        """Without the look-up of this host's name, which waits for a DNS that may not answer."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002  (as the library calls it)
        """A caller that hangs or goes away is no news: anybody could fill the log with it."""
        if not isinstance(sys.exc_info()[1], OSError):
            structlog.get_logger().exception("a defect in what is served; please report this traceback")


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the library gives it
        """Nothing: a line a probe would be all that the log has."""


@contextmanager
def served(registry: CollectorRegistry, health: Health, host: str, port: int) -> Iterator[int]:
    """Serve both over HTTP while the block runs, on every address where `host` is empty. Gives the port.

    Raises UsageError where it cannot be listened on.
    """
    with opened(_app(registry, health), host, port, "metrics") as found:
        yield found


@contextmanager
def opened(app: WSGIApplication, host: str, port: int, what: str) -> Iterator[int]:
    """Serve an application while the block runs. As `served`; `what`: the group of settings that says where."""
    try:
        server = _listening(host, port)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(
            f"{what} cannot be served on {host}:{port} ({why}): give {what}.listen another address, or leave it empty"
        ) from error
    server.set_app(app)
    thread = threading.Thread(target=server.serve_forever, name=what, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listening(host: str, port: int) -> _Server:
    flags = socket.AI_PASSIVE
    family, _, _, _, address = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=flags)[0]  # noqa: S104

    class Server(_Server):
        address_family = family

    return Server((str(address[0]), int(address[1])), _Handler)


def _app(registry: CollectorRegistry, health: Health) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)
    probes: Mapping[str, Callable[[], Word]] = {"/livez": health.live, "/readyz": health.ready}

    def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return metrics(environ, start)
        if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
            return _said(start, "405 Method Not Allowed", "this can only be read")
        if (probe := probes.get(path)) is None:
            return _said(start, "404 Not Found", "there is /metrics, /livez and /readyz")
        word = probe()
        return _said(start, "200 OK" if word.good else "503 Service Unavailable", word.sentence)

    return app


def _said(start: StartResponse, status: str, sentence: str) -> list[bytes]:
    body = f"{sentence}\n".encode("utf-8", "backslashreplace")
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
