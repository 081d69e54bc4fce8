"""What several checks need and one of them makes: the others wait for it, and meet its error too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from quarantine.core.errors import QuarantineError

T = TypeVar("T")


class Once(Generic[T]):
    """Calls `make` at the first call. Thread-safe."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []
        self._error: QuarantineError | None = None

    def __call__(self) -> T:
        """What was made. Raises the error by which it was not."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if not self._made:
                try:
                    self._made.append(self._make())
                except QuarantineError as error:
                    self._error = error
                    raise
            return self._made[0]
