"""What the leader has read of tables lately, so that it does not read it again for each decision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MOST = 2000  # of a table: more than a cycle decides on, and few beside the state


class Recent(Generic[Key, Value]):
    """What stands in a table by keys that were asked for or written lately; None: nothing does."""

    def __init__(self, most: int = MOST) -> None:
        """Nothing yet."""
        self._most = most
        self._known: dict[Key, Value | None] = {}

    def of(self, keys: Collection[Key], read: Callable[[set[Key]], Mapping[Key, Value]]) -> dict[Key, Value]:
        """What stands there by these keys; `read` is asked for those that are not known."""
        known = {key: self._known[key] for key in keys if key in self._known}
        if unknown := {key for key in keys if key not in known}:
            found = read(unknown)
            self.keep({key: found.get(key) for key in unknown})
            known |= found
        return {key: value for key, value in known.items() if value is not None}

    def keep(self, values: Mapping[Key, Value | None]) -> None:
        """This is what stands there now. The least recent are forgotten, and never any of these."""
        for key in values:
            self._known.pop(key, None)
        self._known.update(values)
        if (surplus := len(self._known) - max(self._most, len(values))) > 0:
            for key in list(self._known)[:surplus]:
                del self._known[key]


class Remembered:
    """One of each table. It holds as of one head of the trail: a transaction that fails leaves it worth nothing."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.times: Recent[str, Any] = Recent()  # by case: see `records`, as the next two
        self.spans: Recent[str, Any] = Recent()  # by the hold's key
        self.tickets: Recent[str, Any] = Recent()  # by case
        self.machines: Recent[str, Any] = Recent()  # by key: see `sightings`
