"""Lists: selectors, pages, and which revision is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quarantine.sandbox.kubeapi.errors import ApiError, bad_request, expired_continue
from quarantine.sandbox.kubeapi.paging import INCONSISTENT, Cursor, decode_cursor, encode_cursor
from quarantine.sandbox.kubeapi.resources import Resource
from quarantine.sandbox.kubeapi.selectors import Matches, everything, field_selector, label_selector
from quarantine.sandbox.kubeapi.store import Entry, Store


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and its ListMeta."""

    entries: list[Entry]
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind are wanted. `namespace` is "" for all."""

    resource: Resource
    namespace: str
    labels: Matches = everything
    fields: Matches = everything
    selective: bool = False

    def __contains__(self, entry: Entry) -> bool:
        return (
            (not self.namespace or entry.key[0] == self.namespace) and self.labels(entry.obj) and self.fields(entry.obj)
        )


def selection(resource: Resource, namespace: str, query: Mapping[str, str]) -> Selection:
    """From the query string. Raises 400."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    return Selection(
        resource,
        namespace,
        label_selector(labels) if labels else everything,
        field_selector(fields, resource) if fields else everything,
        selective=bool(labels or fields),
    )


def whole(query: Mapping[str, str], name: str) -> int:
    """A number of the query string, 0 where it is not there. Raises 400."""
    text = query.get(name, "") or "0"
    if not text.isascii() or not text.isdecimal():
        raise bad_request(f'{name}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def list_page(store: Store, wanted: Selection, query: Mapping[str, str]) -> Page:
    """GET of a collection. Raises 400, 410 (Expired) and 504 (a version yet to come)."""
    limit = whole(query, "limit")
    with store.lock:
        cursor, revision = _start(store, query)
        if cursor is None and query.get("resourceVersion") == "0":
            limit = 0  # the watch cache, which serves such lists, knows no pages
        entries = [entry for entry in _read(store, wanted.resource, cursor, revision).values() if entry in wanted]
        shown = store.revision if revision is None else revision
    if cursor is not None:
        entries = [entry for entry in entries if entry.key > cursor.last]
    meta: dict[str, Any] = {"resourceVersion": str(shown)}
    if limit and len(entries) > limit:
        left = len(entries) - limit
        entries = entries[:limit]
        meta["continue"] = encode_cursor(Cursor(shown, entries[-1].key))
        if not wanted.selective:
            meta["remainingItemCount"] = left
    return Page(entries, meta)


def _start(store: Store, query: Mapping[str, str]) -> tuple[Cursor | None, int | None]:
    """Where to go on, and the revision to read; None is the latest."""
    match, asked = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if token := query.get("continue"):
        if asked not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        cursor = decode_cursor(token)
        return cursor, None if cursor.revision == INCONSISTENT else cursor.revision
    version = whole(query, "resourceVersion")
    # The latest state is "not older than" any version that exists; one that does not exist yet is refused.
    if match == "Exact" or version > store.revision:
        return None, version
    return None, None


def _read(store: Store, resource: Resource, cursor: Cursor | None, revision: int | None) -> Mapping[Any, Entry]:
    try:
        return store.entries(resource, revision)
    except ApiError as error:
        if error.code != 410 or cursor is None:
            raise
        token = encode_cursor(Cursor(INCONSISTENT, cursor.last))
        raise expired_continue(token) from error
