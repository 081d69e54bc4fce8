"""A request in, an answer out: authentication, authorization, routing and the verbs. No network here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quarantine.sandbox.kubeapi import errors
from quarantine.sandbox.kubeapi.api import KubeApi
from quarantine.sandbox.kubeapi.auth import Attributes, Identity, allowed, forbidden, review
from quarantine.sandbox.kubeapi.discovery import discover
from quarantine.sandbox.kubeapi.eviction import evict
from quarantine.sandbox.kubeapi.managed import manager_name
from quarantine.sandbox.kubeapi.operations import Write
from quarantine.sandbox.kubeapi.patches import json_patch, merge_patch
from quarantine.sandbox.kubeapi.reading import list_page, selection, whole
from quarantine.sandbox.kubeapi.rendering import Renderer, renderer
from quarantine.sandbox.kubeapi.resources import PODS, Resource
from quarantine.sandbox.kubeapi.routing import Target, is_watch, parse_path
from quarantine.sandbox.kubeapi.store import encode
from quarantine.sandbox.kubeapi.strategic import strategic_merge
from quarantine.sandbox.kubeapi.watching import Watch, open_watch

_BODY_LIMIT: Final = 3 * 1024 * 1024
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_PATCHES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "application/json-patch+json": json_patch,
    "application/merge-patch+json": merge_patch,
    "application/strategic-merge-patch+json": strategic_merge,
}
_NO_APPLY: Final = " (this emulator leaves server-side apply out)"


@dataclass(frozen=True, slots=True)
class Call:
    """One request. Header names are lower case; of a repeated query parameter the last counts."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: `body`, or a stream where `watch` is set."""

    status: int
    body: bytes = b""
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    watch: Watch | None = None
    user: str = ""


def refusal(error: errors.ApiError, user: str = "") -> Reply:
    """An error as an answer."""
    after = error.retry_after
    headers = {"Retry-After": str(after)} if after is not None else {}
    return Reply(error.code, encode(error.body()), headers=headers, user=user)


def dispatch(api: KubeApi, call: Call, address: str = "") -> Reply:
    """Answer `call`. `address` is host:port, for discovery. Never raises ApiError."""
    user = ""
    try:
        who = api.gate.identify(call.headers)
        user = who.name
        reply = _serve(api, call, who, address)
    except errors.ApiError as error:
        return refusal(error, user)
    return Reply(reply.status, reply.body, reply.media_type, reply.headers, reply.watch, user)


def _serve(api: KubeApi, call: Call, who: Identity, address: str) -> Reply:
    target = parse_path(call.path)
    if target is None:
        return _outside(call, who, address)
    asked = target.attributes(call.method, call.query)
    if not allowed(who, asked):
        raise forbidden(who, asked)
    if target.is_self_review and call.method == "POST":
        return _json(review(who, _parse_object(call)), 201)
    resource = target.resource
    if resource is None or (target.namespace and not resource.namespaced):
        raise errors.no_such_resource()
    if target.name and resource.namespaced and not target.namespace:
        raise errors.no_such_resource()
    verbs = _Verbs(
        api, call, target, resource, renderer(resource, call.headers.get("accept", ""), call.query, api.clock)
    )
    reply = verbs.run()
    if call.method != "GET":
        api.after_write()
    return reply


def _outside(call: Call, who: Identity, address: str) -> Reply:
    """Paths that are no resources."""
    asked = Attributes({"GET": "get"}.get(call.method, call.method.lower()), path=call.path)
    if not allowed(who, asked):
        raise forbidden(who, asked)
    if call.path in _HEALTH:
        return Reply(200, b"ok", "text/plain")
    found = discover(call.path, address) if call.method == "GET" else None
    if found is None:
        return Reply(404, b"404 page not found\n", "text/plain")
    return _json(found)


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, encode(value))


def _parse(call: Call) -> Any:
    if len(call.body) > _BODY_LIMIT:
        text = f"Request entity too large: limit is {_BODY_LIMIT}"
        raise errors.ApiError(413, "RequestEntityTooLarge", text, {})
    try:
        return json.loads(call.body)
    except (ValueError, RecursionError) as error:
        raise errors.bad_request(f"the object provided is unrecognized (must be of type JSON): {error}") from error


def _parse_object(call: Call, *, optional: bool = False) -> Mapping[str, Any]:
    """A JSON body that is an object. Raises 400, 413, 415."""
    if optional and not call.body:
        return {}
    kind = call.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind not in {"application/json", "*/*", ""}:
        raise errors.unsupported_media_type(["application/json"])
    body = _parse(call)
    if not isinstance(body, Mapping):
        raise errors.bad_request("the body of the request is no JSON object")
    return body


@dataclass(frozen=True, slots=True)
class _Verbs:
    """What can be done with a resource."""

    api: KubeApi
    call: Call
    target: Target
    resource: Resource
    renderer: Renderer

    def run(self) -> Reply:
        """Raises 404 and 405 for what cannot be done."""
        sub = self.target.subresource
        if sub == "eviction" and self.resource is PODS:
            verbs = {"POST": self._evict}
        elif sub and not (sub == "status" and self.resource.has_status):
            raise errors.no_such_resource()
        elif is_watch(self.call.query) and not sub:
            verbs = {"GET": self._watch}
        elif self.target.name:
            verbs = {"GET": self._get, "PUT": self._replace, "PATCH": self._patch}
            verbs |= {} if sub else {"DELETE": self._delete}
        else:
            verbs = {"GET": self._list, "DELETE": self._delete_all}
            verbs |= {"POST": self._create} if self.target.namespace or not self.resource.namespaced else {}
        verb = verbs.get(self.call.method)
        if verb is None:
            raise errors.method_not_allowed()
        return verb()

    def _write(self) -> Write:
        query = self.call.query
        if query.get("dryRun", "All") != "All":
            raise errors.bad_request(f'dryRun: Unsupported value: "{query["dryRun"]}": supported values: "All"')
        manager = manager_name(query.get("fieldManager", ""), self.call.headers.get("user-agent", ""))
        return Write(manager, self.target.subresource, "dryRun" in query)

    def _get(self) -> Reply:
        entry = self.api.operations.require(self.resource, self.target.key)
        return Reply(200, self.renderer.one(entry))

    def _list(self) -> Reply:
        page = list_page(
            self.api.store, selection(self.resource, self.target.namespace, self.call.query), self.call.query
        )
        return Reply(200, self.renderer.many(page.entries, page.meta))

    def _watch(self) -> Reply:
        query = dict(self.call.query)
        if self.target.name:
            query["fieldSelector"] = f"metadata.name={self.target.name}"
        wanted = selection(self.resource, self.target.namespace, query)
        return Reply(200, watch=open_watch(self.api.store, wanted, query, self.renderer))

    def _create(self) -> Reply:
        body = _parse_object(self.call)
        entry = self.api.operations.create(self.resource, self.target.namespace, body, self._write())
        return Reply(201, self.renderer.one(entry))

    def _replace(self) -> Reply:
        body, operations = _parse_object(self.call), self.api.operations
        with operations.store.lock:
            status = 200 if operations.store.get(self.resource, self.target.key) else 201
            entry = operations.replace(self.resource, self.target.key, body, self._write())
        return Reply(status, self.renderer.one(entry))

    def _patch(self) -> Reply:
        kind = self.call.headers.get("content-type", "").partition(";")[0].strip()
        apply = _PATCHES.get(kind)
        if apply is None:
            extra = _NO_APPLY if kind.startswith("application/apply-patch") else ""
            raise errors.unsupported_media_type(list(_PATCHES), extra)
        patch = _parse(self.call)
        entry = self.api.operations.patch(self.resource, self.target.key, lambda obj: apply(obj, patch), self._write())
        return Reply(200, self.renderer.one(entry))

    def _options(self) -> tuple[Mapping[str, Any], Write]:
        """DeleteOptions, from the query and the body."""
        query, write = self.call.query, self._write()
        options = dict(_parse_object(self.call, optional=True))
        if "propagationPolicy" in query:
            options.setdefault("propagationPolicy", query["propagationPolicy"])
        if "gracePeriodSeconds" in query:
            options.setdefault("gracePeriodSeconds", whole(query, "gracePeriodSeconds"))
        return options, Write(write.manager, dry_run=write.dry_run or options.get("dryRun") == ["All"])

    def _delete(self) -> Reply:
        options, write = self._options()
        entry, gone = self.api.operations.delete(self.resource, self.target.key, options, write)
        if self.resource.returns_deleted or not gone:
            return Reply(200, self.renderer.one(entry))
        about = errors.details(self.resource, self.target.name) | {"uid": entry.obj["metadata"]["uid"]}
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": about})

    def _delete_all(self) -> Reply:
        options, write = self._options()
        with self.api.store.lock:
            page = list_page(
                self.api.store, selection(self.resource, self.target.namespace, self.call.query), self.call.query
            )
            gone = [self.api.operations.delete(self.resource, e.key, options, write)[0] for e in page.entries]
        return Reply(200, self.renderer.many(gone, page.meta))

    def _evict(self) -> Reply:
        status = evict(self.api.operations, self.target.key, _parse_object(self.call), self._write())
        return _json(status, 201)
