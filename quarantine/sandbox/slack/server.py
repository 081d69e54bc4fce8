"""The stand-in over HTTP on 127.0.0.1, and the faults it can be told to have."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from quarantine.sandbox.slack.acts import Acts
from quarantine.sandbox.slack.arguments import Refusal
from quarantine.sandbox.slack.files import Files
from quarantine.sandbox.slack.people import Directory, Person
from quarantine.sandbox.slack.sockets import SocketMode
from quarantine.sandbox.slack.workspace import ALL_SCOPES, Ephemeral, Message, Workspace

_START = 10.0  # seconds within which the server is up, or down


class FaultKind(StrEnum):
    """How a request can go wrong."""

    RATE_LIMITED = "rate-limited"  # 429 with Retry-After
    SERVER_ERROR = "server-error"  # 500, Slack's JSON
    BAD_GATEWAY = "bad-gateway"  # 502, a proxy's HTML
    HTML = "html"  # 200, a captive portal's HTML
    NOT_SLACK = "not-slack"  # 200, JSON that is not an object
    CUT_OFF = "cut-off"  # the connection ends in the middle of the answer
    HANG = "hang"  # no answer, until the caller gives up


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one request. `stored`: the method is carried out first, and only its answer is lost."""

    kind: FaultKind
    method: str | None = None  # such as chat.postMessage; None: the next request, whatever it is
    stored: bool = False
    retry_after: str = "30"


class _CutOff(Response):
    """Promises more than it sends; the server then closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        headers = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"ok": true, ', "more_body": True})


class SlackServer:
    """The running stand-in. `base_url` is what a WebClient is given."""

    def __init__(
        self, workspace: Workspace, people: Collection[Person] = (), groups: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self.base_url = ""
        self.workspace = workspace
        self.directory = Directory(workspace, people, groups or {})
        self.files = Files(workspace)
        self.sockets = SocketMode(workspace)
        self.acts = Acts(workspace, self.directory, self.sockets)
        for part in (self.directory, self.files, self.sockets, self.acts):
            workspace.offer(part.methods())
        self._faults: list[Fault] = []
        self._requests: list[str] = []
        self._lock = threading.Lock()

    @property
    def messages(self) -> list[Message]:
        """All messages that were taken, oldest first."""
        return self.workspace.messages

    @property
    def ephemerals(self) -> list[Ephemeral]:
        """All that was shown to one person alone, oldest first."""
        return self.workspace.ephemerals

    def listens_at(self, host: str) -> None:
        """Its URLs, once it is known where it listens (host and port)."""
        self.base_url = f"http://{host}/api/"
        self.files.base_url = f"http://{host}/upload/v1/"
        self.sockets.base_url = f"ws://{host}/link/"
        self.acts.base_url = f"http://{host}/actions/"

    @property
    def requests(self) -> list[str]:
        """The methods of all requests, failed ones too, in order."""
        with self._lock:
            return list(self._requests)

    def fail(self, *faults: Fault) -> None:
        """Each fault meets the next request that it fits, once."""
        with self._lock:
            self._faults.extend(faults)

    def reset(self) -> None:
        """Forget messages, requests and faults: for the next test."""
        self.workspace.clear()
        self.files.clear()
        self.sockets.clear()
        self.acts.clear()
        with self._lock:
            self._faults.clear()
            self._requests.clear()

    async def handle(self, request: Request) -> Response:
        """One Web API call."""
        method = request.path_params["method"]
        body = await request.body()
        fault = self._arrived(method)
        answer = self._answer(method, request, body) if fault is None or fault.stored else None
        if fault is None:
            assert answer is not None  # noqa: S101
            return answer
        return await _failed(fault, request)

    async def put(self, request: Request) -> Response:
        """The bytes of a file."""
        status, told = self.files.put(request.path_params["ticket"], await request.body())
        return PlainTextResponse(told, status)

    async def respond(self, request: Request) -> Response:
        """An answer to a response URL."""
        status, told = self.acts.respond(request.path_params["ticket"], await request.body())
        return PlainTextResponse(told, status)

    def _arrived(self, method: str) -> Fault | None:
        with self._lock:
            self._requests.append(method)
            fault = next((f for f in self._faults if f.method in (None, method)), None)
            if fault:
                self._faults.remove(fault)
            return fault

    def _answer(self, method: str, request: Request, body: bytes) -> Response:
        try:
            args = _arguments(request, body)
            return JSONResponse(self.workspace.call(method, _token(request, args), args))
        except Refusal as refusal:
            if refusal.retry_after is not None:
                return JSONResponse(refusal.body, 429, {"Retry-After": str(refusal.retry_after)})
            return JSONResponse(refusal.body)


async def _failed(fault: Fault, request: Request) -> Response:
    if fault.kind is FaultKind.HANG:
        while (await request.receive())["type"] != "http.disconnect":
            pass
    return _RESPONSES[fault.kind](fault)


_HTML = "<!DOCTYPE html><html><body>Please sign in &hellip;</body></html>"
_RESPONSES: dict[FaultKind, Callable[[Fault], Response]] = {
    FaultKind.RATE_LIMITED: lambda fault: JSONResponse(
        {"ok": False, "error": "ratelimited"}, 429, {"Retry-After": fault.retry_after}
    ),
    FaultKind.SERVER_ERROR: lambda _: JSONResponse({"ok": False, "error": "internal_error"}, 500),
    FaultKind.BAD_GATEWAY: lambda _: HTMLResponse(_HTML, 502),
    FaultKind.HTML: lambda _: HTMLResponse(_HTML),
    FaultKind.NOT_SLACK: lambda _: JSONResponse(["ok"]),
    FaultKind.CUT_OFF: lambda _: _CutOff(),
    FaultKind.HANG: lambda _: Response(status_code=504),  # to nobody
}


def _arguments(request: Request, body: bytes) -> dict[str, Any]:
    """Arguments of the query and of the body, which slack_sdk sends as JSON or form-encoded, by the method."""
    args: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "application/json":
        try:
            sent = json.loads(body)
        except ValueError:
            raise Refusal("invalid_json") from None
        if not isinstance(sent, dict):
            raise Refusal("json_not_object")
        return args | sent
    if body and kind != "application/x-www-form-urlencoded":
        raise Refusal("invalid_post_type")
    return args | dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _token(request: Request, args: dict[str, Any]) -> str | None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else args.get("token")


class _Server(uvicorn.Server):
    """Tells when it listens, so that nobody has to look again and again."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.contextmanager
def serve_slack(
    *,
    token: str,
    channels: Sequence[str],
    now: Callable[[], datetime] | None = None,
    scopes: Collection[str] = ALL_SCOPES,
    not_in: Collection[str] = (),
    archived: Collection[str] = (),
    app_token: str = "",
    people: Collection[Person] = (),
    groups: Mapping[str, Collection[str]] | None = None,
    pace: timedelta | None = None,
) -> Iterator[SlackServer]:
    """A stand-in for one workspace on a free port of 127.0.0.1, until the block ends.

    `channels` are ids; the bot is in all of them but `not_in`. `now` gives messages their time (default: the clock's).
    `app_token` is the app's own, for Socket Mode; `groups` name the ids of their members; `pace` is how long a channel
    takes no further message after one (Slack: a second).
    """
    clock = now or (lambda: datetime.now(UTC))  # noqa: TID251  (outermost: nothing is judged by it)
    workspace = Workspace(
        token, frozenset(channels), clock, frozenset(scopes), not_in, archived, pace=pace, app_token=app_token
    )
    slack = SlackServer(workspace, people, groups)
    routes = [
        Route("/api/{method}", slack.handle, methods=["GET", "POST"]),
        Route("/upload/v1/{ticket}", slack.put, methods=["POST", "PUT"]),
        Route("/actions/{ticket}", slack.respond, methods=["POST"]),
        WebSocketRoute("/link/", slack.sockets.connect),
    ]
    server = _Server(
        uvicorn.Config(
            Starlette(routes=routes),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="wsproto",
            timeout_graceful_shutdown=1,
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        slack.listens_at(f"127.0.0.1:{listening.getsockname()[1]}")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="sandbox-slack", daemon=True)
        thread.start()
        try:
            if not server.up.wait(_START):
                raise RuntimeError("the Slack stand-in did not start")
            yield slack
        finally:
            server.should_exit = True
            thread.join(_START)
    if thread.is_alive():
        raise RuntimeError("the Slack stand-in did not stop")
