"""What Slack sent and was told we have, until it is worked off: bounded, in order, by one thread.

Slack wants an answer within three seconds, and what a click leads to may take longer. What does not fit is not taken,
so that Slack is not told we have it: it tries again, or tells the person.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import structlog

SIZE = 200  # payloads that wait: some minutes of everybody clicking at once

_End = None


class Backlog:
    """A queue and its worker. `offer` may be called from any thread."""

    def __init__(self, take: Callable[[str, object], None], *, size: int = SIZE) -> None:
        """`take` works off one payload; what it raises is logged as a defect, and the next one comes."""
        self._take = take
        self._queue: queue.Queue[tuple[str, object] | None] = queue.Queue(size + 1)  # one place for the end
        self._size = size
        self._open = True
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="slack-desk", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def offer(self, kind: str, payload: object) -> bool:
        """Whether it is taken: not where too much waits, nor after `stop`."""
        with self._lock:
            if not self._open or self._queue.qsize() >= self._size:
                return False
            self._queue.put_nowait((kind, payload))
            return True

    def stop(self, within: float = 5.0) -> bool:
        """Take nothing more, and work off what waits: whether that was done within so many seconds."""
        with self._lock:
            if self._open:
                self._open = False
                self._queue.put_nowait(_End)
        if self._thread.ident is None:
            return self._queue.qsize() <= 1
        self._thread.join(within)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                self._take(*item)
            except Exception:  # noqa: BLE001  (one payload must not end the work on all others)
                structlog.get_logger().exception("a defect kept a payload of Slack from being worked off; report it")
