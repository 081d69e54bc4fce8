"""Where others call in: each path has who answers it, at once, with a status and a few words. Plain HTTP, bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LONGEST = 1 << 20  # bytes of a body; who answers has a bound of its own below it
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
            body = _body(environ)
            if body is None:
                return _said(start, 413, b"the length is missing, or too long\n")
            try:
                return _said(start, *found(_headers(environ), body))
            except Exception:  # noqa: BLE001  (said; a caller may try again)
                structlog.get_logger().exception("a defect left a call without its answer; please report it")
                return _said(start, 500, b"this could not be heard\n")

    return answer


@contextmanager
def _place(free: threading.BoundedSemaphore) -> Iterator[bool]:
    there = free.acquire(blocking=False)
    try:
        yield there
    finally:
        if there:
            free.release()


def _body(environ: WSGIEnvironment) -> bytes | None:
    """All of it; None where it says no length, or too great a one."""
    told = environ.get("CONTENT_LENGTH", "")
    if not (told.isascii() and told.isdigit()) or int(told[:12]) > LONGEST:
        return None
    body: bytes = environ["wsgi.input"].read(int(told))
    return body


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
