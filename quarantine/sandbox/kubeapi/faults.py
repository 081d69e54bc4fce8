"""Bad days on order: what a request meets instead of its answer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request, in this order: it waits for `hang` seconds (less if the server stops), and then

    * `drop`: its connection is reset;
    * `status`: it is answered with that status, `body` (text, or an object sent as JSON) and `headers`;
    * otherwise it is served as usual, late.

    With `after`, the request is carried out first and only its answer is lost: the case in which a client cannot know.
    """

    status: int | None = None
    body: str | Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: float = 0
    drop: bool = False
    after: bool = False


# `method` is that of HTTP, except that a watch is called WATCH: it often fares differently from a list.
FaultHook = Callable[[str, str], Fault | None]


class LoggedRequest(NamedTuple):
    """One line of the request log. `status` is 0 where the connection was dropped."""

    method: str
    path: str
    query: str
    user: str
    status: int


class RequestLog:
    """The last requests, oldest first. Thread-safe: iterating goes over a copy."""

    def __init__(self, kept: int) -> None:
        self._lock = threading.Lock()
        self._requests: deque[LoggedRequest] = deque(maxlen=kept)

    def append(self, request: LoggedRequest) -> None:
        """Add one; the oldest goes when there are too many."""
        with self._lock:
            self._requests.append(request)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._requests.clear()

    def __iter__(self) -> Iterator[LoggedRequest]:
        with self._lock:
            return iter(tuple(self._requests))

    def __len__(self) -> int:
        with self._lock:
            return len(self._requests)

    def __getitem__(self, index: int) -> LoggedRequest:
        with self._lock:
            return self._requests[index]
