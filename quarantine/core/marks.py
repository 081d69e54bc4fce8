"""What a quarantine writes on a node, and what its end takes away: computed from the node as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quarantine.core.case import Case
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


def mark(node: Node, case: Case, *, prefix: str, reason: str, cordon: bool, phase: str) -> NodePatch:
    """Cordon, taint, label and annotate. A cordon that is there already is not ours (invariant 3)."""
    ours = Taint(key=taint_key(prefix), value=case.id, effect="NoSchedule")
    others = tuple(t for t in node.taints if not (t.key == ours.key and t.effect == ours.effect))
    # An earlier case's cordon, still to be taken away, is ours as well.
    ours_already = node.annotations.get(f"{prefix}/cordoned-by") == "quarantine"
    by_us = cordon and (ours_already or not node.unschedulable)
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=True if cordon else None,
        taints=(*others, ours),
        labels={f"{prefix}/phase": phase},
        annotations={
            f"{prefix}/case": case.id,
            f"{prefix}/reason": shorten(reason, ANNOTATION_LIMIT),
            f"{prefix}/cordoned-by": "quarantine" if by_us else "other",
        },
    )


def unmark(node: Node, case: Case, *, prefix: str) -> NodePatch | None:
    """Take away what `mark` added for this case, and nothing else; None where nothing of it is there any more."""
    tainted = case_on(node, prefix) == case.id
    annotated = node.annotations.get(f"{prefix}/case") == case.id
    if not tainted and not annotated:
        return None
    ours = node.annotations.get(f"{prefix}/cordoned-by") == "quarantine" and annotated and node.unschedulable
    key = taint_key(prefix)
    return NodePatch(
        node=node.name,
        uid=node.machine.node_uid,
        resource_version=node.resource_version,
        unschedulable=False if ours else None,
        taints=tuple(t for t in node.taints if not (t.key == key and t.value == case.id)) if tainted else None,
        labels={f"{prefix}/phase": None},
        annotations={f"{prefix}/{k}": None for k in ("case", "reason", "cordoned-by")},
    )


def cordoned_by_us(patch: NodePatch, prefix: str) -> bool:
    """Whether a patch made by `mark` claims the cordon."""
    return patch.annotations.get(f"{prefix}/cordoned-by") == "quarantine"


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where something was left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
