"""Who took our marks off a node: the server keeps, in managedFields, who wrote the list of taints last (invariant 4).

A removed taint leaves no trace of its own. What tells is the owner of the list it was removed from: kubectl and the
consoles of people, a program of the fleet file, or any other program. A list that became empty has no owner; taking
away the last taint of a node is a person's way, so it counts as one.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from quarantine.core.case import Case, Effect, EffectStatus
from quarantine.core.marks import case_on, was_marked
from quarantine.core.model import Node

MANAGER = "quarantine"  # what we call ourselves in managedFields

# Field managers of what people work with. `kubectl` and all that begins so (kubectl-taint, kubectl-edit) is one.
# A console that names none is known by the User-Agent of its requests up to the first slash: Lens is `node-fetch`,
# consoles that hand on what the browser sends (OpenShift's, Rancher's, Headlamp's) are `Mozilla`. A program that calls
# itself so as well is to be named in the fleet file, which goes before this.
PEOPLES_TOOLS = ("k9s", "Lens", "node-fetch", "Freelens", "Headlamp", "headlamp", "dashboard", "Mozilla")

# Writes the list after every cordon and uncordon, so that its name hides who wrote before.
_FOLLOWS_CORDONS = "kube-controller-manager"


class Remover(StrEnum):
    """Who took our taint away."""

    PERSON = "person"
    AUTOMATON = "automaton"  # a program that the fleet file names: what it removes is nobody's word
    OURS = "ours"  # we wrote last: another installation with our prefix, or this one by another ledger
    REWRITER = "rewriter"  # a program that is not known, and wrote the list without our taint


def remover(node: Node, case: Case, automata: Collection[str]) -> Remover:
    """Who wrote the list of taints last, on a node whose taint of this case is not there any more."""
    manager = node.tainted_by
    if manager in automata:
        return Remover.AUTOMATON
    if not manager or manager.startswith("kubectl") or manager in PEOPLES_TOOLS:
        return Remover.PERSON
    if manager == MANAGER:
        return Remover.OURS
    # Who takes the taint away and uncordons wants the machine back; the controller that follows cordons then takes the
    # taint of the cordon away, and owns the list. A program that does both is to be named in the fleet file.
    if manager == _FOLLOWS_CORDONS and case.cordoned_by_us and not node.unschedulable:
        return Remover.PERSON
    return Remover.REWRITER


def mark_vanished(node: Node, case: Case, prefix: str) -> bool:
    """Whether our taint was on this Node object, and is not any more.

    Where the mark is still to be written, or to be written again, its annotations tell: a crash between a write and its
    record, or a person who is quicker than the next attempt, must not look like a node that was never marked.
    """
    mark = case.effects.get(Effect.MARK)
    if not case.marked or mark is None or case_on(node, prefix) == case.id:
        return False
    return mark.status is EffectStatus.DONE or was_marked(node, case, prefix)


def taken_back(node: Node, case: Case, prefix: str, automata: Collection[str]) -> bool:
    """Whether a person took our taint away, so that it is not to be written again. For the last moment before it is."""
    return mark_vanished(node, case, prefix) and remover(node, case, automata) is Remover.PERSON


def uncordoned(node: Node, case: Case, prefix: str) -> bool:
    """Whether somebody took our cordon away and left our taint."""
    mark = case.effects.get(Effect.MARK)
    done = case.marked and mark is not None and mark.status is EffectStatus.DONE
    ours = case.cordoned_by_us is True and case_on(node, prefix) == case.id
    return done and ours and not node.unschedulable
