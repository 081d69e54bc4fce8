"""Waivers: a person's word that a machine stays in service for a while, from the command line or by annotation.

Nothing that is not fatal takes a waived machine out, whether it was known or not; nor does what the waiver was given
for, fatal or not. A fatal finding that is new breaks it. Once it is over, the machine is judged afresh.
"""

from __future__ import annotations

from datetime import datetime

from quarantine.core import signs
from quarantine.core.case import Case, Effect, HeldBy, Phase
from quarantine.core.decision import Action, Dismissal, Kind
from quarantine.core.draft import Draft, case_key
from quarantine.core.judge import Offence
from quarantine.core.marks import case_on, same_hardware
from quarantine.core.model import Node, Severity
from quarantine.core.treatment.endings import ending_effects

BY_ANNOTATION = "annotation on the node"  # the actor of what an annotation decides
WAIVED_KEY, _BROKEN = "waived/", "annotation/"  # of hold keys: an annotation that stands, one that cannot be read


def left_alone(draft: Draft, offence: Offence) -> Dismissal | None:
    """The word of a person by which this finding on this machine is left alone; a waiver's where there is one."""
    known = (offence.evidence.signal, offence.device)
    mild = offence.policy.spec.severity is not Severity.FATAL
    words = standing(draft, offence.node)
    waiver = next((word for word in words if word.waiver and (mild or known in word.findings)), None)
    return waiver or next((word for word in words if known in word.findings), None)


def waiver_of(draft: Draft, node: Node) -> Dismissal | None:
    """The waiver that stands on this machine, and holds until something fatal and new is found."""
    return next((word for word in standing(draft, node) if word.waiver), None)


def standing(draft: Draft, node: Node) -> list[Dismissal]:
    """Every word of a person that leaves something on this machine alone now; the command line's first."""
    sign = signs.waived(node, draft.rules.prefix, draft.now)
    found = [
        word
        for word in draft.state.dismissals
        if word.node == node.name
        and word.until > draft.now
        and same_hardware(node, word.machine)
        # What an annotation was given for stands as long as the annotation.
        and (word.by != BY_ANNOTATION or sign is not None)
    ]
    if sign is not None:
        found.append(Dismissal(node.name, node.machine, (), sign.until, _said(sign), waiver=True, by=BY_ANNOTATION))
    return found


def despite(draft: Draft, offence: Offence) -> str:
    """What is added to the reason where a finding breaks a waiver; empty where none stands."""
    word = waiver_of(draft, offence.node)
    if word is None or left_alone(draft, offence) is not None:
        return ""
    return f"; despite the waiver by {word.by} until {signs.in_utc(word.until)}, since this is new and fatal"


def annotated(draft: Draft) -> None:
    """What an annotation says counts while it stands: it ends the case that it finds, and keeps others from opening.

    That it stands is recorded once, so that a case that a fatal finding opens later is not ended by it: it is older.
    """
    seen = set()
    for node in (node for node in draft.nodes.values() if node.annotations):  # most have none that we keep
        sign = signs.waived(node, draft.rules.prefix, draft.now)
        if sign is not None:
            key = f"{WAIVED_KEY}{node.name}/{sign.until:%Y-%m-%dT%H:%M:%SZ}"
            seen.add(key)
            _take_note(draft, node, sign, key)
        for name, why in signs.unreadable(node, draft.rules.prefix):
            key = f"{_BROKEN}{node.name}/{name}"
            seen.add(key)
            held = {"held_by": HeldBy.BROKEN_ANNOTATION, "hold_key": key, "node": node.name, "machine": node.machine}
            draft.hold(draft.decision(Kind.HELD, Action.ANSWER, why, **held))
    for key in [k for k in draft.state.holds if k.startswith((WAIVED_KEY, _BROKEN)) and k not in seen]:
        name = key.split("/")[1]
        # A node that is out of sight may be back, and its annotation is none the younger then.
        if name in draft.nodes or not _looked_for(draft, name):
            draft.lift(key, f"the annotation of {name} stands no more, or says something else", node=name)


def _looked_for(draft: Draft, name: str) -> bool:
    """Whether a node has an open case; or one that ends in this cycle: planned again, that must yield nothing new."""
    cases = (case for case in draft.state.cases.values() if case.node == name)
    return any(case.open or case.phase_since >= draft.now for case in cases)


def _take_note(draft: Draft, node: Node, sign: signs.Sign, key: str) -> None:
    if key in draft.state.holds:
        return
    reason = f"{node.name} stays in service until {signs.in_utc(sign.until)} by its annotation: {_said(sign)}"
    held = {"held_by": HeldBy.WAIVED, "hold_key": key, "node": node.name, "machine": node.machine}
    draft.hold(draft.decision(Kind.HELD, Action.WAIVE, reason, actor=BY_ANNOTATION, **held))
    case = draft.open_case(node.name)
    if case is not None:
        put_back(draft, case, f"{reason}; case {case.id} ends by it", actor=BY_ANNOTATION, until=sign.until)


def put_back(
    draft: Draft,
    case: Case,
    reason: str,
    *,
    actor: str,
    until: datetime,
    request: str | None = None,
    waive: bool = False,
) -> None:
    """End a case by a person's word: its machine stays in service, or is put back, and its findings are left alone.

    `waive`: so is everything that is not fatal.
    """
    ended = Action.RELEASE if case.marked else Action.DISMISS
    draft.emit(
        draft.about_case(
            Kind.DECIDED,
            Action.WAIVE if waive else ended,
            case,
            reason,
            actor=actor,
            phase=Phase.RELEASED if case.marked else Phase.DISMISSED,
            hold_key=case_key(case.id),
            effects=ending_effects(case) or _marked_all_the_same(draft, case),
            until=until,
            request=request,
        )
    )


def _marked_all_the_same(draft: Draft, case: Case) -> tuple[Effect, ...]:
    """A ledger that is older than the cluster knows of a mark's case no more than its suspicion: the mark goes too."""
    node = draft.nodes.get(case.node)
    there = node is not None and case_on(node, draft.rules.prefix) == case.id
    return (Effect.UNMARK, Effect.CONDITION) if there else ()


def _said(sign: signs.Sign) -> str:
    return sign.reason or "no reason is given"
