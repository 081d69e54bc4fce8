"""Who asks, and may they? Bearer tokens, impersonation, and rules as in RBAC."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quarantine.sandbox.kubeapi.errors import ApiError

MASTERS: Final = "system:masters"
_AUTHENTICATED: Final = "system:authenticated"
_PUBLIC_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY_PATHS: Final = (*_PUBLIC_PATHS, "/api", "/apis", "/openapi")
_SELF_REVIEWS: Final = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role. `*` stands for all; a subresource is `pods/eviction`; no namespace means everywhere."""

    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    api_groups: tuple[str, ...] = ("",)
    resource_names: tuple[str, ...] = ()
    namespace: str = ""

    def allows(self, asked: Attributes) -> bool:
        """Whether this rule lets `asked` through."""
        return (
            _in(asked.verb, self.verbs)
            and _in(asked.group, self.api_groups)
            and (_in(asked.full_resource, self.resources) or f"*/{asked.subresource}" in self.resources)
            and (not self.resource_names or asked.name in self.resource_names)
            and (not self.namespace or self.namespace == asked.namespace)
        )


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may come with `token`."""

    name: str
    token: str = field(repr=False)
    groups: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a request counts as, after impersonation."""

    name: str
    groups: tuple[str, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked for: a verb on a resource, or on a path outside of the API where `path` is set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`pods/eviction`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",), ())


def _in(value: str, allowed: Sequence[str]) -> bool:
    return "*" in allowed or value in allowed


def rules_of(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a ClusterRole or Role manifest, so that a test can run with the rights that a deployment has."""
    namespace = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    return tuple(
        Rule(
            tuple(rule["verbs"]),
            tuple(rule.get("resources", ())),
            tuple(rule.get("apiGroups", ("",))),
            tuple(rule.get("resourceNames", ())),
            namespace,
        )
        for rule in role.get("rules") or ()
    )


def default_users() -> tuple[User, ...]:
    """An admin with a token of its own."""
    return (User("admin", secrets.token_urlsafe(24), (MASTERS,)),)


def _token(authorization: str) -> str:
    """Of a bearer, or the password of basic authentication: kubectl sends no bearer token over plain HTTP."""
    scheme, _, value = authorization.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).decode().partition(":")[2]
            except ValueError:
                return ""
    return ""


class Gate:
    """Authenticates and authorizes."""

    def __init__(self, users: Iterable[User]) -> None:
        self.users = tuple(users)

    def identify(self, headers: Mapping[str, str]) -> Identity:
        """Raises 401 for a wrong token, 403 for an impersonation that is not allowed. No token: anonymous."""
        authorization = headers.get("authorization", "")
        caller = self._authenticate(authorization) if authorization else ANONYMOUS
        target = headers.get("impersonate-user")
        if not target:
            return caller
        asked = Attributes("impersonate", resource="users", name=target)
        if not allowed(caller, asked):
            raise forbidden(caller, asked)
        groups = tuple(filter(None, (headers.get("impersonate-group", ""), _AUTHENTICATED)))
        return Identity(target, groups, self._rules(target))

    def _authenticate(self, authorization: str) -> Identity:
        given = _token(authorization).encode()
        for user in self.users:
            if given and hmac.compare_digest(user.token.encode(), given):
                return Identity(user.name, (*user.groups, _AUTHENTICATED), user.rules)
        raise ApiError(401, "Unauthorized", "Unauthorized")

    def _rules(self, name: str) -> tuple[Rule, ...]:
        return next((user.rules for user in self.users if user.name == name), ())


def allowed(who: Identity, asked: Attributes) -> bool:
    """Whether `who` may do what is asked."""
    if MASTERS in who.groups:
        return True
    known = _AUTHENTICATED in who.groups
    if asked.path:
        paths = _DISCOVERY_PATHS if known else _PUBLIC_PATHS
        return asked.verb == "get" and any(asked.path == p or asked.path.startswith(f"{p}/") for p in paths)
    if known and asked.group == "authorization.k8s.io" and asked.verb == "create" and asked.resource in _SELF_REVIEWS:
        return True
    return any(rule.allows(asked) for rule in who.rules)


def forbidden(who: Identity, asked: Attributes) -> ApiError:
    """403, in the words of RBAC."""
    if asked.path:
        text = f'forbidden: User "{who.name}" cannot {asked.verb} path "{asked.path}"'
        return ApiError(403, "Forbidden", text, {})
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f'{qualified} "{asked.name}"' if asked.name else qualified
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    text = (
        f'{subject} is forbidden: User "{who.name}" cannot {asked.verb} resource "{asked.full_resource}" '
        f'in API group "{asked.group}" {scope}'
    )
    about = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return ApiError(403, "Forbidden", text, {key: value for key, value in about.items() if value})


def review(who: Identity, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a SelfSubjectAccessReview."""
    spec = body.get("spec") or {}
    if "nonResourceAttributes" in spec:
        wanted = spec["nonResourceAttributes"]
        asked = Attributes(wanted.get("verb", ""), path=wanted.get("path", "/"))
    else:
        wanted = spec.get("resourceAttributes") or {}
        names = ("verb", "group", "resource", "subresource", "namespace", "name")
        asked = Attributes(**{name: wanted.get(name, "") for name in names})
    return {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": dict(spec),
        "status": {"allowed": allowed(who, asked)},
    }
