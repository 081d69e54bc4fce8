"""The Kubernetes API: whether it answers, what it knows, what we may do there, and who leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from quarantine.adapters.kube.config import own_namespace
from quarantine.adapters.kube.inquiry import Access
from quarantine.core.budget import members_of
from quarantine.core.policy import Rules
from quarantine.core.units import format_duration
from quarantine.doctor.clocks import compared
from quarantine.doctor.finding import Finding, fault, good, note, warning
from quarantine.doctor.patient import Patient
from quarantine.doctor.rights import Need, Right, rights

_SECOND = timedelta(seconds=1)


def check(patient: Patient) -> Iterator[Finding]:
    """Version, clock, nodes, and the nodes of each pool."""
    cluster = patient.cluster()
    version, ahead = patient.kubernetes()
    yield good(f"the Kubernetes API at {cluster.url} answers: {version or 'it says no version'}")
    if ahead is None:
        yield note("its answers tell no time, so its clock is not compared with ours")
    else:
        yield compared("the Kubernetes API", ahead, "times in Events and on marks are read wrongly")
    nodes = patient.nodes()
    rules = patient.known_rules()
    if rules is None:
        yield good(f"{len(nodes)} nodes are listed")
        return
    members = members_of(nodes, rules)
    told = ", ".join(f"{name} {len(found)}" for name, found in members.items())
    yield good(f"{len(nodes)} nodes are listed; by pool: {told}")
    for name, found in members.items():
        if not found:
            yield warning(
                f"no node is in pool {name}", "correct its nodeSelector in the fleet file, or label the nodes"
            )


def check_rights(patient: Patient) -> Iterator[Finding]:
    """Each right that the code uses."""
    cluster, leader = patient.answering_cluster(), patient.settings.leader
    rules = patient.known_rules()
    namespaces = {spec.job.namespace for spec in rules.procedures.values() if spec.job} if rules else set()
    held, later = 0, list[Right]()
    missing: dict[tuple[Need, str], list[Access]] = {}
    for right in rights(leader.namespace or own_namespace(), leader.name, namespaces):
        if right.need is Need.LEAD and not patient.elected:
            continue
        if cluster.inquiry.may(right.access):
            held += 1
        elif patient.enforces or _needed_to_look(right, rules):
            missing.setdefault((right.need, right.without), []).append(right.access)
        else:
            later.append(right)
    for (need, without), lacking in missing.items():
        told = f"missing: the right to {_joined(lacking)}; without it {without}"
        yield (warning if need in {Need.TELL, Need.GUARD} else fault)(
            told, "grant it to this account, see docs/permissions.md"
        )
    if held:
        yield good(
            f"{held} right{'s' if held != 1 else ''} that the controller uses {'are' if held != 1 else 'is'} there"
        )
    if later:
        told = _joined([right.access for right in later])
        yield note(f"missing, and not needed to observe: the right to {told}", "grant them before mode enforce")


def _joined(accesses: Iterable[Access]) -> str:
    """`get, update leases.coordination.k8s.io in namespace x; list pods`."""
    by_object: dict[str, list[str]] = {}
    for access in accesses:
        by_object.setdefault(access.what, []).append(access.verb)
    return "; ".join(f"{', '.join(verbs)} {what}" for what, verbs in by_object.items())


def _needed_to_look(right: Right, rules: Rules | None) -> bool:
    if right.need is Need.GANGS and rules is not None:
        asked = (policy.spec.correlation for policy in rules.policies)
        return any(one is not None and "job" in one.by for one in asked)
    return right.need in {Need.LOOK, Need.LEAD, Need.GUARD}


def check_leader(patient: Patient) -> Iterator[Finding]:
    """Who holds the Lease."""
    cluster, leader = patient.answering_cluster(), patient.settings.leader
    if not patient.elected:
        yield note("no Lease is held: a single controller acts by itself", "set leader.elect for several replicas")
        return
    namespace = leader.namespace or own_namespace()
    record = cluster.lease(namespace, leader.name).read()
    if record is None or not record.holder:
        yield warning(
            f"nobody holds the Lease {namespace}/{leader.name}: no replica acts", "start the controller, or see its log"
        )
        return
    age = patient.now() - record.at
    told = f"{record.holder} leads, by the Lease {namespace}/{leader.name}"
    if age > 2 * record.lasts:
        since = format_duration(age - age % _SECOND)
        yield warning(
            f"{told}, and has not renewed it for {since}", "see the log of the replicas, and compare their clocks"
        )
    else:
        yield good(f"{told}; it has changed hands {record.transitions} times")
