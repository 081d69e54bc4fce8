"""In what form an answer is wanted (Accept), and the bytes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quarantine.sandbox.kubeapi.resources import Resource
from quarantine.sandbox.kubeapi.store import Entry, encode
from quarantine.sandbox.kubeapi.tables import partial, render

_AS = re.compile(r"\bas=(Table|PartialObjectMetadata(?:List)?)\b")


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders objects of one kind. Plain JSON is put together from bytes that are there already."""

    resource: Resource
    form: str  # "", "Table", "PartialObjectMetadata"
    include: str  # of a Table: None, Metadata, Object
    clock: Callable[[], datetime]

    def one(self, entry: Entry, *, head: bool = True) -> bytes:
        """A single object. `head` is false from the second event of a watch on: a table's columns come once."""
        if self.form == "Table":
            meta = {"resourceVersion": str(entry.revision)}
            return encode(render(self.resource, [entry.obj], meta, self.clock(), self.include, head=head))
        if self.form:
            return encode(partial(entry.obj))
        return entry.full

    def many(self, entries: Sequence[Entry], meta: Mapping[str, Any]) -> bytes:
        """A list."""
        if self.form == "Table":
            objs = [entry.obj for entry in entries]
            return encode(render(self.resource, objs, dict(meta), self.clock(), self.include, head=True))
        if self.form:
            head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
            items = [encode(partial(entry.obj)) for entry in entries]
        else:
            head = {"kind": self.resource.list_kind, "apiVersion": self.resource.api_version, "metadata": meta}
            items = [entry.body for entry in entries]
        return encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"

    def bookmark(self, revision: int, *, initial_end: bool) -> bytes:
        """The object of a BOOKMARK event: a version, and nothing else."""
        meta: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self.form == "Table":
            return encode(render(self.resource, [], meta, self.clock(), self.include, head=False))
        kind, version = self.resource.kind, self.resource.api_version
        if self.form:
            kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
        return encode({"kind": kind, "apiVersion": version, "metadata": meta})


def renderer(resource: Resource, accept: str, query: Mapping[str, str], clock: Callable[[], datetime]) -> Renderer:
    """What the Accept header asks for first, of what is known."""
    found = _AS.search(accept)
    form = found[1].removesuffix("List") if found else ""
    return Renderer(resource, form, query.get("includeObject", "Metadata"), clock)
