"""The objects and their history: one revision counter, as in etcd.

Every change of any object takes the next revision. The last `history` changes are kept, and serve watches and lists of
an earlier revision; what lies before is forgotten, and asking for it is the 410 that clients must be able to handle.
"""

from __future__ import annotations

import bisect
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from quarantine.sandbox.kubeapi.errors import expired_version, too_large_version
from quarantine.sandbox.kubeapi.resources import ALL, Resource

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

# A cluster is older than any client: revision 1 is long forgotten when the first of them comes.
_FIRST_REVISION = 1000

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name; the namespace of a cluster's own objects is ""


def encode(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One revision of one object. `obj` is never changed once it is here; `body` is its JSON, rendered once."""

    resource: Resource
    key: Key
    revision: int
    obj: Object
    body: bytes

    @property
    def full(self) -> bytes:
        """The JSON with kind and apiVersion in front; list items go without."""
        head = f'{{"kind":"{self.resource.kind}","apiVersion":"{self.resource.api_version}",'
        return head.encode() + self.body[1:]

    def copy(self) -> Object:
        """The object, for the caller to change."""
        copied: Object = json.loads(self.full)
        return copied


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One step of the history: `entry` is the state after it (of a deletion, the last one), `before` that before it."""

    revision: int
    type: str
    entry: Entry
    before: Entry | None


class Store:
    """Thread-safe: every public method takes `lock`, which callers hold over read-change-write."""

    def __init__(self, history: int) -> None:
        if history < 1:
            raise ValueError(f"a history of {history} changes serves no watch: keep at least 1")
        self.lock = threading.RLock()
        self._history = history
        self._revision = _FIRST_REVISION
        self._data: dict[Resource, dict[Key, Entry]] = {resource: {} for resource in ALL}
        self._changes: list[Change] = []
        self._start = 0  # changes before this index are forgotten, and deleted in larger pieces
        self._floor = _FIRST_REVISION
        self._listeners: list[Callable[[], None]] = []

    @property
    def revision(self) -> int:
        """The latest."""
        with self.lock:
            return self._revision

    @property
    def floor(self) -> int:
        """The earliest revision that can still be reconstructed."""
        with self.lock:
            return self._floor

    def get(self, resource: Resource, key: Key) -> Entry | None:
        """The present state."""
        with self.lock:
            return self._data[resource].get(key)

    def put(self, resource: Resource, key: Key, obj: Object) -> Entry:
        """Store `obj` (without kind and apiVersion) under the next revision."""
        with self.lock:
            before = self._data[resource].get(key)
            entry = self._entry(resource, key, obj)
            self._data[resource][key] = entry
            self._record(Change(entry.revision, MODIFIED if before else ADDED, entry, before))
            return entry

    def remove(self, resource: Resource, key: Key) -> Entry:
        """Delete, and return the last state with the revision of its deletion. KeyError where there is none."""
        with self.lock:
            before = self._data[resource].pop(key)
            entry = self._entry(resource, key, before.copy())
            self._record(Change(entry.revision, DELETED, entry, before))
            return entry

    def draft(self, resource: Resource, key: Key, obj: Object) -> Entry:
        """What `put` would store, without storing it: the answer of a dry run."""
        with self.lock:
            present = self._data[resource].get(key)
            return self._render(resource, key, obj, present.revision if present else 0)

    def _entry(self, resource: Resource, key: Key, obj: Object) -> Entry:
        self._revision += 1
        return self._render(resource, key, obj, self._revision)

    def _render(self, resource: Resource, key: Key, obj: Object, revision: int) -> Entry:
        bare = {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}
        # metadata comes first, so that `body` is never the empty object
        meta = bare.pop("metadata") | ({"resourceVersion": str(revision)} if revision else {})
        bare = {"metadata": meta} | bare
        return Entry(resource, key, revision, bare, encode(bare))

    def _record(self, change: Change) -> None:
        self._changes.append(change)
        while len(self._changes) - self._start > self._history:
            self._floor = self._changes[self._start].revision
            self._start += 1
        if self._start > 256 and self._start * 2 > len(self._changes):
            del self._changes[: self._start]
            self._start = 0
        for listener in self._listeners:
            listener()

    def compact(self) -> None:
        """Forget the history; watches that have seen the latest revision go on."""
        with self.lock:
            self._changes.clear()
            self._start = 0
            self._floor = self._revision

    def since(self, revision: int, resource: Resource | None = None) -> list[Change]:
        """The changes after `revision`, oldest first. Raises 410 where they are forgotten."""
        with self.lock:
            if revision < self._floor:
                raise expired_version(revision, self._floor)
            first = bisect.bisect_right(self._changes, revision, lo=self._start, key=lambda change: change.revision)
            later = self._changes[first:]
            return later if resource is None else [c for c in later if c.entry.resource is resource]

    def entries(self, resource: Resource, revision: int | None = None) -> dict[Key, Entry]:
        """All objects of a kind, now or as of `revision`, ordered by key. Raises 410, and 504 for one yet to come."""
        with self.lock:
            data = dict(self._data[resource])
            if revision is not None and revision > self._revision:
                raise too_large_version(revision, self._revision)
            if revision is not None:
                for change in reversed(self.since(revision, resource)):
                    if change.before is None:
                        data.pop(change.entry.key)
                    else:
                        data[change.entry.key] = change.before
        return dict(sorted(data.items()))

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` (quick, in the writer's thread) at every change; call what is returned to stop that."""
        with self.lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self.lock:
                self._listeners.remove(listener)

        return stop
