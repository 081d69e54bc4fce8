"""The Kubernetes API: whether it answers, what it knows, what we may do there, and who leads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from quarantine.adapters.kube.config import own_namespace
from quarantine.core.budget import members_of
from quarantine.core.policy import Rules
from quarantine.core.units import format_duration
from quarantine.doctor.clocks import compared
from quarantine.doctor.finding import Finding, Skipped, fault, good, note, warning
from quarantine.doctor.patient import Patient
from quarantine.doctor.rights import Need, Right, rights

_SECOND = timedelta(seconds=1)


def check(patient: Patient) -> Iterator[Finding]:
    """Version, clock, nodes, and the nodes of each pool."""
    cluster = patient.cluster()
    version, ahead = cluster.inquiry.version()
    yield good(f"the Kubernetes API at {cluster.url} answers: {version or 'it says no version'}")
    if ahead is not None:
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
    cluster, leader = patient.cluster(), patient.settings.leader
    try:
        cluster.inquiry.version()
    except Exception:  # noqa: BLE001  (whatever it is, the check before this one tells of it)
        raise Skipped("the Kubernetes API did not answer") from None
    rules = patient.known_rules()
    namespaces = {spec.job.namespace for spec in rules.procedures.values() if spec.job} if rules else set()
    held, later = 0, list[Right]()
    for right in rights(leader.namespace or own_namespace(), leader.name, namespaces):
        if right.need is Need.LEAD and not patient.elected:
            continue
        if cluster.inquiry.may(right.access):
            held += 1
        elif patient.enforces or _needed_to_look(right, rules):
            advice = f"grant {right.access} to this account, as docs/permissions.md has it"
            told = f"the right to {right.access} is missing: {right.without}"
            yield (warning if right.need is Need.TELL else fault)(told, advice)
        else:
            later.append(right)
    if held:
        yield good(
            f"{held} right{'s' if held != 1 else ''} that the controller uses {'are' if held != 1 else 'is'} there"
        )
    if later:
        missing = ", ".join(str(right.access) for right in later)
        yield note(f"missing, and not needed to observe: {missing}", "grant them before mode enforce")


def _needed_to_look(right: Right, rules: Rules | None) -> bool:
    if right.need is Need.GANGS and rules is not None:
        asked = (policy.spec.correlation for policy in rules.policies)
        return any(one is not None and "job" in one.by for one in asked)
    return right.need in {Need.LOOK, Need.LEAD}


def check_leader(patient: Patient) -> Iterator[Finding]:
    """Who holds the Lease."""
    leader = patient.settings.leader
    if not patient.elected:
        yield note("no Lease is held: a single controller acts by itself", "set leader.elect for several replicas")
        return
    namespace = leader.namespace or own_namespace()
    record = patient.cluster().lease(namespace, leader.name).read()
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
