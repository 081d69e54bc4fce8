"""The rights that the manifests grant, and those that requests took."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl

from quarantine.sandbox.kubeapi import Rule, rules_of
from quarantine.sandbox.kubeapi.auth import Attributes
from quarantine.sandbox.kubeapi.faults import LoggedRequest
from quarantine.sandbox.kubeapi.routing import parse_path
from tests.k8s.conftest import overlay

Right = tuple[str, str, str, str]  # verb, API group, resource, namespace ("" where it is everywhere)
EVERYBODY = {"/version"}  # what needs no right
REVIEW = "selfsubjectaccessreviews"  # nor does asking what one may


def granted(name: str) -> tuple[Rule, ...]:
    """The rules of all roles of an overlay."""
    return tuple(rule for m in overlay(name) if m["kind"] in {"ClusterRole", "Role"} for rule in rules_of(m))


def rights(rules: Iterable[Rule]) -> set[Right]:
    """Each for itself."""
    return {
        (verb, group, resource, rule.namespace)
        for rule in rules
        for verb in rule.verbs
        for group in rule.api_groups
        for resource in rule.resources
    }


def asked_for(requests: Iterable[LoggedRequest]) -> list[Attributes]:
    """What these requests needed a right for."""
    found = []
    for request in requests:
        if request.path.rstrip("/") in EVERYBODY:
            continue
        target = parse_path(request.path)
        assert target is not None, f"{request.path} is no resource"
        # The log calls a watch WATCH.
        method = "GET" if request.method == "WATCH" else request.method
        asked = target.attributes(method, dict(parse_qsl(request.query)))
        if asked.resource != REVIEW:
            found.append(asked)
    return found


def used(requests: Iterable[LoggedRequest], rules: Iterable[Rule]) -> set[Right]:
    """What these requests took, each as the right of `rules` that let it by. Fails for one that none lets by."""
    known, found = tuple(rules), set[Right]()
    for asked in asked_for(requests):
        let_by = [rule for rule in known if rule.allows(asked)]
        assert let_by, f"nothing lets by {asked}"
        found |= {(asked.verb, asked.group, asked.full_resource, rule.namespace) for rule in let_by}
    return found


def only_as_granted(requests: Iterable[LoggedRequest]) -> None:
    """Fails where any of them would need more than the overlay `enforce` grants.

    Which namespace and which name is left out: a test's Lease and Jobs may be elsewhere.
    """
    may = {(verb, group, resource) for verb, group, resource, _ in rights(granted("enforce"))}
    took = {(asked.verb, asked.group, asked.full_resource) for asked in asked_for(requests)}
    assert took <= may, f"the manifests do not grant {sorted(took - may)}"
