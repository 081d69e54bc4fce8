"""Which object, collection or subresource a path names, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quarantine.sandbox.kubeapi.auth import Attributes
from quarantine.sandbox.kubeapi.resources import BY_PATH, GROUPS, NAMESPACES, Resource
from quarantine.sandbox.kubeapi.selectors import named
from quarantine.sandbox.kubeapi.store import Key

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SELF_REVIEW = ("authorization.k8s.io", "v1", "selfsubjectaccessreviews")


@dataclass(frozen=True, slots=True)
class Target:
    """What a resource path names. `resource` is None where the group is served, and this is not."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource | None:
        """The kind, where it is a stored one."""
        return BY_PATH.get((self.group, self.version, self.plural))

    @property
    def is_self_review(self) -> bool:
        """SelfSubjectAccessReview, which is answered and not stored."""
        return (self.group, self.version, self.plural) == _SELF_REVIEW

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return (self.namespace, self.name)

    def attributes(self, method: str, query: Mapping[str, str]) -> Attributes:
        """What is asked, for authorization."""
        verb, name = _VERBS.get(method, "get"), self.name
        if not name and method in {"GET", "HEAD"}:
            verb = "watch" if is_watch(query) else "list"
            name = named(query.get("fieldSelector", ""))
        elif not name and method == "DELETE":
            verb = "deletecollection"
        return Attributes(verb, self.group, self.plural, self.subresource, self.namespace, name)


def is_watch(query: Mapping[str, str]) -> bool:
    """Whether a GET of a collection asks for a stream."""
    return query.get("watch", "") in {"1", "true", "True"}


def parse_path(path: str) -> Target | None:
    """`/api/v1/namespaces/default/pods/p1/eviction` → Target; None where no API group is served at this path."""
    match path.strip("/").split("/"):
        case ["api", "v1", *rest] if rest:
            group, version = "", "v1"
        case ["apis", group, version, *rest] if rest and version in GROUPS.get(group, ()):
            pass
        case _:
            return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] == "status" and not group):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    if plural == NAMESPACES.plural and not group:
        namespace = ""
    return Target(group, version, plural, namespace, name, subresource)
