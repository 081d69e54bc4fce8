"""Where others call in: each path has who answers it, at once, with a status and a few words. Plain HTTP, bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LONGEST = 1 << 20  # bytes of a body; who answers has a bound of its own below it
_DIGITS = 12  # of a length; no sound caller writes more, and what is compared is what is read
PATIENCE_S = 10.0  # for a whole body to come: who sends it drop by drop does not keep a place
AT_ONCE = 20  # requests that are read or answered at the same time; further ones are told to come again

Answer = Callable[[Mapping[str, str], bytes], tuple[int, bytes]]  # of headers, in any case, and body


def app(answers: Mapping[str, Answer]) -> WSGIApplication:
    """What answers POST below these paths, and nothing else."""
    free = threading.BoundedSemaphore(AT_ONCE)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        found = answers.get(environ.get("PATH_INFO", ""))
        if found is None:
            return _said(start, 404, b"nobody listens here\n")
        if environ.get("REQUEST_METHOD") != "POST":
            return _said(start, 405, b"only POST is heard here\n")
        with _place(free) as there:
            if not there:
                return _said(start, 503, b"busy\n")
            return _answered(found, environ, start)

    return answer


def _answered(found: Answer, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    length = _length(environ)
    if length is None:
        return _said(start, 413, b"the length is missing, or too long\n")
    body = _body(environ, length)
    if body is None:
        return _said(start, 408, b"the rest of it did not come\n")
    try:
        return _said(start, *found(_headers(environ), body))
    except Exception:  # noqa: BLE001  (said; a caller may try again)
        structlog.get_logger().exception("a defect left a call without its answer; please report it")
        return _said(start, 500, b"this could not be heard\n")


@contextmanager
def _place(free: threading.BoundedSemaphore) -> Iterator[bool]:
    there = free.acquire(blocking=False)
    try:
        yield there
    finally:
        if there:
            free.release()


def _length(environ: WSGIEnvironment) -> int | None:
    """Of the body; None where it says no length, or too great a one."""
    told = environ.get("CONTENT_LENGTH", "")
    if not (told.isascii() and told.isdigit()) or len(told) > _DIGITS or int(told) > LONGEST:
        return None
    return int(told)


def _body(environ: WSGIEnvironment, length: int) -> bytes | None:
    """All of it; None where it does not come whole, or in time."""
    until = time.monotonic() + PATIENCE_S
    pieces: list[bytes] = []
    with suppress(OSError):  # nothing came for as long as the server waits, or the caller is gone
        while length > 0:
            piece = environ["wsgi.input"].read1(length)
            if not piece or time.monotonic() >= until:
                return None
            pieces.append(piece)
            length -= len(piece)
    return b"".join(pieces) if length == 0 else None


def _headers(environ: WSGIEnvironment) -> dict[str, str]:
    return {
        name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_") or name == "CONTENT_TYPE"
    }


def _said(start: StartResponse, status: int, body: bytes) -> list[bytes]:
    reason = HTTPStatus(status).phrase
    start(f"{status} {reason}", [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
