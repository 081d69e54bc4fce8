"""What was sent away and is in service again, under whatever name: it carries no mark, so people are told of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from quarantine.core import restored
from quarantine.core.case import Case, HeldBy, Phase
from quarantine.core.decision import Action, Kind
from quarantine.core.draft import Draft
from quarantine.core.marks import case_on
from quarantine.core.model import Node
from quarantine.core.treatment.departed import Departed, departed
from quarantine.core.treatment.place import same_chassis
from quarantine.core.treatment.swap import called, shared_uuid

RETURNED = "returned/"  # of hold keys: a node whose machine was sent away


def returned(draft: Draft) -> None:
    """Tell of every node without a case whose machine left on account of one, as far back as cases are remembered.

    After everything that opens and ends cases: what is marked is compared where it is identified (`swap`). Nothing is
    done to such a machine, since it may have been repaired; a gate would have it proven.
    """
    if restored.stands(draft) or draft.disbelieved:
        return
    gone = [left for left in departed(draft.state, draft.now) if left.machine is not None]
    found = {node.name: left for node in draft.nodes.values() if (left := _left(draft, node, gone)) is not None}
    for name, left in found.items():
        _tell(draft, draft.nodes[name], left)
    for key in [key for key in draft.state.holds if key.startswith(RETURNED)]:
        name = key.removeprefix(RETURNED)
        if name not in found:
            draft.lift(key, f"{name} is no machine in service that was sent away", node=name)


def _left(draft: Draft, node: Node, gone: Sequence[Departed]) -> Departed | None:
    """By which case the machine of this node was sent away, the latest; None where it was not, or is looked after."""
    if draft.open_case(node.name) is not None or case_on(node, draft.rules.prefix) is not None:
        return None
    left = next((left for left in reversed(gone) if left.machine and same_chassis(node.machine, left.machine)), None)
    if left is None or shared_uuid(draft, node.machine) or _let_in(draft, node, left.case):
        return None
    return left


def _let_in(draft: Draft, node: Node, case: Case) -> bool:
    """Whether the machine was put in service since, by its proof or by a person."""
    ended = (other for other in draft.state.cases.values() if other.phase in (Phase.RELEASED, Phase.DISMISSED))
    return any(other.phase_since > _sent_at(case) and same_chassis(node.machine, other.machine) for other in ended)


def _sent_at(case: Case) -> datetime:
    return (case.swapped_at or case.renewed_at or case.phase_since) if case.sent_away is not None else case.phase_since


def _tell(draft: Draft, node: Node, left: Departed) -> None:
    reason = (
        f"{node.name} is the machine that was sent away from {left.told} ({called(node.machine)}), and is in service "
        f"without having proven itself: was it repaired? if not, say quarantine open {node.name}"
    )
    held = {"held_by": HeldBy.SAME_MACHINE, "hold_key": f"{RETURNED}{node.name}"}
    draft.hold(
        draft.decision(
            Kind.HELD,
            Action.PROVE,
            reason,
            node=node.name,
            machine=node.machine,
            pool=draft.pool_name(node),
            **held,
        )
    )
