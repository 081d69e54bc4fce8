"""Where a machine stands, and whether a fault stays there when the machine is exchanged."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from quarantine.core.case import Case, Finding, HeldBy, Phase
from quarantine.core.decision import Action, Kind, State
from quarantine.core.draft import Draft
from quarantine.core.fleet import FleetSpec
from quarantine.core.identity import position_of
from quarantine.core.model import Device, Machine, Node, Verdict

PLACE = "place/"  # of hold keys: a case whose fault was there before its machine

Sign = tuple[str, str]  # what is measured, and where in the machine


def place_of(node: Node, fleet: FleetSpec) -> str:
    """`rack=r7/slot=4`, by the fleet's labels of places; those that the node does not have are left out."""
    named = ((label.rpartition("/")[2], node.labels.get(label, "")) for label in fleet.place)
    return "/".join(f"{name}={value}" for name, value in named if value)


def same_place_before(state: State, case: Case, found: Iterable[Sign], fleet: FleetSpec) -> Case | None:
    """The latest case in whose place the same was found bad on a machine that was exchanged since for another one.

    `found`: what is found bad on the machine that stands there now. As far back as ended cases are remembered.
    """
    signs, here = set(found), _spot(case.machine, case.node, fleet)
    known = [other for other in state.cases.values() if _exchanged(other, case, here, fleet) and signs & _before(other)]
    return max(known, key=lambda other: (other.opened_at, other.id), default=None)


def sent_away(case: Case) -> Machine | None:
    """The machine that left on account of this case: another one took its place, or it went and never came back."""
    if case.sent_away is not None:
        part = same_chassis(case.machine, case.sent_away)
        return None if part else case.sent_away
    return case.machine if case.phase is Phase.RETIRED and case.told_provider else None


def same_chassis(now: Machine, then: Machine) -> bool:
    """Whether two records are of one machine, whatever Node object stands for it.

    A machine may be exchanged under a Node object that nobody deletes, so the object's uid is the last to be asked. But
    what has not booted since is what it was, whatever its firmware or its provider calls it now. (A boot id alone tells
    nothing: nodes that are containers of one host share its own.)
    """
    if now.boot_id and (now.boot_id, now.node_uid) == (then.boot_id, then.node_uid):
        return True
    if now.system_uuid and then.system_uuid:
        return now.system_uuid == then.system_uuid
    if now.provider_id and then.provider_id:
        return now.provider_id == then.provider_id
    return now.node_uid == then.node_uid


def began_before_swap(case: Case, finding: Finding) -> bool:
    """Whether it was found on the machine, or with the part, that was exchanged since."""
    return case.swapped_at is None or any(began < case.swapped_at for began, _ in finding.spells)


def swapped_whole_at(case: Case) -> datetime | None:
    """Since when another machine, and not a part of it, stands in the case; None where its own does."""
    if case.sent_away is None or same_chassis(case.machine, case.sent_away):
        return None
    return case.swapped_at or case.renewed_at  # an older record tells of the latter alone


def suspect(draft: Draft, case: Case) -> None:
    """Say that the place is the suspect, once: whoever exchanges machines there goes on doing so otherwise."""
    found = {_sign_of(f.evidence.signal, f.device) for f in case.findings if _on_present(case, f)}
    for name, device in draft.bad_now.get(case.node, frozenset()):
        policy = draft.rules.policy(name)
        if policy is not None:
            found.add(_sign_of(policy.measures, device))
    fleet = draft.rules.fleet
    before = same_place_before(draft.state, case, [sign for sign in found if sign is not None], fleet)
    if before is None:
        return
    where = case.machine.place if _complete(case.machine, fleet) else case.node
    reason = (
        f"what is found bad on {case.node} was found there on {before.opened_at:%Y-%m-%d} on another machine (case "
        f"{before.id}): the place {where} is the suspect (its cable, optic, switch port or slot), and not the machine"
    )
    held = {"held_by": HeldBy.SAME_PLACE, "hold_key": f"{PLACE}{case.id}"}
    draft.hold(draft.about_case(Kind.HELD, Action.SWAP, case, reason, **held))


def _on_present(case: Case, finding: Finding) -> bool:
    """Whether it was found bad on the machine that is there now."""
    return finding.verdict is Verdict.BAD and (case.swapped_at is None or finding.since >= case.swapped_at)


def _exchanged(other: Case, case: Case, here: str, fleet: FleetSpec) -> bool:
    away = sent_away(other)
    if away is None or same_chassis(case.machine, away):
        return False
    return _spot(away, other.node, fleet) == here


def _before(case: Case) -> set[Sign]:
    """What was found bad on the machine that left."""
    signs = (_sign_of(f.evidence.signal, f.device) for f in case.findings if began_before_swap(case, f))
    return {sign for sign in signs if sign is not None}


def _sign_of(signal: str, device: Device) -> Sign | None:
    position = position_of(device)
    return (signal, position) if signal and position is not None else None


def _spot(machine: Machine, node: str, fleet: FleetSpec) -> str:
    """Of a machine whose labels do not say all of its place, the node's name: a rack is no slot."""
    return machine.place if _complete(machine, fleet) else f"node {node}"


def _complete(machine: Machine, fleet: FleetSpec) -> bool:
    return bool(fleet.place) and machine.place.count("=") >= len(fleet.place)
