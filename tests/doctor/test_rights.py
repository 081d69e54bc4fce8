"""The rights that are looked at are those of the documentation and of the manifests, which are those that are used."""

from __future__ import annotations

from quarantine.doctor.rights import rights
from tests.adapters.kube.test_permissions import PAGE
from tests.adapters.kube.test_permissions import RULES as DOCUMENTED
from tests.k8s.rights import granted
from tests.k8s.rights import rights as rights_of

LEASES, LEASE = "quarantine-system", "quarantine-controller"


def test_they_are_those_that_are_documented_and_granted() -> None:
    ours = set()
    for right in rights(LEASES, LEASE, {"quarantine"}):
        access = right.access
        resource = access.resource + (f"/{access.subresource}" if access.subresource else "")
        ours.add((access.verb, access.group, resource, access.namespace))
    assert ours == rights_of(DOCUMENTED)
    assert ours == rights_of(granted("enforce"))


def test_names_are_asked_for_where_the_role_has_them() -> None:
    """Else what is granted for one Lease, or one namespace, alone would look as if it were missing."""
    named = {(r.access.verb, r.access.name) for r in rights(LEASES, LEASE, ()) if r.access.resource == "leases"}
    assert named == {("get", LEASE), ("update", LEASE), ("create", "")}
    assert [r.access.name for r in rights(LEASES, LEASE, ()) if r.access.resource == "namespaces"] == ["kube-system"]


def test_a_right_is_told_as_in_the_documentation() -> None:
    for right in rights(LEASES, LEASE, {"quarantine"}):
        words = str(right.access).partition(" in namespace")[0].split(" ")
        assert words[0] in PAGE
        assert words[1] in PAGE
