"""What is written about a Node: the mark and its end, the label of the phase, the condition, the Event."""

from __future__ import annotations

from quarantine.core import marks, ownership
from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.errors import Conflict, NodeGone
from quarantine.core.model import Node
from quarantine.core.policy import Rules
from quarantine.core.treatment.owed import cordons
from quarantine.execute.outcome import Outcome
from quarantine.ports import Cluster


def mark(cluster: Cluster, rules: Rules, case: Case, node: Node | None) -> Outcome:
    """Taint, cordon, label and annotate. Never given up, or a bad machine would be in service with a case that says it
    is not: one that is not seen may be back, and the plan says what becomes of the case if it is not.

    Raises Conflict where the machine is not there, or where a person took the taint away a moment ago.
    """
    if node is None or not marks.machine_matches(node, case.machine):
        raise Conflict(f"{case.node} is not marked, since the machine of case {case.id} is not seen there")
    prefix = rules.prefix
    said = f"{marks.taint_key(prefix)}={case.id}:NoSchedule"
    if marks.case_on(node, prefix) == case.id:
        by_us = node.annotations.get(f"{prefix}/cordoned-by") == "quarantine"
        return Outcome(f"{case.node} carries the taint {said} already", node.resource_version, cordoned_by_us=by_us)
    if ownership.taken_back(node, case, prefix, rules.fleet.automata):
        raise Conflict(f"a person removed our taint from {case.node}: it is not put back before that is looked at")
    patch = marks.mark(
        node,
        case,
        prefix=prefix,
        reason=case.reason,
        cordon=cordons(case, rules),
        phase=case.phase.value,
        guards=rules.fleet.guards,
    )
    try:
        written = cluster.patch_node(patch)
    except NodeGone as error:
        raise Conflict(str(error)) from error
    by_us = marks.cordoned_by_us(patch, prefix)
    cordoned = by_us and patch.unschedulable and not node.unschedulable
    cordon = "cordoned and " if cordoned else "left cordoned as it was and " if node.unschedulable else ""
    return Outcome(f"{case.node} is {cordon}tainted {said}", written.resource_version, cordoned_by_us=by_us)


def unmark(cluster: Cluster, rules: Rules, case: Case, node: Node | None) -> Outcome:
    """Take away what `mark` added, and nothing else."""
    if node is None or not marks.machine_matches(node, case.machine):
        return Outcome(f"{case.node} is gone, so there is no mark to take away")
    try:
        if not marks.of_case(node, case, rules.prefix) and _marking_is_unknown(case):
            # A process that was succeeded may be about to send it: no write on what it read goes through after this.
            node = cluster.patch_node(marks.fence(node, case, prefix=rules.prefix))
        patch = marks.unmark(node, case, prefix=rules.prefix)
        if patch is None:
            return Outcome(f"{case.node} carries no mark of case {case.id} any more")
        written = cluster.patch_node(patch)
    except NodeGone as error:
        return Outcome(str(error))
    uncordoned = "uncordoned" if patch.unschedulable is False else "left as cordoned by others"
    done = uncordoned if node.unschedulable else "schedulable as before"
    return Outcome(f"the marks of case {case.id} are taken off {case.node}, which is {done}", written.resource_version)


def _marking_is_unknown(case: Case) -> bool:
    """Whether the case ended before it was known what became of its mark."""
    mark = case.effects.get(Effect.MARK)
    return mark is not None and mark.status in (EffectStatus.ABANDONED, EffectStatus.OVERTAKEN)


def phase(cluster: Cluster, rules: Rules, case: Case, node: Node | None) -> Outcome:
    """The label that says the phase, as the case stands now."""
    if node is None or not marks.machine_matches(node, case.machine):
        return Outcome(f"{case.node} is gone, so there is no phase to show", done=False)
    patch = marks.phase_label(node, case, rules.prefix)
    if patch is None:
        return Outcome(f"there is nothing to change about the phase that {case.node} shows")
    try:
        written = cluster.patch_node(patch)
    except NodeGone as error:
        return Outcome(str(error), done=False)
    return Outcome(f"{case.node} shows the phase {case.phase}", written.resource_version)


def condition(cluster: Cluster, rules: Rules, case: Case, node: Node | None) -> Outcome:
    """The node condition, as the case stands now; of two cases of a node, that of the one whose mark it carries."""
    if node is None or not marks.machine_matches(node, case.machine):
        return Outcome(f"{case.node} is gone, so there is no condition to show", done=False)
    other = marks.case_on(node, rules.prefix)
    if other not in (None, case.id):
        return Outcome(f"{case.node} shows what case {other} says, so case {case.id} says nothing there", done=False)
    if not case.open and node.suspect in ("", "False"):
        return Outcome(f"{case.node} shows no condition {marks.CONDITION} that would have to be taken back")
    made = marks.condition_of(case, node)
    try:
        cluster.set_condition(made)
    except NodeGone as error:
        return Outcome(str(error), done=False)
    return Outcome(f"{case.node} shows the condition {marks.CONDITION}={made.status}")


def event(cluster: Cluster, case: Case) -> Outcome:
    """The Kubernetes Event that says why. Its name is the case's, so that a repeat is recognised."""
    made = marks.NodeEvent(
        name=f"{case.node}.{case.id}",
        node=case.node,
        node_uid=case.machine.node_uid,
        reason="Quarantined",
        message=case.reason,
        warning=True,
    )
    try:
        cluster.create_event(made)
    except NodeGone as error:
        return Outcome(str(error), done=False)
    return Outcome(f"an Event on {case.node} says why", made.name)
