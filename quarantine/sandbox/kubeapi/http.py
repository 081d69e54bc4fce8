"""The ASGI application: requests to calls, replies to responses, watches to streams, and faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from quarantine.sandbox.kubeapi.api import KubeApi
from quarantine.sandbox.kubeapi.dispatch import Call, Reply, dispatch, refusal
from quarantine.sandbox.kubeapi.errors import ApiError
from quarantine.sandbox.kubeapi.faults import Fault, LoggedRequest
from quarantine.sandbox.kubeapi.reading import whole
from quarantine.sandbox.kubeapi.routing import is_watch
from quarantine.sandbox.kubeapi.watching import Watch, error_event

_MUTE_LOOK = 0.05  # seconds between two looks whether watches are still muted
_WATCH_SECONDS = 1800
_LAST_BOOKMARK = 2.0  # seconds before a watch times out
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class Bell:
    """Wakes watchers from any thread. Made in the event loop that the watchers run in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Event] = set()
        self.stopping = asyncio.Event()

    def ring(self) -> None:
        """Something has changed. Thread-safe."""
        self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """End every stream and every hang. In the loop's thread."""
        self.stopping.set()
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def join(self) -> asyncio.Event:
        """An event that is set at every change, for one watcher to clear."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Give the event back."""
        self._waiting.discard(event)


async def _happens(event: asyncio.Event, seconds: float) -> bool:
    """Whether `event` is set within that time."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await event.wait()
    except TimeoutError:
        return False
    return True


class App:
    """The endpoint. `drop` resets the connection of a client."""

    def __init__(self, api: KubeApi, bell: Bell, drop: Callable[[tuple[str, int]], None]) -> None:
        self._api = api
        self._bell = bell
        self._drop = drop

    def asgi(self) -> Starlette:
        """What uvicorn runs."""
        return Starlette(routes=[Route("/{path:path}", self._endpoint, methods=_METHODS)])

    async def _endpoint(self, request: Request) -> Response:
        headers = dict(request.headers)
        call = Call(request.method, request.url.path, dict(request.query_params), headers, await request.body())
        fault = self._api.fault_for("WATCH" if is_watch(call.query) else call.method, call.path)
        if fault is not None and not fault.after:
            suffered = await self._suffer(fault, request)
            if suffered is not None:
                return self._log(request, suffered, "")
        reply = dispatch(self._api, call, request.url.netloc)
        if fault is not None and fault.after:
            suffered = await self._suffer(fault, request)
            if suffered is not None:
                return self._log(request, suffered, reply.user)
        return self._log(request, self._respond(call, reply), reply.user)

    def _log(self, request: Request, response: Response, user: str) -> Response:
        status = 0 if isinstance(response, _Dropped) else response.status_code
        self._api.requests.append(LoggedRequest(request.method, request.url.path, request.url.query, user, status))
        return response

    def _respond(self, call: Call, reply: Reply) -> Response:
        if reply.watch is None:
            return Response(reply.body, reply.status, dict(reply.headers), reply.media_type)
        try:
            seconds = whole(call.query, "timeoutSeconds") or _WATCH_SECONDS
        except ApiError as error:
            return self._respond(call, refusal(error))
        bookmarks = call.query.get("allowWatchBookmarks", "") in {"true", "1"}
        stream = self._stream(reply.watch, seconds, bookmarks=bookmarks)
        return StreamingResponse(stream, media_type="application/json")

    async def _suffer(self, fault: Fault, request: Request) -> Response | None:
        """None where the request is served after all."""
        if fault.hang and await _happens(self._bell.stopping, fault.hang):
            return Response("the server is stopping", 503)
        if fault.drop and request.client is not None:
            self._drop((request.client.host, request.client.port))
            await asyncio.sleep(0)  # the loop takes the connection down before the response is tried
            await asyncio.sleep(0)
            return _Dropped()
        if fault.status is None:
            return None
        text = isinstance(fault.body, str)
        body = fault.body or "" if text else json.dumps(fault.body) if fault.body is not None else ""
        return Response(str(body), fault.status, dict(fault.headers), "text/plain" if text else "application/json")

    async def _stream(self, watch: Watch, seconds: float, *, bookmarks: bool) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        pause = self._api.bookmark_seconds
        end = loop.time() + seconds
        marks = (
            [loop.time() + pause, *([end - _LAST_BOOKMARK] if seconds > _LAST_BOOKMARK else [])] if bookmarks else []
        )
        changed = self._bell.join()
        try:
            for line in watch.start():
                yield line
            while not self._bell.stopping.is_set():
                if self._api.mute_watches:
                    await _happens(self._bell.stopping, _MUTE_LOOK)
                    continue
                changed.clear()
                if lines := watch.more():
                    yield b"".join(lines)
                now = loop.time()
                if now >= end:
                    return
                due = [at for at in marks if at <= now]
                if due:
                    marks = [at for at in marks if at > now] + ([now + pause] if now + pause < end else [])
                    yield watch.bookmark()
                await _happens(changed, min([end, *marks]) - loop.time())
        except ApiError as error:
            yield error_event(error)
        finally:
            self._bell.leave(changed)


class _Dropped(Response):
    """Stands for an answer that nobody will get."""
