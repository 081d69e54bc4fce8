"""A file that is there whole or not at all: half a record would be taken for one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from quarantine.core.errors import UsageError


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write to a draft beside `path`, which takes its place when the block ends, and is removed when it raises.

    Raises UsageError where that cannot be done.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file to write to")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
