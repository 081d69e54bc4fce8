"""Files that are whole or not there, and one writer of a folder at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quarantine.core.errors import TicketsRefused, TicketsUnavailable

# These stay wrong until somebody changes something; others (a full disk, a network file system that is away) may pass.
_LASTING = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ELOOP, errno.ENAMETOOLONG}
)
_HINTS = {
    errno.EACCES: "let this process write there",
    errno.EPERM: "let this process write there",
    errno.ENOTDIR: "the tickets' folder must be a folder: name another",
    errno.EEXIST: "the tickets' folder must be a folder: name another",
    errno.EROFS: "mount it writable, or name another folder",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space or raise the quota",
}


@contextmanager
def translated(doing: str, path: Path) -> Iterator[None]:
    """Turns the operating system's errors into ours: what was tried, where, why not, what to do."""
    try:
        yield
    except OSError as error:
        code = error.errno or 0
        why = (error.strerror or type(error).__name__).lower()
        hint = _HINTS.get(code, "look at the file system")
        sentence = f"could not {doing} in {path}: {why}; {hint}"
        if code in _LASTING or (code == errno.EEXIST and not path.is_dir()):
            raise TicketsRefused(sentence) from error
        raise TicketsUnavailable(sentence) from error


def replace(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, and a crash at any point, sees the old one or the new one. Raises OSError.

    The temporary file has a fixed name beside it: what a killed process left behind is overwritten by the next.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def only_writer(folder: Path, patience: float) -> Iterator[None]:
    """Holds the folder's lock. Raises TicketsUnavailable when another process has it for `patience` seconds.

    It waits a little and never for ever: the holder may be a process that was paused.
    """
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + patience
        while not _lock(descriptor):
            if time.monotonic() >= deadline:
                raise TicketsUnavailable(
                    f"could not write in {folder}: another process holds its lock; if this lasts, look for a "
                    "second controller"
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
