"""What a quarantine writes on a node, and what its end takes away: computed from the node as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.core.case import Case, Phase
from quarantine.core.model import Machine, Node, Taint

ANNOTATION_LIMIT = 1024  # characters of a reason: annotations of an object may total 256 KiB, and people read this one


@dataclass(frozen=True, slots=True)
class NodePatch:
    """A conditional write of a Node: refused by the server unless uid and resourceVersion are still these.

    `taints` is the whole list (it is atomic: naming one would remove all others), None leaves it alone. In `labels` and
    `annotations`, None removes the key.
    """

    node: str
    uid: str
    resource_version: str
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A Kubernetes Event about a node. `name` is ours to choose, so that a repeat is recognised."""

    name: str
    node: str
    node_uid: str
    reason: str  # CamelCase, for machines
    message: str  # for people
    warning: bool


CONDITION = "HardwareSuspect"
_OWN = ("case", "reason", "cordoned-by", "since", "guards")  # annotations of a mark, under the prefix


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """Our condition on a node, merged by its type into the others. Refused unless the node is still of this uid."""

    node: str
    uid: str
    status: bool
    reason: str  # CamelCase, for machines
    message: str  # for people


def taint_key(prefix: str) -> str:
    """The taint's key."""
    return f"{prefix}/suspect"


def case_on(node: Node, prefix: str) -> str | None:
    """The case id in our taint on this node; None where it has no taint of ours."""
    return next((t.value for t in node.taints if t.key == taint_key(prefix) and t.effect == "NoSchedule"), None)


def machine_matches(node: Node, machine: Machine) -> bool:
    """Whether the Node object is still the one that the case was opened for."""
    return node.machine.node_uid == machine.node_uid


def same_hardware(node: Node, machine: Machine) -> bool:
    """Whether a Node object, perhaps made again, stands for this machine. Where nothing tells, it does not."""
    return same_machine(node.machine, machine)


def same_machine(now: Machine, then: Machine) -> bool:
    """Whether two records are of one machine's hardware. Where nothing tells, they are not."""
    if now.node_uid == then.node_uid:
        return True
    if now.system_uuid and then.system_uuid:
        return now.system_uuid == then.system_uuid
    return bool(now.provider_id) and now.provider_id == then.provider_id


def mark(
    node: Node,
    case: Case,
    *,
    prefix: str,
    reason: str,
    cordon: bool,
    phase: str,
    guards: Mapping[str, str] | None = None,
) -> NodePatch:
    """Cordon, taint, label and annotate. What is there already is not ours: a cordon, and annotations of `guards`.

    A mark that is put back leaves the cordon as it is: who took it away is asked, and not fought (invariant 4).
    """
    ours = Taint(key=taint_key(prefix), value=case.id, effect="NoSchedule")
    others = tuple(t for t in node.taints if not (t.key == ours.key and t.effect == ours.effect))
    again = was_marked(node, case, prefix)
    # An earlier case's cordon, still to be taken away, is ours as well.
    ours_already = node.annotations.get(f"{prefix}/cordoned-by") == "quarantine"
    # What is ours stays so, though the policies that are in force by now would set no cordon.
    by_us = ours_already or (cordon and not (node.unschedulable or again))
    since = (marked_since(node, prefix) if again else None) or case.taken_out_at
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=True if cordon and not again else None,
        taints=(*others, ours),
        labels={f"{prefix}/phase": phase},
        annotations={
            **_guarded(node, prefix, guards or {}),
            f"{prefix}/case": case.id,
            f"{prefix}/reason": shorten(reason, ANNOTATION_LIMIT),
            f"{prefix}/cordoned-by": "quarantine" if by_us else "other",
            f"{prefix}/since": since.isoformat().replace("+00:00", "Z"),
        },
    )


def was_marked(node: Node, case: Case, prefix: str) -> bool:
    """Whether this Node object was marked for this case once, whatever became of the taint."""
    return node.annotations.get(f"{prefix}/case") == case.id


def marked_since(node: Node, prefix: str) -> datetime | None:
    """When the decision was taken that marked this node, by its annotation; None where it does not say."""
    try:
        said = datetime.fromisoformat(node.annotations.get(f"{prefix}/since", ""))
    except ValueError:
        return None
    return said if said.tzinfo is not None else None


def of_case(node: Node, case: Case, prefix: str) -> bool:
    """Whether anything of this case's mark is there."""
    return case_on(node, prefix) == case.id or was_marked(node, case, prefix)


def fence(node: Node, case: Case, *, prefix: str) -> NodePatch:
    """A write that does no more than move the Node's version on: a mark that is still under way is refused then."""
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        annotations={f"{prefix}/case": case.id},
    )


def unmark(node: Node, case: Case, *, prefix: str) -> NodePatch | None:
    """Take away what `mark` added for this case, and nothing else; None where nothing of it is there any more."""
    if not of_case(node, case, prefix):
        return None
    tainted = case_on(node, prefix) == case.id
    annotated = was_marked(node, case, prefix)
    ours = node.annotations.get(f"{prefix}/cordoned-by") == "quarantine" and annotated and node.unschedulable
    guards = _guards_of_ours(node, prefix) if annotated else {}
    key = taint_key(prefix)
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=False if ours else None,
        taints=tuple(t for t in node.taints if not (t.key == key and t.value == case.id)) if tainted else None,
        labels={f"{prefix}/phase": None},
        annotations=dict.fromkeys((*guards, *(f"{prefix}/{name}" for name in _OWN))),
    )


def phase_label(node: Node, case: Case, prefix: str) -> NodePatch | None:
    """The label that follows the case's phase, and nothing else; None where it does, or our mark is not there."""
    key = f"{prefix}/phase"
    if not case.open or case_on(node, prefix) != case.id or node.labels.get(key) == case.phase.value:
        return None
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        labels={key: case.phase.value},
    )


_ENDED: Mapping[Phase, tuple[str, str]] = {
    Phase.RELEASED: ("Released", "is released"),
    Phase.DISMISSED: ("Dismissed", "is dismissed"),
    Phase.RETIRED: ("Retired", "ended, since its machine left"),
}


def condition_of(case: Case, node: Node) -> NodeCondition:
    """What the node's status says of the case: suspect for as long as it is marked. Its phase is told by the label."""
    if case.marked:
        reason, message = "Quarantined", f"case {case.id}: {case.reason}"
    else:
        reason, ends = _ENDED.get(case.phase, ("NotQuarantined", "takes no machine out"))
        message = f"case {case.id} {ends}"
    return NodeCondition(
        node=node.name,
        uid=node.machine.node_uid,
        status=case.marked,
        reason=reason,
        message=shorten(message, ANNOTATION_LIMIT),
    )


def _guarded(node: Node, prefix: str, guards: Mapping[str, str]) -> dict[str, str | None]:
    """The guards that are not there, and the record of all that are ours; an earlier case's stay so."""
    before = _guards_of_ours(node, prefix)
    added = {key: value for key, value in guards.items() if key not in node.annotations}
    ours = {**before, **added}
    if not ours and f"{prefix}/guards" not in node.annotations:
        return {}
    said = ",".join(f"{key}={_escaped(value)}" for key, value in sorted(ours.items()))
    return {**added, f"{prefix}/guards": said or None}


def _guards_of_ours(node: Node, prefix: str) -> dict[str, str]:
    """What our record says that we added, without what somebody gave another value since: that is theirs now."""
    recorded = node.annotations.get(f"{prefix}/guards", "")
    pairs = (pair.partition("=") for pair in recorded.split(",") if pair)
    known = {key: _plain(value) for key, _, value in pairs}
    return {key: value for key, value in known.items() if node.annotations.get(key, value) == value}


def _escaped(value: str) -> str:
    """A guard's value in a list that commas separate."""
    return value.replace("%", "%25").replace(",", "%2C")


def _plain(value: str) -> str:
    return value.replace("%2C", ",").replace("%25", "%")


def cordoned_by_us(patch: NodePatch, prefix: str) -> bool:
    """Whether a patch made by `mark` claims the cordon."""
    return patch.annotations.get(f"{prefix}/cordoned-by") == "quarantine"


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where something was left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
