"""What Slack sent, until it is worked off: bounded, in order. One thread records, another tells people.

Slack wants an answer within three seconds, and shows the person an error without one. It gets a yes once a payload is
settled (see `desk`): what does not fit, or is not settled in time, has none, so that Slack sends it again or tells the
person. It is worked off all the same. What is only shown is settled as it comes, and waits for no record: the database
may hang for as long as it likes.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

SIZE = 200  # payloads that wait: some minutes of everybody clicking at once
PATIENCE = 2.0  # seconds that Slack is kept waiting: what is left of its three is for the way

Rest = Callable[[], None]  # what is left to do of an act; raises nothing but defects


@dataclass(frozen=True, slots=True)
class Record:
    """A word that is to be recorded. `write` settles it, and returns what is left to do; raises nothing but defects."""

    write: Callable[[], Rest | None]


Take = Callable[[str, object, Callable[[bool], None]], Record | Rest | None]

_End = None


class _Verdict:
    """Whether Slack may be told that we have it; the first word counts."""

    def __init__(self) -> None:
        self._known = threading.Event()
        self._have = False

    def __call__(self, have: bool) -> None:
        if not self._known.is_set():
            self._have = have
            self._known.set()

    def wait(self, seconds: float) -> bool:
        return self._known.wait(seconds) and self._have


class Backlog:
    """Two queues and their workers. `offer` may be called from any thread."""

    def __init__(self, take: Take, *, size: int = SIZE, patience: float = PATIENCE) -> None:
        """`take`: as `Desk.take`, and as quick; what it or the rest raises is logged as a defect, and the next comes.

        `patience`: seconds that `offer` waits.
        """
        self._take = take
        self._size = size
        self._patience = patience
        self._queue: queue.Queue[tuple[Record, _Verdict] | None] = queue.Queue()
        self._rest: queue.Queue[Rest | None] = queue.Queue()
        self._open = True
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (("slack-desk", self._record), ("slack-answers", self._finish))
        ]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def offer(self, kind: str, payload: object) -> bool:
        """Whether Slack may be told that we have it: not where too much waits, nor after `stop`, nor if it takes long.

        Returns within `patience`.
        """
        verdict = _Verdict()
        with self._lock:
            if not self._open or self._queue.qsize() + self._rest.qsize() >= self._size:
                return False
            try:
                left = self._take(kind, payload, verdict)
            except Exception:  # noqa: BLE001  (as in `_record`)
                _defective()
                left = None
            if isinstance(left, Record):
                self._queue.put_nowait((left, verdict))
            else:
                verdict(False)  # where nothing was said of it
                if left is not None:
                    self._rest.put_nowait(left)
        return verdict.wait(self._patience)

    def stop(self, within: float = 5.0) -> bool:
        """Take nothing more, and work off what waits: whether that was done within so many seconds."""
        with self._lock:
            if self._open:
                self._open = False
                self._queue.put_nowait(_End)
        if self._threads[0].ident is None:
            return self._queue.qsize() <= 1 and self._rest.empty()
        until = time.monotonic() + within
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _record(self) -> None:
        while (item := self._queue.get()) is not None:
            record, verdict = item
            try:
                rest = record.write()
            except Exception:  # noqa: BLE001  (one payload must not end the work on all others)
                _defective()
                rest = None
            verdict(False)  # where nothing was said of it
            if rest is not None:
                self._rest.put(rest)
        self._rest.put(_End)

    def _finish(self) -> None:
        while (rest := self._rest.get()) is not None:
            try:
                rest()
            except Exception:  # noqa: BLE001  (as in `_record`)
                structlog.get_logger().exception("a defect kept an answer on Slack from being given; report it")


def _defective() -> None:
    structlog.get_logger().exception("a defect kept a payload of Slack from being worked off; report it")
