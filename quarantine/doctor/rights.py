"""Every right in the cluster that the code uses, what for, and what is missing without it.

The same as in docs/permissions.md and in k8s/: a test holds the three together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from quarantine.adapters.kube.inquiry import Access

EVENTS = "default"  # the namespace of Events about nodes


class Need(StrEnum):
    """Who needs a right."""

    LOOK = "look"  # everybody
    GANGS = "gangs"  # who acts, and policies that look which machines run one job
    ACT = "act"  # who acts
    TELL = "tell"  # who acts, and can do without
    GUARD = "guard"  # everybody, and can do without as long as the ledger does not know its cluster
    RUN = "run"  # procedures that are Jobs
    LEAD = "lead"  # replicas


@dataclass(frozen=True, slots=True)
class Right:
    """`without`: what does not work where it is missing."""

    need: Need
    access: Access
    without: str


def rights(leases: str, lease: str, jobs: Collection[str]) -> Iterator[Right]:
    """All of them. `leases`, `lease`: namespace and name of the Lease; `jobs`: the namespaces of the procedures."""
    nothing = "nothing is decided: a cluster that is not seen is not healthy"
    yield Right(Need.LOOK, Access("list", "nodes"), nothing)
    yield Right(Need.LOOK, Access("watch", "nodes"), nothing)
    unguarded = "another cluster could write this trail, and a trail that is known to be ours is not written"
    yield Right(Need.GUARD, Access("get", "namespaces", name="kube-system"), unguarded)
    yield Right(Need.GANGS, Access("list", "pods"), "no drain begins, and nothing is reset, rebooted or replaced")
    yield Right(Need.ACT, Access("patch", "nodes"), "findings are recorded, and no machine is taken out")
    yield Right(
        Need.TELL, Access("patch", "nodes", subresource="status"), "the node condition HardwareSuspect is missing"
    )
    yield Right(Need.TELL, Access("create", "events", namespace=EVENTS), "the Events that say why are missing")
    yield Right(Need.ACT, Access("create", "pods", subresource="eviction"), "no drain goes on")
    for namespace in sorted(jobs):
        for verb in ("create", "get", "list", "delete"):
            access = Access(verb, "jobs", "batch", namespace=namespace)
            yield Right(Need.RUN, access, "procedures that are Jobs fail")
    for verb in ("get", "update", "create"):
        name = "" if verb == "create" else lease  # of what is to be created, RBAC does not know the name
        access = Access(verb, "leases", "coordination.k8s.io", namespace=leases, name=name)
        yield Right(Need.LEAD, access, "no replica acts")
