"""Create, update and delete: what happens between the request and the store, the same for HTTP and in-process calls."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quarantine.sandbox.kubeapi import errors
from quarantine.sandbox.kubeapi.clock import parse, timestamp
from quarantine.sandbox.kubeapi.managed import Manager, track
from quarantine.sandbox.kubeapi.patches import same
from quarantine.sandbox.kubeapi.resources import ALL, JOBS, NAMESPACES, PODS, Resource
from quarantine.sandbox.kubeapi.store import Entry, Key, Object, Store
from quarantine.sandbox.kubeapi.strategies import admit, blank, normalise, normalise_update, reset_for_create
from quarantine.sandbox.kubeapi.types import type_problem
from quarantine.sandbox.kubeapi.validation import problems_on_create, problems_on_update

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
_SYSTEM = ("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields")


@dataclass(frozen=True, slots=True)
class Write:
    """How a write is made: by which field manager, and for real or not."""

    manager: str = "kubeapi"
    subresource: str = ""
    dry_run: bool = False


class Operations:
    """Writes on a store. Raises ApiError."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self.store = store
        self.clock = clock

    def now(self) -> str:
        """The time as metadata has it."""
        return timestamp(self.clock())

    def require(self, resource: Resource, key: Key) -> Entry:
        """The object, or 404."""
        entry = self.store.get(resource, key)
        if entry is None:
            raise errors.not_found(resource, key[1])
        return entry

    def create(self, resource: Resource, namespace: str, sent: object, write: Write) -> Entry:
        """POST. `namespace` is that of the path."""
        obj = _decode(resource, sent)
        with self.store.lock:
            meta = obj["metadata"] = dict(obj.get("metadata") or {})
            self._place(resource, namespace, meta)
            if meta.get("resourceVersion"):
                raise errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
            for field in (*_SYSTEM, "selfLink"):
                meta.pop(field, None)
            meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.now()}
            if resource.generation:
                meta["generation"] = 1
            reset_for_create(resource, obj)
            obj = normalise(resource, obj)
            manager = Manager(write.manager)
            obj["metadata"]["managedFields"] = track(blank(resource), obj, manager, resource.api_version, self.now())
            if not obj["metadata"]["managedFields"]:
                del obj["metadata"]["managedFields"]
            admit(resource, obj)
            name = obj["metadata"].get("name", "")
            if problems := problems_on_create(resource, obj):
                raise errors.invalid(resource, name, problems)
            key = (namespace, name)
            if self.store.get(resource, key) is not None:
                raise errors.already_exists(resource, name)
            return self._commit(resource, key, obj, write)

    def _place(self, resource: Resource, namespace: str, meta: Object) -> None:
        """Name it, and see that its namespace is there."""
        if not meta.get("name") and meta.get("generateName"):
            while True:
                meta["name"] = meta["generateName"] + "".join(secrets.choice(_SUFFIX) for _ in range(5))
                if self.store.get(resource, (namespace, meta["name"])) is None:
                    break
        if not resource.namespaced:
            meta.pop("namespace", None)
            return
        if meta.get("namespace", namespace) != namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        meta["namespace"] = namespace
        home = self.store.get(NAMESPACES, ("", namespace))
        if home is None:
            raise errors.not_found(NAMESPACES, namespace)
        if home.obj["metadata"].get("deletionTimestamp"):
            name = meta.get("name", "")
            text = f'{resource.qualified} "{name}" is forbidden: unable to create new content in namespace {namespace}'
            about = errors.details(resource, name)
            raise errors.ApiError(403, "Forbidden", f"{text} because it is being terminated", about)

    def replace(self, resource: Resource, key: Key, sent: object, write: Write) -> Entry:
        """PUT, conditional on the resourceVersion and uid that it carries."""
        obj = _decode(resource, sent)
        meta = obj["metadata"] = dict(obj.get("metadata") or {})
        with self.store.lock:
            if self.store.get(resource, key) is None and resource.create_on_update and not write.subresource:
                return self.create(resource, key[0], obj, write)
            present = self.require(resource, key)
            version, uid, real = meta.get("resourceVersion"), meta.get("uid"), present.obj["metadata"]["uid"]
            if not version and not resource.unconditional_update:
                text = "Invalid value: 0: must be specified for an update"
                problem = errors.Problem("metadata.resourceVersion", "FieldValueInvalid", text)
                raise errors.invalid(resource, key[1], [problem])
            if uid and uid != real:
                text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {real}"
                raise errors.conflict(resource, key[1], text)
            meta["uid"] = real
            return self._change(resource, key, obj, write)

    def patch(self, resource: Resource, key: Key, apply: Callable[[Object], Any], write: Write) -> Entry:
        """PATCH: `apply` makes the new object from the present one. A resourceVersion in it is a precondition."""
        with self.store.lock:
            changed = apply(self.require(resource, key).copy())
            if problem := type_problem(resource, changed):
                raise errors.invalid(
                    resource, "", [errors.Problem("patch", "FieldValueInvalid", f"Invalid value: {problem}")]
                )
            changed.setdefault("metadata", {})
            return self._change(resource, key, changed, write)

    def _change(self, resource: Resource, key: Key, obj: Object, write: Write) -> Entry:
        present = self.require(resource, key)
        old, meta = present.obj, obj["metadata"]
        _check_identity(resource, key, obj)
        if meta.get("resourceVersion") not in {None, "", str(present.revision)}:
            raise errors.conflict(resource, key[1])
        meta |= {"name": key[1]} | ({"namespace": key[0]} if resource.namespaced else {})
        for field in _SYSTEM:
            meta.pop(field, None)
            if field in old["metadata"]:
                meta[field] = old["metadata"][field]
        obj = normalise_update(resource, obj, old, write.subresource)
        meta = obj["metadata"]
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        if problems := problems_on_update(resource, obj, old):
            raise errors.invalid(resource, key[1], problems)
        if same(_bare(obj), old):
            return present
        if resource.generation and not same(obj.get("spec"), old.get("spec")):
            meta["generation"] = old["metadata"].get("generation", 1) + 1
        manager = Manager(write.manager, write.subresource)
        meta["managedFields"] = track(old, obj, manager, resource.api_version, self.now())
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and "finalizers" in old["metadata"]:
            return self._erase(resource, key, write)
        return self._commit(resource, key, obj, write)

    def delete(self, resource: Resource, key: Key, options: Mapping[str, Any], write: Write) -> tuple[Entry, bool]:
        """DELETE. Returns the last state, and whether the object is gone (a terminating pod is not)."""
        with self.store.lock:
            present = self.require(resource, key)
            check_preconditions(resource, present, options)
            if _orphans(resource, options) and not write.dry_run:
                self._orphan(present.obj["metadata"]["uid"])
            grace = _grace(resource, present, options)
            if not grace and not present.obj["metadata"].get("finalizers"):
                return self._erase(resource, key, write), True
            meta = present.obj["metadata"]
            ends = timestamp(self.clock() + timedelta(seconds=grace))
            if "deletionTimestamp" in meta and parse(meta["deletionTimestamp"]) <= parse(ends):
                return present, False
            obj = present.copy()
            obj["metadata"] |= {"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
            if resource is NAMESPACES:
                obj["status"]["phase"] = "Terminating"
            return self._commit(resource, key, obj, write), False

    def _orphan(self, uid: str) -> None:
        """Take this owner out of its dependents, as the garbage collector does before it is deleted."""
        for resource in ALL:
            for key, entry in self.store.entries(resource).items():
                owners = entry.obj["metadata"].get("ownerReferences") or ()
                left = [owner for owner in owners if owner.get("uid") != uid]
                if len(left) < len(owners):
                    obj = entry.copy()
                    obj["metadata"]["ownerReferences"] = left
                    if not left:
                        del obj["metadata"]["ownerReferences"]
                    self.store.put(resource, key, obj)

    def _commit(self, resource: Resource, key: Key, obj: Object, write: Write) -> Entry:
        if write.dry_run:
            return self.store.draft(resource, key, obj)
        return self.store.put(resource, key, obj)

    def _erase(self, resource: Resource, key: Key, write: Write) -> Entry:
        return self.require(resource, key) if write.dry_run else self.store.remove(resource, key)


def _orphans(resource: Resource, options: Mapping[str, Any]) -> bool:
    """Whether dependents stay: as asked for, and else, of Jobs alone, for the sake of old clients."""
    if (policy := options.get("propagationPolicy")) is not None:
        return bool(policy == "Orphan")
    return bool(options.get("orphanDependents", resource is JOBS))


def _bare(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}


def _decode(resource: Resource, sent: object) -> Object:
    prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    problem = type_problem(resource, sent)
    if problem or not isinstance(sent, Mapping):
        raise errors.bad_request(f"{prefix}{problem}")
    obj = dict(sent)
    version = obj.get("apiVersion", resource.api_version)
    if version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if obj.get("kind", resource.kind) != resource.kind:
        raise errors.bad_request(f"{prefix}the object is of kind {obj['kind']}")
    return obj


def _check_identity(resource: Resource, key: Key, obj: Object) -> None:
    name = obj["metadata"].get("name", key[1])
    if name != key[1]:
        text = f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
        raise errors.bad_request(text)
    if resource.namespaced and obj["metadata"].get("namespace", key[0]) != key[0]:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_preconditions(resource: Resource, present: Entry, options: Mapping[str, Any]) -> None:
    """The uid and resourceVersion of DeleteOptions. Raises 409."""
    wanted, meta = options.get("preconditions") or {}, present.obj["metadata"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != meta["uid"]:
        text = f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']})"
        text += ". The object might have been deleted and then recreated"
        raise errors.delete_conflict(resource, meta["name"], text)
    if version and version != meta["resourceVersion"]:
        text = f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record"
        text += f" ({meta['resourceVersion']}). The object might have been modified"
        raise errors.delete_conflict(resource, meta["name"], text)


def _grace(resource: Resource, present: Entry, options: Mapping[str, Any]) -> int:
    """Seconds for a pod to end in; 0 where nothing runs that would have to end."""
    if resource is NAMESPACES:
        return 1  # its content goes first: the namespace controller ends it
    if resource is not PODS:
        return 0
    spec, status = present.obj["spec"], present.obj["status"]
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    asked = options.get("gracePeriodSeconds")
    return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)
