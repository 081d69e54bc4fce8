"""Watches: a cursor over the history, and the events that a selection sees in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from quarantine.sandbox.kubeapi.errors import ApiError, Problem, invalid
from quarantine.sandbox.kubeapi.reading import Selection, whole
from quarantine.sandbox.kubeapi.rendering import Renderer
from quarantine.sandbox.kubeapi.store import ADDED, DELETED, MODIFIED, Change, Entry, Store, encode


def event(kind: str, body: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def error_event(error: ApiError) -> bytes:
    """The line that ends a watch."""
    return event("ERROR", encode(error.body()))


@dataclass(slots=True)
class Watch:
    """One watcher's place in the history. It holds no queue: what it has not seen yet is in the store."""

    store: Store
    wanted: Selection
    renderer: Renderer
    position: int
    initial: list[Entry] = field(default_factory=list)
    announce_end: bool = False  # of the initial events
    _head: bool = True

    def start(self) -> Iterator[bytes]:
        """The objects that were there already, for a watch that starts without a version."""
        for entry in self.initial:
            yield self._event(ADDED, entry)
        if self.announce_end:
            yield event("BOOKMARK", self.renderer.bookmark(self.position, initial_end=True))
        self.initial = []

    def more(self) -> list[bytes]:
        """The events since the last call. Raises 410 where the watcher has fallen behind the history."""
        with self.store.lock:
            changes = self.store.since(self.position, self.wanted.resource)
            self.position = max(self.position, self.store.revision)
        return [line for change in changes for line in self._lines(change)]

    def bookmark(self) -> bytes:
        """A BOOKMARK at the present place."""
        return event("BOOKMARK", self.renderer.bookmark(self.position, initial_end=False))

    def _lines(self, change: Change) -> Iterator[bytes]:
        """A change, as it looks through the selectors: an object may come into sight or go out of it."""
        before = change.before is not None and change.before in self.wanted
        after = change.type != DELETED and change.entry in self.wanted
        if before and not after:
            gone = change.entry
            if change.type != DELETED and change.before is not None:
                gone = _at(change.before, change.revision)
            yield self._event(DELETED, gone)
        elif after:
            yield self._event(MODIFIED if before else ADDED, change.entry)

    def _event(self, kind: str, entry: Entry) -> bytes:
        line = event(kind, self.renderer.one(entry, head=self._head))
        self._head = False
        return line


def _at(entry: Entry, revision: int) -> Entry:
    """The last state that was in sight, under the version at which it went out of it."""
    obj = entry.obj | {"metadata": entry.obj["metadata"] | {"resourceVersion": str(revision)}}
    return Entry(entry.resource, entry.key, revision, obj, encode(obj))


def open_watch(store: Store, wanted: Selection, query: Mapping[str, str], renderer: Renderer) -> Watch:
    """Raises 400 and 422. A version that is gone does not raise here: it ends the stream, after the 200."""
    version = whole(query, "resourceVersion")
    if query.get("sendInitialEvents", "") in {"true", "1"}:
        _check_initial(wanted, query)
        send, announce = True, True
    else:
        send, announce = version == 0 and query.get("sendInitialEvents") is None, False
    with store.lock:
        if not send:
            return Watch(store, wanted, renderer, version or store.revision)
        entries = [entry for entry in store.entries(wanted.resource).values() if entry in wanted]
        return Watch(store, wanted, renderer, store.revision, entries, announce)


def _check_initial(wanted: Selection, query: Mapping[str, str]) -> None:
    problems = []
    if query.get("resourceVersionMatch") != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        problems.append(Problem("resourceVersionMatch", "FieldValueForbidden", text))
    if query.get("allowWatchBookmarks", "") not in {"true", "1"}:
        text = "Forbidden: sendInitialEvents requires setting allowWatchBookmarks to true"
        problems.append(Problem("allowWatchBookmarks", "FieldValueForbidden", text))
    if problems:
        raise invalid(wanted.resource, "", problems)
